"""TinyImageNet-200 and ImageNet as folders of JPEG (or PNG) files, one folder per class; needs Pillow.

TinyImageNet: `train/<wnid>/images/*.JPEG`, `val/images/*.JPEG` and `val/val_annotations.txt`, in the folder itself or
in `tiny-imagenet-200` inside it. ImageNet: `train/<wnid>/*.JPEG` and `val/<wnid>/*.JPEG`. A class is the place of its
folder's name among the sorted names in `train`; a subset of the classes is fine. An image is scaled and cut about its
centre to the shape of the samples, for ImageNet leaving a sixteenth out on each side (the usual 224 of 256).
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, List, Tuple

import numpy as np

from steplab_worker.data import DataError, Dataset, Spec
from steplab_worker.data._files import decoding, expect_package, file_size, normalise, read_lines
from steplab_worker.data._images import balanced_labels, class_patterns, generator, images

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DATASETS = {
    "tinyimagenet": Spec((3, 64, 64), 200, 100000, 10000, 10000, MEAN, STD),
    "imagenet": Spec((3, 224, 224), 1000, 1281167, 50000, 2000, MEAN, STD),
}
ENDINGS = (".jpeg", ".jpg", ".png")
KEPT = {"tinyimagenet": 1.0, "imagenet": 224 / 256}  # the part of the shorter side that is seen
MAX_PIXELS = 80000000
# Deflate packs at most 1032 to 1 and JPEG less: a header that claims more is a bomb or broken.
MAX_PIXELS_PER_BYTE = 2000


def _root(folder: str, name: str) -> str:
    inside = os.path.join(folder, "tiny-imagenet-200")
    return inside if name == "tinyimagenet" and os.path.isdir(inside) else folder


def _annotations(root: str) -> str:
    return os.path.join(root, "val", "val_annotations.txt")


def required(folder: str, name: str) -> List[str]:
    """The paths without which the data set cannot be read."""
    root = _root(folder, name)
    if name == "tinyimagenet":
        return [os.path.join(root, "train"), os.path.join(root, "val", "images"), _annotations(root)]
    return [os.path.join(root, "train"), os.path.join(root, "val")]


def _listed(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise DataError("%s: %s" % (folder, error.strerror)) from None


def _images_in(folder: str) -> List[str]:
    return [os.path.join(folder, file) for file in _listed(folder) if file.lower().endswith(ENDINGS)]


def class_names(root: str, name: str) -> Dict[str, int]:
    """The classes, by the names of their folders in `train`."""
    train = os.path.join(root, "train")
    names = [folder for folder in _listed(train) if os.path.isdir(os.path.join(train, folder))]
    if len(names) > DATASETS[name].classes:
        raise DataError("%s: %d classes, but %s has %d" % (train, len(names), name, DATASETS[name].classes))
    return {folder: label for label, folder in enumerate(names)}


def _by_folder(folder: str, classes: Dict[str, int], inner: str) -> List[Tuple[str, int]]:
    images = []
    for name in _listed(folder):
        inside = os.path.join(folder, name)
        if not os.path.isdir(inside):
            continue
        if name not in classes:
            raise DataError("%s: this class is not among those in train" % inside)
        images += [(path, classes[name]) for path in _images_in(os.path.join(inside, inner))]
    return images


def _by_annotations(root: str, classes: Dict[str, int]) -> List[Tuple[str, int]]:
    annotations, labels, offset = _annotations(root), {}, 0
    for line in read_lines(annotations):
        parts = os.fsdecode(line).split()
        if len(parts) < 2 or parts[1] not in classes:
            raise DataError("%s: no known class at offset %d" % (annotations, offset))
        labels[parts[0]] = classes[parts[1]]
        offset += len(line)
    images = _images_in(os.path.join(root, "val", "images"))
    nameless = [path for path in images if os.path.basename(path) not in labels]
    if nameless:
        raise DataError("%s: no label in %s" % (nameless[0], annotations))
    return [(path, labels[os.path.basename(path)]) for path in images]


class ImageFolder(Dataset):
    """One split of a data set of image files, decoded when they are read."""

    def __init__(self, folder: str, name: str, split: str) -> None:
        self._spec, self._kept = DATASETS[name], KEPT[name]
        self.shape, self.classes = self._spec.shape, self._spec.classes
        root = _root(folder, name)
        classes = class_names(root, name)
        if name == "tinyimagenet":
            train = os.path.join(root, "train")
            files = _by_folder(train, classes, "images") if split == "train" else _by_annotations(root, classes)
        else:
            files = _by_folder(os.path.join(root, "train" if split == "train" else "val"), classes, "")
        if not files:
            raise DataError("%s: no images for %s" % (root, split))
        self._paths = [path for path, _ in files]
        self._labels = np.array([label for _, label in files], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, indices: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The samples as float32 (channels first, normalised) and their labels as int64."""
        height, width = self.shape[1:]
        pixels = np.empty((len(indices), height, width, 3), dtype=np.uint8)
        for row, index in enumerate(indices):
            pixels[row] = decode(self._paths[index], height, width, self._kept)
        return normalise(np.moveaxis(pixels, -1, 1), self._spec), self._labels[indices]


def decode(path: str, height: int, width: int, kept: float) -> np.ndarray:
    """One image file as bytes (height, width, 3): the centre, cut to that shape."""
    from PIL import Image

    with decoding(path) as file:
        image = Image.open(file, formats=("JPEG", "PNG"))
        _expect_plausible(image.size, path)
        # One step from the file's pixels to the sample's: the box is what resizing and cutting would keep.
        box = _centre(image.size, height, width, kept)
        return np.asarray(image.convert("RGB").resize((width, height), Image.BILINEAR, box=box))


def _expect_plausible(size: Tuple[int, int], path: str) -> None:
    pixels, length = size[0] * size[1], file_size(path)
    if pixels > min(MAX_PIXELS, MAX_PIXELS_PER_BYTE * length):
        raise DataError("%s: the header claims %dx%d pixels, too many for %d bytes" % (path, *size, length))


def _centre(size: Tuple[int, int], height: int, width: int, kept: float) -> Tuple[float, float, float, float]:
    """The box in the middle with the proportions of the sample; `kept` is the part of the shorter side.

    >>> _centre((512, 256), 224, 224, 224 / 256)
    (144.0, 16.0, 368.0, 240.0)
    """
    scale = kept * min(size[0] / width, size[1] / height)
    left, top = (size[0] - scale * width) / 2, (size[1] - scale * height) / 2
    return left, top, left + scale * width, top + scale * height


def open_split(folder: str, name: str, split: str) -> Dataset:
    """Open one split of TinyImageNet or ImageNet; the test split is the original validation split."""
    expect_package("PIL", "pillow")
    return ImageFolder(folder, name, split)


def make(folder: str, name: str, samples: int, seed: int) -> None:
    """Write learnable images in the original layout, with as many class folders as the original."""
    expect_package("PIL", "pillow")
    spec = DATASETS[name]
    # ImageNet's pictures are drawn small and scaled up: a thousand large patterns would fill the memory.
    drawn = spec if name == "tinyimagenet" else dataclasses.replace(spec, shape=(3, 32, 32))
    bases = class_patterns(drawn, name, seed)
    wnids = ["n%08d" % (label + 1) for label in range(spec.classes)]
    for part, (split, count) in enumerate((("train", samples), ("val", spec.test_samples(samples)))):
        rng = generator(name, seed, part)
        labels = balanced_labels(count, spec.classes, rng)
        paths = _places(folder, name, split, [wnids[label] for label in labels], wnids)
        done = 0
        for pictures in images(labels, bases, rng):
            for path, picture in zip(paths[done:], pictures):
                _write(path, picture, name, rng)
            done += len(pictures)


def _places(folder: str, name: str, split: str, own: List[str], wnids: List[str]) -> List[str]:
    """Make the folders (and the annotations) of a split; the paths of its images."""
    root = os.path.join(folder, "tiny-imagenet-200") if name == "tinyimagenet" else folder
    if name == "tinyimagenet" and split == "val":
        os.makedirs(os.path.join(root, "val", "images"))
        with open(_annotations(root), "w") as file:
            file.writelines("val_%d.JPEG\t%s\t0\t0\t63\t63\n" % (i, wnid) for i, wnid in enumerate(own))
        return [os.path.join(root, "val", "images", "val_%d.JPEG" % i) for i in range(len(own))]
    inner = "images" if name == "tinyimagenet" else ""
    for wnid in wnids:
        os.makedirs(os.path.join(root, split, wnid, inner))
    return [os.path.join(root, split, wnid, inner, "%s_%d.JPEG" % (wnid, i)) for i, wnid in enumerate(own)]


def _write(path: str, picture: np.ndarray, name: str, rng: np.random.Generator) -> None:
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(np.moveaxis(picture, 0, -1)))
    if name == "imagenet":
        image = _enlarged(image, rng)
    image.save(path, "JPEG", quality=92)


def _enlarged(image: Any, rng: np.random.Generator) -> Any:
    """At about the size of ImageNet's pictures, with grain, so that decoding costs what it does there."""
    from PIL import Image

    width, height = (int(rng.integers(400, 501)), int(rng.integers(333, 376)))
    large = np.asarray(image.resize((width, height), Image.BICUBIC))
    grain = rng.integers(0, 60, large.shape, dtype=np.uint8)
    return Image.fromarray(large // 4 * 3 + grain)
