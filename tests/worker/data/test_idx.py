import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab_worker import data
from steplab_worker.data import DataError

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def write(folder, images, labels):
    (folder / IMAGES).write_bytes(images)
    (folder / LABELS).write_bytes(labels)
    return folder


def test_reads_exactly_the_bytes_of_the_original_layout(tmp_path):
    pixels = np.arange(3 * 784, dtype=np.int64).astype(np.uint8)
    images = struct.pack(">IIII", 0x803, 3, 28, 28) + pixels.tobytes()
    write(tmp_path, images, struct.pack(">II", 0x801, 3) + bytes([7, 0, 9]))
    samples, labels = data.open_split(str(tmp_path), "mnist").read(np.array([2, 0]))
    assert labels.tolist() == [9, 7] and labels.dtype == np.int64 and samples.dtype == np.float32
    expected = (pixels.reshape(3, 1, 28, 28)[[2, 0]] / 255.0 - 0.1307) / 0.3081
    np.testing.assert_allclose(samples, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda images, labels: (images[:-1], labels), "truncated at offset 2367, 2368 bytes"),
        (lambda images, labels: (images + b"x", labels), "1 bytes too many from offset 2368"),
        (lambda images, labels: (images[:10], labels), "truncated at offset 10, inside the header"),
        (lambda images, labels: (b"\x1f\x8b\x08\x00" + images[4:], labels), "magic number 1f8b0800 at offset 0"),
        (lambda images, labels: (images, labels[:4] + struct.pack(">I", 2) + b"\0\0"), "2 labels at offset 4, but 3"),
        (lambda images, labels: (struct.pack(">IIII", 0x803, 3, 14, 56) + images[16:], labels), "images of 14x56"),
        (lambda images, labels: (struct.pack(">IIII", 0x803, 2**32 - 1, 28, 28) + images[16:], labels), "truncated"),
        (
            lambda images, labels: (images[:4] + struct.pack(">I", 0) + images[8:16], labels[:4] + bytes(4)),
            "no samples",
        ),
    ],
)
def test_a_damaged_file_is_named_with_the_offset(tmp_path, damage, says):
    images = struct.pack(">IIII", 0x803, 3, 28, 28) + bytes(3 * 784)
    write(tmp_path, *damage(images, struct.pack(">II", 0x801, 3) + bytes(3)))
    with pytest.raises(DataError, match=says) as caught:
        data.open_split(str(tmp_path), "mnist")
    assert str(tmp_path) in str(caught.value)


def test_a_label_outside_the_classes_is_named_with_its_offset(copy):
    folder = copy("mnist")
    with (folder / LABELS).open("r+b") as file:
        file.seek(8 + 5)
        file.write(b"\x0b")
    with pytest.raises(DataError, match="label 11 at offset 13, but there are 10 classes"):
        data.open_split(str(folder), "mnist")


def test_a_file_that_shrinks_while_in_use_is_an_error(copy):
    folder = copy("mnist")
    dataset = data.open_split(str(folder), "mnist")
    with (folder / IMAGES).open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(DataError, match="truncated at offset 1000 while in use"):
        dataset.read(np.arange(3))


@given(images=st.binary(max_size=64), labels=st.binary(max_size=32), whole=st.booleans(), count=st.integers(0, 2))
def test_any_bytes_give_samples_or_a_data_error(tmp_path_factory, images, labels, whole, count):
    folder = tmp_path_factory.getbasetemp() / "idx-fuzz"
    folder.mkdir(exist_ok=True)
    if whole:
        images = struct.pack(">IIII", 0x803, count, 28, 28) + images.ljust(784 * count, b"\0")
        labels = struct.pack(">II", 0x801, count) + labels
    write(folder, images, labels)
    try:
        dataset = data.open_split(str(folder), "mnist")
        samples, _ = dataset.read(np.arange(len(dataset)))
    except DataError as error:
        assert str(folder) in str(error)
    else:
        assert len(samples) == count > 0
