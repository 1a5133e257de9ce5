import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab_worker import data
from steplab_worker.data import DataError


def test_reads_exactly_the_bytes_of_the_original_layout(tmp_path):
    rng = np.random.default_rng(0)
    records = rng.integers(0, 10, (7, 3073), dtype=np.uint8)
    for i, rows in enumerate(np.array_split(records, 5), start=1):
        (tmp_path / f"data_batch_{i}.bin").write_bytes(rows.tobytes())
    (tmp_path / "test_batch.bin").write_bytes(records[:1].tobytes())
    dataset = data.open_split(str(tmp_path), "cifar10")
    samples, labels = dataset.read(np.array([6, 0, 3]))
    assert len(dataset) == 7
    assert labels.tolist() == records[[6, 0, 3], 0].tolist()
    mean, std = (np.array(v).reshape(1, 3, 1, 1) for v in (data.spec("cifar10").mean, data.spec("cifar10").std))
    expected = (records[[6, 0, 3], 1:].reshape(3, 3, 32, 32) / 255.0 - mean) / std
    np.testing.assert_allclose(samples, expected, atol=1e-5)


def test_the_class_of_cifar100_is_the_fine_label(tmp_path):
    for file in ("train.bin", "test.bin"):
        (tmp_path / file).write_bytes(bytes([19, 98]) + bytes(3072))
    _, labels = data.open_split(str(tmp_path), "cifar100").read(np.array([0]))
    assert labels.tolist() == [98]


@pytest.mark.parametrize(("at", "value", "says"), [(3074, 20, "label 20 at offset 3074"), (1, 100, "at offset 1")])
def test_a_wrong_label_of_cifar100_is_named_with_its_offset(copy, at, value, says):
    folder = copy("cifar100")
    with (folder / "cifar-100-binary" / "train.bin").open("r+b") as file:
        file.seek(at)
        file.write(bytes([value]))
    with pytest.raises(DataError, match=says):
        data.open_split(str(folder), "cifar100").read(np.arange(3))


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_a_file_with_part_of_a_record_is_refused(copy, size):
    folder = copy("cifar10")
    (folder / "cifar-10-batches-bin" / "data_batch_2.bin").write_bytes(bytes(size))
    with pytest.raises(DataError, match=f"data_batch_2.bin: truncated at offset {size}"):
        data.open_split(str(folder), "cifar10")


def test_a_missing_file_is_named(copy):
    folder = copy("cifar10")
    (folder / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_4.bin: No such file"):
        data.open_split(str(folder), "cifar10")


@given(record=st.binary(min_size=3074, max_size=3074) | st.binary(max_size=40))
def test_any_bytes_give_samples_or_a_data_error(tmp_path_factory, record):
    folder = tmp_path_factory.getbasetemp() / "cifar-fuzz"
    folder.mkdir(exist_ok=True)
    for file in ("train.bin", "test.bin"):
        (folder / file).write_bytes(record)
    try:
        data.open_split(str(folder), "cifar100").read(np.array([0]))
    except DataError as error:
        assert "train.bin" in str(error) and "offset" in str(error)
    else:
        assert record[0] < 20 and record[1] < 100
