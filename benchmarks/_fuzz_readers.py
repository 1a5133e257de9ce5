"""Every reader of files and texts that come from elsewhere, each with sound contents to begin with."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Read = Callable[[Path], object]
Seeds = Callable[[], list[bytes]]


@dataclass(frozen=True)
class Reader:
    """How one kind of file is read, and sound examples of it."""

    name: str
    suffix: str
    seeds: Seeds
    read: Read
    apart: bool = False  # read in a process of its own, which may end by itself
    bombs: Seeds = list  # small files that unpack to giants, read as they are


def _frame(rows: int = 24) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = pd.DataFrame({
        "framework": rng.choice(["torch", "jax"], rows), "workers": rng.choice([1, 2, 4], rows),
        "batch_size": rng.choice([8, 16, 32], rows), "iteration": np.arange(rows),
    })  # fmt: skip
    made["t_iter"] = 0.01 * made["batch_size"] / made["workers"] + 0.02
    return made.assign(**{"t_f [ms]": 1000 * 0.4 * made["t_iter"], "note": "=x"})


# Tables


def _csv() -> list[bytes]:
    wide = _frame().to_csv(index=False).encode()
    long = b"workers,phase,mean_ms\n1,forward,2.5\n1,backward,5\n2,forward,2.5\n2,backward,5\n2,comm,1\n"
    return [wide, wide.replace(b",", b";"), long, "Größe;time (ms)\n1,024;12 ms\n2,048;13 ms\n".encode("latin-1")]


def _parquet() -> list[bytes]:
    made = []
    for frame in (_frame(), _frame().set_index("framework"), _frame().assign(flag=True, text=[b"x"] * 24)):
        content = io.BytesIO()
        frame.to_parquet(content)
        made.append(content.getvalue())
    return made


def _read_table(path: Path) -> object:
    from steplab.core.errors import SteplabError
    from steplab.models.columns.roles import Roles
    from steplab.models.columns.training_rows import choose
    from steplab.store.foreign.imported import write_study
    from steplab.store.foreign.times_csv import Wishes, read_times
    from steplab.store.source import read_source

    try:
        write_study(read_times([path], Wishes()), path.parent / "study", "")
    except SteplabError:
        pass
    else:
        _analysed(path.parent / "study")
    source = read_source(path)
    return choose(source.frame, None, Roles(), source.group, source.factors)


def _analysed(folder: Path) -> object:
    from steplab.analysis.sentences import sentences
    from steplab.analysis.study import analyse
    from steplab.store import tables

    loaded = tables.load(folder)
    analysis = analyse(loaded.trials, loaded.factors, loaded.iterations, loaded.layers, loaded.epochs)
    return [str(one) for one in sentences(analysis)], loaded.unreadable


# A study and its records


def _studies() -> list[bytes]:
    root = Path(__file__).parents[1] / "studies"
    ranged = (
        b"[study]\nname='r'\n[factors]\nframework='synthetic'\nbatch_size={low=8,high=64,scale='log'}\n"
        b"[design]\ntype='latin'\nn=5\n[[exclude]]\nframework='synthetic'\n"
    )
    return [path.read_bytes() for path in sorted(root.glob("*.toml"))] + [ranged]


def _read_study(path: Path) -> object:
    from steplab.study.file import read_study

    return read_study(path)


def _records() -> list[bytes]:
    from steplab.core.trial import trial_id

    made = []
    for workers, status, kind in ((1, "ok", "step"), (2, "ok", "step"), (2, "failed", "step"), (1, "ok", "train")):
        config = {"framework": "synthetic", "workers": workers, "batch_size": 8, "network": "lenet5"}
        times = {"t_iter": [0.3, 0.2, 0.2, 0.21], "t_f": [0.1] * 4, "t_b": [0.05] * 4, "t_wait": [0.01] * 4}
        mode = {"columns": times, "warmup": [True, False, False, False]}
        native = {"columns": {"t_iter": times["t_iter"]}, "warmup": mode["warmup"]}
        layers = [{"layer": name, "iteration": 1, "t_f": 0.01, "t_b": 0.02} for name in ("c1", "f2")]
        ranks = [
            {"rank": rank, "host": "h", "pid": 7, "cpu_s": 1.0, "peak_bytes": 1e8, "loss": 1.0, "layers": layers,
             "modes": {"native": native, "phased": mode}, "clock_offset_s": 0.0}
            for rank in range(workers)
        ]  # fmt: skip
        epoch = {"epoch": 1, "seconds": 1.0, "validation_s": 0.1, "iterations": 4, "loss": 1.0, "train_accuracy": 0.5,
                 "validation_accuracy": 0.5}  # fmt: skip
        made.append({
            "format": 2, "study": "s", "trial": trial_id(config, 0), "replicate": 0, "kind": kind, "status": status,
            "reason": "why", "log_tail": "", "config": config, "resolved": config | {"strategy": "sync", "threads": 1},
            "measure": {"iterations": 3}, "ranks": ranks if status == "ok" else [], "threads": 1,
            "machine": {"host": "h", "cpus": 2}, "data": {"name": "mnist", "source": "none", "samples": 0},
            "energy": {"joules": 3.0, "provenance": "estimated"}, "epochs": [epoch] if kind == "train" else [],
            "started": "2026-01-02T03:04:05+00:00", "seconds": 1.0, "command": "", "other_cpu_s": 0.1, "throttled": "",
        })  # fmt: skip
    return [json.dumps(one).encode() for one in made]


def _read_record(path: Path) -> object:
    """The record in a folder with sound ones, its id made to fit, and all that is computed from them."""
    from steplab.core.trial import trial_id

    folder = path.parent / "study"
    (folder / "records").mkdir(parents=True)
    for sound in map(json.loads, _records()[:2]):
        sound["config"] = sound["config"] | {"batch_size": 16}
        sound["trial"] = trial_id(sound["config"], 0)
        (folder / "records" / f"{sound['trial']}.json").write_text(json.dumps(sound))
    content, name = path.read_bytes(), "0" * 16
    try:
        document = json.loads(content)
        document["trial"] = name = trial_id(document["config"], document["replicate"])
        content = json.dumps(document).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    (folder / "records" / f"{name}.json").write_bytes(content)
    return _analysed(folder)


# Saved models and machines


@cache
def _models() -> list[bytes]:
    from steplab.models import load_model_class, model_names

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "filters": rng.choice([4.0, 8.0, 16.0], 60), "padding": rng.choice(["same", "valid"], 60),
        "batch_size": rng.choice([8.0, 16.0, 32.0], 60), "workers": rng.choice([1.0, 2.0, 4.0], 60),
        "lif": rng.uniform(1, 1.5, 60),
    })  # fmt: skip
    times = (
        0.1 * frame["filters"] * frame["batch_size"] ** 0.7 / frame["workers"] * (1 + 0.1 * np.sin(frame["filters"]))
    )
    made = []
    for name in model_names():
        cls = load_model_class(name)
        model = cls(("filters",), ("padding",), ("batch_size", "workers", "lif"), **cls.quick_options)
        made.append(json.dumps(model.fit(frame, pd.Series(times, name="t_iter")).to_document()).encode())
    return made


def _read_model(path: Path) -> object:
    from steplab.api.modelling.model_file import read_model
    from steplab.planning.predict import configurations, parse_configuration, predict_table

    model = read_model(path)
    given = parse_configuration("filters=8,padding=same,batch_size=16,workers=8,lif=1.2")
    found = predict_table(model, configurations(model, [given]))
    formula = model.formula()
    return found, formula and (formula.text, formula.latex), model.parameters()


def _machines() -> list[bytes]:
    from importlib import resources

    folder = resources.files("steplab.costs").joinpath("machines")
    return [file.read_bytes() for file in folder.iterdir() if file.name.endswith(".toml")]


def _read_machine(path: Path) -> object:
    from steplab.costs.machine_file import read_machine

    return read_machine(str(path))


# Traces and other programs' formats


def _traces() -> list[bytes]:
    def event(name: str, category: str, start: float, duration: float, **arguments: Any) -> dict[str, Any]:
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": 2,
            "ts": start,
            "dur": duration,
            "args": arguments,
        }

    events = []
    for step in range(3):
        at = 1000.0 * step
        events += [
            event(f"ProfilerStep#{step}", "user_annotation", at, 900),
            event("enumerate(DataLoader)#x", "user_annotation", at, 90),
            event("nn.Module: Linear_0", "python_function", at + 100, 200),
            event("aten::addmm", "cpu_op", at + 120, 100, **{"Sequence number": step}),
            event(
                "autograd::engine::evaluate_function: AddmmBackward0",
                "cpu_op",
                at + 350,
                200,
                **{"Sequence number": step},
            ),
            event("gloo:all_reduce", "user_annotation", at + 500, 200),
            event("cudaLaunchKernel", "cuda_runtime", at + 130, 5, correlation=step),
            event("Optimizer.step#SGD.step", "user_annotation", at + 750, 100),
        ]
    about = {"distributedInfo": {"rank": 0, "world_size": 1}, "host_name": "h", "baseTimeNanoseconds": 10**18}
    plain = json.dumps(about | {"traceEvents": events}).encode()
    kernels = [event("sgemm", "kernel", 1000.0 * step + 140, 50, correlation=step) for step in range(3)]
    device = json.dumps({"traceEvents": events + kernels}).encode()
    return [plain, device, json.dumps(events).encode(), gzip.compress(plain)]


def _read_trace(path: Path) -> object:
    from steplab.store.foreign.imported import write_study
    from steplab.store.foreign.kineto import read_kineto

    write_study(read_kineto(path), path.parent / "study", "")
    return _analysed(path.parent / "study")


def _extrap() -> list[bytes]:
    text = (
        b"PARAMETER workers\nPARAMETER batch_size\nPOINTS ( 1 8 ) ( 2 8 ) ( 4 16 )\n"
        b"REGION framework=torch\nMETRIC t_iter\nDATA 0.1 0.11\nDATA 0.2 0.21\nDATA 0.3 0.31\n"
        b"METRIC t_f\nDATA 0.05\nDATA 0.06\nDATA 0.07\n"
    )
    lines = [{"params": {"workers": n}, "callpath": "step", "metric": "time", "value": 0.1 * n} for n in (1, 2, 4)]
    return [text, "".join(json.dumps(line) + "\n" for line in lines).encode()]


def _read_extrap(path: Path) -> object:
    from steplab.store.foreign.extrap import read_extrap
    from steplab.store.foreign.imported import write_study

    write_study(read_extrap(path), path.parent / "study", "")
    return _analysed(path.parent / "study")


def _kernels() -> list[bytes]:
    counter = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
    wide = (
        f'"ID","Kernel Name","{counter}","dram__bytes.sum","gpu__time_duration.sum"\n"","","inst","Mbyte","usecond"\n'
    )
    wide += '"0","gemm(float*)","1,000,000","2","100"\n"1","copy","0","2","50"\n'
    long = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
    long += f'"0","1","gemm","{counter}","inst","5"\n"0","1","gemm","gpu__time_duration.sum","nsecond","7"\n'
    return [wide.encode(), b"==PROF== x\n" + long.encode()]


def _read_kernels(path: Path) -> object:
    from steplab.analysis.roofline.kernels import kernel_points, summed
    from steplab.costs.machine_file import read_machine
    from steplab.store.foreign.ncu import read_ncu

    return kernel_points(summed(read_ncu(path).kernels), read_machine("a100").rows[0])


@cache
def _networks() -> list[bytes]:
    from onnx import TensorProto, helper

    weights = [("w", (4, 3, 3, 3)), ("g", (8, 36))]
    initial = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, [0.1] * int(np.prod(shape))) for name, shape in weights
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Flatten", ["r"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "g"], ["y"], "dense", transB=1),
    ]
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])
    graph = helper.make_graph(nodes, "g", [taken], [given], initial)
    return [helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()]


def _read_network(path: Path) -> object:
    from steplab.costs.network import cost
    from steplab.costs.onnx_graph import from_model
    from steplab.costs.onnx_shapes import answer

    return cost(from_model(answer({"path": str(path), "batch": 2, "shape": None}), "file", 2))


# Data sets: one file of a small sound one is damaged


@cache
def _dataset(name: str) -> Path:
    from steplab_worker import data

    folder = Path(os.environ["FUZZ_ROOT"]) / f"data-{os.getpid()}" / name
    data.make(str(folder), name, 6 if name == "cifar10" else 2, 0)
    return folder


def _data_reader(name: str, file: str, bombs: Seeds = list) -> Reader:
    def read(path: Path) -> object:
        from steplab.runner.data.check import check

        folder = _dataset(name)
        kept = (folder / file).read_bytes()
        try:
            shutil.copyfile(path, folder / file)
            return check(folder, name)
        finally:
            (folder / file).write_bytes(kept)

    return Reader(f"{name}:{Path(file).name}", "", lambda: [(_dataset(name) / file).read_bytes()], read, bombs=bombs)


def _volume_bombs() -> list[bytes]:
    """Volumes whose header claims as much as is read, and little beside it."""
    import nibabel

    made = []
    for shape, kind in (((512, 512, 300), np.uint8), ((1024, 1024, 60), np.float64)):
        header = nibabel.Nifti1Header()
        header.set_data_dtype(kind)
        header.set_data_shape(shape)
        header["vox_offset"] = 352
        voxels = bytes(int(np.prod(shape)) * np.dtype(kind).itemsize)
        made.append(gzip.compress(header.binaryblock + bytes(4) + voxels, 1))
    return made


def _trace_bombs() -> list[bytes]:
    fillings = (b" ", b"{},", b"0,", b'{"ph":"X"},', b"[")
    return [gzip.compress(b'{"traceEvents": [' + one * ((300 << 20) // len(one)), 1) for one in fillings]


def _parquet_bombs() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = io.BytesIO()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int8)), pa.array(["same" * 100]))
    with pq.ParquetWriter(content, pa.schema({"a": column.type})) as writer:
        for _ in range(100):
            writer.write_table(pa.table({"a": column}))
    return [content.getvalue()]


# Texts of the command line


def _texts(*texts: str) -> Seeds:
    return lambda: [text.encode() for text in texts]


def _text_reader(work: Callable[[str], object]) -> Read:
    return lambda path: work(path.read_bytes().decode("utf-8", "surrogateescape"))


def _fit_formula(text: str) -> object:
    from steplab.models.families.user_formula import UserFormula

    frame = _frame(40)
    roles = ((), (), ("workers", "batch_size"))
    return UserFormula(*roles, expression=text).fit(frame, frame["t_iter"]).predict(frame)


def _holdout(text: str) -> object:
    from steplab.models.judging.selection import parse_holdout, range_split

    return range_split(_frame(), [parse_holdout(text)])


def _at(text: str) -> object:
    from steplab.planning.predict import parse_configuration

    return parse_configuration(text)


def _levels(text: str) -> object:
    from steplab.cli._options import levels

    return levels(text, "--set")


FORMULAS = (
    "a0 + a1*batch_size/workers",
    "workers**batch_size**a0",
    "max(a0, a1*log2(workers))*exp(-a2)",
    "a*`batch_size`^b",
)
READERS = (
    Reader("csv", ".csv", _csv, _read_table),
    Reader("parquet", ".parquet", _parquet, _read_table, bombs=_parquet_bombs),
    Reader("study", ".toml", _studies, _read_study),
    Reader("record", ".json", _records, _read_record),
    Reader("model", ".json", _models, _read_model),
    Reader("machine", ".toml", _machines, _read_machine),
    Reader("kineto", ".json", _traces, _read_trace, bombs=_trace_bombs),
    Reader("extrap", ".txt", _extrap, _read_extrap),
    Reader("ncu", ".csv", _kernels, _read_kernels),
    Reader("onnx", ".onnx", _networks, _read_network, apart=True),
    _data_reader("mnist", "train-images-idx3-ubyte"),
    _data_reader("mnist", "t10k-labels-idx1-ubyte"),
    _data_reader("cifar10", "cifar-10-batches-bin/test_batch.bin"),
    _data_reader("adni", "labels.csv"),
    _data_reader("adni", "volumes/train_00000.nii.gz", _volume_bombs),
    _data_reader("tinyimagenet", "tiny-imagenet-200/val/val_annotations.txt"),
    _data_reader("tinyimagenet", "tiny-imagenet-200/val/images/val_0.JPEG"),
    Reader("formula", "", _texts(*FORMULAS), _text_reader(_fit_formula)),
    Reader("holdout", "", _texts("workers>2", "batch_size<=16", "framework==torch"), _text_reader(_holdout)),
    Reader("at", "", _texts("batch_size=64,workers=4", "padding=same"), _text_reader(_at)),
    Reader("set", "", _texts("batch_size=64,network=resnet50", "a=1e3"), _text_reader(_levels)),
)
