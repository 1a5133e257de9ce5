import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from steplab_worker import data
from steplab_worker.data import DataError
from steplab_worker.data.image_folder import decode

ROOT = "tiny-imagenet-200"


def encoded(size, colour, kind="PNG", mode="RGB"):
    buffer = io.BytesIO()
    Image.new(mode, size, colour).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def imagenet(tmp_path):
    """Two classes with one red and one blue picture each, of different sizes."""
    for split in ("train", "val"):
        for wnid, colour in (("n02", (0, 0, 255)), ("n01", (255, 0, 0))):
            (tmp_path / split / wnid).mkdir(parents=True)
            (tmp_path / split / wnid / "a.JPEG").write_bytes(encoded((300, 500), colour))
    return tmp_path


def test_classes_are_the_sorted_folder_names_and_pixels_are_normalised(imagenet):
    samples, labels = data.open_split(str(imagenet), "imagenet", "test").read(np.array([1, 0]))
    assert labels.tolist() == [1, 0]
    blue = (np.array([0, 0, 1]) - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(samples[0].mean(axis=(1, 2)), blue, atol=1e-5)
    assert samples.flags.c_contiguous


def test_the_centre_is_what_remains(tmp_path):
    picture = np.zeros((64, 128, 3), dtype=np.uint8)
    picture[:, 32:96] = 200
    Image.fromarray(picture).save(tmp_path / "a.png")
    assert (decode(str(tmp_path / "a.png"), 64, 64, 1.0) == 200).all()


@pytest.mark.parametrize(("mode", "colour"), [("L", 255), ("CMYK", (0, 0, 0, 0)), ("1", 1)])
def test_other_colour_spaces_become_rgb(tmp_path, mode, colour):
    (tmp_path / "a.JPEG").write_bytes(encoded((64, 64), colour, "JPEG" if mode == "CMYK" else "PNG", mode))
    assert (decode(str(tmp_path / "a.JPEG"), 8, 8, 1.0) == 255).all()


def test_a_class_unknown_to_train_is_refused(imagenet):
    (imagenet / "val" / "n03").mkdir()
    with pytest.raises(DataError, match=r"val/n03: this class is not among those in train"):
        data.open_split(str(imagenet), "imagenet", "test")


def test_a_folder_without_images_is_refused(imagenet):
    for path in imagenet.glob("train/*/a.JPEG"):
        path.unlink()
    with pytest.raises(DataError, match="no images for train"):
        data.open_split(str(imagenet), "imagenet")


def test_validation_labels_come_from_the_annotations(copy):
    folder = copy("tinyimagenet")
    annotations = folder / ROOT / "val" / "val_annotations.txt"
    annotations.write_text("".join(f"val_{i}.JPEG\tn{7 - i:08d}\t0\t0\t1\t1\n" for i in range(6)))
    _, labels = data.open_split(str(folder), "tinyimagenet", "test").read(np.arange(6))
    assert labels.tolist() == [6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("val_0.JPEG\tn00000001\nval_1.JPEG\tn99999999\n", "no known class at offset 21"),
        ("val_0.JPEG\tn00000001\nval_1.JPEG\n", "no known class at offset 21"),
        ("val_0.JPEG\tn00000001\n", r"val_1.JPEG: no label in"),
    ],
)
def test_wrong_annotations_are_named(copy, text, says):
    folder = copy("tinyimagenet")
    (folder / ROOT / "val" / "val_annotations.txt").write_text(text)
    with pytest.raises(DataError, match=says):
        data.open_split(str(folder), "tinyimagenet", "test")


def test_a_truncated_picture_is_named(copy):
    folder = copy("tinyimagenet")
    dataset = data.open_split(str(folder), "tinyimagenet")
    first = sorted(folder.glob(f"{ROOT}/train/*/images/*.JPEG"))[0]
    first.write_bytes(first.read_bytes()[:900])
    with pytest.raises(DataError, match=f"{first.name}: corrupt or truncated, at or before offset 900"):
        dataset.read(np.array([0]))


def png_bomb(width, height):
    chunk = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = struct.pack(">I", 13) + b"IHDR" + chunk + struct.pack(">I", zlib.crc32(b"IHDR" + chunk))
    return b"\x89PNG\r\n\x1a\n" + body + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


@pytest.mark.parametrize("size", [(2000, 2000), (9000, 9000), (12000, 12000), (60000, 60000)])
def test_a_header_that_claims_more_than_the_file_can_hold_is_refused(tmp_path, size):
    (tmp_path / "a.png").write_bytes(png_bomb(*size))
    with pytest.raises(DataError, match=r"a.png: .*(too many for 45 bytes|exceeds limit)"):
        decode(str(tmp_path / "a.png"), 64, 64, 1.0)


@given(
    kind=st.sampled_from(["JPEG", "PNG"]),
    cut=st.integers(0, 900),
    edits=st.lists(st.tuples(st.integers(0, 899), st.integers(0, 255)), max_size=6),
)
def test_any_bytes_give_a_picture_or_a_data_error(tmp_path_factory, kind, cut, edits):
    path = tmp_path_factory.getbasetemp() / "fuzz.JPEG"
    content = bytearray(encoded((48, 40), (10, 200, 30), kind))
    for at, value in edits:
        content[at % len(content)] = value
    path.write_bytes(bytes(content[: len(content) - cut] if cut < 500 else content))
    try:
        assert decode(str(path), 32, 32, 1.0).shape == (32, 32, 3)
    except DataError as error:
        assert str(path) in str(error)
