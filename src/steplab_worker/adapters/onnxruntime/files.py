"""A user's own network in an ONNX file, named `onnx:FILE`: where it is, and which files it consists of."""

from __future__ import annotations

import hashlib
import itertools
import os
from typing import Any, Dict, Iterable, Iterator, Sequence

import onnx

PREFIX = "onnx:"


class FileError(Exception):
    """The file is not there or is no model; the message names it."""


def model_file(network: str, folders: Sequence[str]) -> str:
    """The path of the file that `onnx:FILE` names, in the first of the folders that has it."""
    name = network[len(PREFIX) :]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            _expect_inside(network, path, folder)
            return path
    raise FileError("%s: there is no such file in %s" % (network, ", ".join(folders)))


def _expect_inside(network: str, path: str, folder: str) -> None:
    """Say so if a link leads out of the folder: a stranger's may point at whatever there is."""
    real = os.path.realpath(path)
    if not real.startswith(os.path.join(os.path.realpath(folder), "")):
        raise FileError("%s is a link to %s, which is not in %s" % (network, real, folder))


def file_hashes(network: str, folders: Sequence[str]) -> Dict[str, str]:
    """The hashes of the file and of those that it keeps its weights in, by their paths as the study names them."""
    path, name = model_file(network, folders), network[len(PREFIX) :]
    hashes = {name: _digest(path)}
    for location in sorted(set(external_files(path))):
        aside = os.path.join(os.path.dirname(path), location)
        if os.path.isabs(location) or ".." in location.split("/") or not os.path.isfile(aside):
            raise FileError("%s: its weights are in %s, which is not beside it" % (network, location))
        hashes[os.path.join(os.path.dirname(name), location)] = _digest(aside)
    return hashes


def external_files(path: str) -> Iterator[str]:
    """The files, beside the model's own, in which weights are."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's own errors have no common kind
        raise FileError("%s is no ONNX model (%s)" % (path, type(error).__name__)) from error
    functions = (tensor for function in model.functions for tensor in _tensors_of(function.node))
    for tensor in itertools.chain(_tensors(model.graph), functions):
        yield from (entry.value for entry in tensor.external_data if entry.key == "location")


def _tensors(graph: Any) -> Iterator[Any]:
    """The arrays of a graph and of those inside of it, the branches of an If or the body of a Loop."""
    yield from graph.initializer
    yield from _dense_parts(graph.sparse_initializer)
    yield from _tensors_of(graph.node)


def _tensors_of(nodes: Iterable[Any]) -> Iterator[Any]:
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        yield from [attribute.t, *attribute.tensors]
        yield from _dense_parts([attribute.sparse_tensor, *attribute.sparse_tensors])
        for inner in [attribute.g, *attribute.graphs]:
            yield from _tensors(inner)


def _dense_parts(sparse: Iterable[Any]) -> Iterator[Any]:
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)


def _digest(path: str) -> str:
    content = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            content.update(block)
    return content.hexdigest()
