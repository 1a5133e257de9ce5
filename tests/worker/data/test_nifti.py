import gzip
import tracemalloc

import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab_worker import data
from steplab_worker.data import DataError
from steplab_worker.data.nifti import SLAB_VOXELS, read_volume


def content(voxels, slope=None):
    image = nibabel.Nifti1Image(voxels, np.eye(4))
    if slope is not None:
        image.header.set_slope_inter(slope, 1.0)
    return image.to_bytes()


def ramp(shape=(5, 6, 7)):
    return np.arange(np.prod(shape), dtype=np.int16).reshape(shape)


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_voxels_are_those_that_were_written(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    nibabel.save(nibabel.Nifti1Image(ramp(), np.eye(4)), path)
    assert np.array_equal(read_volume(str(path), (5, 6, 7)), ramp())


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
def test_scaling_and_byte_order_are_those_of_nibabel(tmp_path, kind):
    header = kind.header_class(endianness=">")
    header.set_data_dtype(np.uint8)
    path = tmp_path / "a.nii"
    nibabel.save(kind(np.linspace(0, 1, 60).reshape(3, 4, 5, 1), np.eye(4), header), path)
    expected = nibabel.load(path).get_fdata()[..., 0]
    np.testing.assert_allclose(read_volume(str(path), (3, 4, 5)), expected, rtol=1e-6)


def test_a_volume_of_another_size_is_sampled_evenly(tmp_path):
    path = tmp_path / "a.nii"
    path.write_bytes(content(np.arange(12, dtype=np.int16).reshape(6, 1, 2)))
    assert read_volume(str(path), (3, 2, 1))[:, :, 0].tolist() == [[3, 3], [7, 7], [11, 11]]


def test_a_volume_in_several_slabs_is_that_of_nibabel(tmp_path):
    voxels = np.random.default_rng(0).integers(0, 255, (512, 512, 3 * SLAB_VOXELS // 512**2 - 1), dtype=np.uint8)
    (tmp_path / "a.nii").write_bytes(content(voxels))
    places = [(np.arange(64) * side + side // 2) // 64 for side in voxels.shape]
    assert np.array_equal(read_volume(str(tmp_path / "a.nii"), (64, 64, 64)), voxels[np.ix_(*places)])


def test_a_giant_in_a_small_file_takes_little_memory(tmp_path):
    path = tmp_path / "a.nii.gz"
    path.write_bytes(gzip.compress(content(np.zeros((512, 512, 256), np.uint8), slope=2.0)))
    tracemalloc.start()
    try:
        read_volume(str(path), (64, 64, 64))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The whole of it would be 512 MiB as doubles; a slab with all that is made of it is a sixteenth of that.
    assert peak < 128 << 20


def test_an_offset_beyond_all_headers_is_refused_before_anything_is_unpacked(tmp_path):
    raw = bytearray(content(ramp()))
    raw[108:112] = np.float32(1 << 30).tobytes()
    (tmp_path / "a.nii.gz").write_bytes(gzip.compress(bytes(raw) + bytes(2 << 20)))
    with pytest.raises(DataError, match="from offset 1073741824 on, too many"):
        read_volume(str(tmp_path / "a.nii.gz"), (5, 6, 7))


def test_samples_are_standardised_and_labels_come_from_the_table(copy):
    folder = copy("adni")
    rows = (folder / "labels.csv").read_text().splitlines()[1:]
    diagnoses = [row.split(",")[1] for row in rows if row.endswith("train")]
    samples, labels = data.open_split(str(folder), "adni").read(np.arange(10))
    assert labels.tolist() == [diagnosis == "AD" for diagnosis in diagnoses]
    np.testing.assert_allclose(samples.mean(axis=(1, 2, 3, 4)), 0, atol=1e-5)
    np.testing.assert_allclose(samples.std(axis=(1, 2, 3, 4)), 1, atol=1e-4)
    middle = samples[:, 0, 18:46, 18:46, 18:46].mean(axis=(1, 2, 3))
    assert middle[labels == 1].max() < middle[labels == 0].min()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("file,diagnosis,split\n", "the columns at offset 0 must be file,label,split"),
        ("file,label,split\na.nii,MCI,train\n", "offset 17: label 'MCI', expected one of CN, AD"),
        ("file,label,split\na.nii,AD,val\n", "offset 17: split 'val', expected one of train, test"),
        ("file,label,split\n../../etc/passwd,AD,train\n", "is no file name"),
        ("file,label,split\na.nii,AD\n", "offset 17: 2 cells"),
        ("file,label,split\ngone.nii,AD,train\n", r"gone.nii: No such file"),
        ("file,label,split\n", "no volumes for train"),
        ("file,label,split\n\n\xff,AD,train\n", "offset 18"),
        ("", "no volumes for train"),
    ],
)
def test_a_wrong_table_is_named_with_the_offset(tmp_path, table, says):
    (tmp_path / "volumes").mkdir()
    (tmp_path / "labels.csv").write_bytes(table.encode("latin-1"))
    with pytest.raises(DataError, match=says):
        data.open_split(str(tmp_path), "adni")


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("a.nii", lambda raw: raw[:-3], "claims 5x6x7 voxels from offset 352 on, too many for 769 bytes"),
        ("a.nii.gz", lambda raw: gzip.compress(raw[:-3]), "truncated at offset 769 of the unpacked data, 772 expected"),
        ("a.nii.gz", lambda raw: gzip.compress(raw)[:-20], "corrupt or truncated, at or before offset"),
        ("a.nii.gz", lambda raw: raw, "corrupt or truncated, at or before offset"),
        ("a.nii", lambda raw: b"", "no NIfTI header at offset 0, it begins with nothing"),
        ("a.nii", lambda raw: raw[:200], "truncated at offset 200, inside the header"),
        ("a.nii", lambda raw: raw[:42] + b"\xff\x7f" * 3 + raw[48:], "claims 32767x32767x32767 voxels"),
        ("a.nii", lambda raw: raw[:42] + b"\x00\x00" + raw[44:], r"gives the shape \(0, 6, 7\)"),
        ("a.nii", lambda raw: raw[:70] + b"\x20\x00" + raw[72:], "voxels of type complex64"),
        ("a.nii", lambda raw: raw[:108] + b"\x00\x00\xc0\x7f" + raw[112:], "corrupt or truncated"),
    ],
)
def test_a_damaged_volume_is_named_with_the_offset(tmp_path, name, damage, says):
    path = tmp_path / name
    path.write_bytes(damage(content(ramp())))
    with pytest.raises(DataError, match=says) as caught:
        read_volume(str(path), (5, 6, 7))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_a_voxel_that_is_no_usable_number_is_named(tmp_path, value):
    voxels = np.zeros((2, 2, 2))
    voxels[1, 0, 0] = value
    (tmp_path / "a.nii").write_bytes(content(voxels))
    with pytest.raises(DataError, match="the voxel at offset 360 is not a usable number"):
        read_volume(str(tmp_path / "a.nii"), (2, 2, 2))


@given(
    packed=st.booleans(),
    cut=st.integers(0, 900),
    edits=st.lists(st.tuples(st.integers(0, 359), st.integers(0, 255)), max_size=6),
)
def test_any_bytes_give_a_volume_or_a_data_error(tmp_path_factory, packed, cut, edits):
    path = tmp_path_factory.getbasetemp() / ("fuzz.nii.gz" if packed else "fuzz.nii")
    damaged = bytearray(content(ramp(), slope=2.0))
    for at, value in edits:
        damaged[at] = value
    whole = bytes(damaged[: len(damaged) - cut] if cut < 600 else damaged)
    path.write_bytes(gzip.compress(whole, 1) if packed else whole)
    try:
        assert np.isfinite(read_volume(str(path), (5, 6, 7))).all()
    except DataError as error:
        assert str(path) in str(error)


@given(edits=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_gzip_stream_gives_a_volume_or_a_data_error(tmp_path_factory, edits):
    path = tmp_path_factory.getbasetemp() / "stream.nii.gz"
    damaged = bytearray(gzip.compress(content(ramp()), 1))
    for at, value in edits:
        damaged[at % len(damaged)] = value
    path.write_bytes(bytes(damaged))
    try:
        read_volume(str(path), (5, 6, 7))
    except DataError as error:
        assert str(path) in str(error)
