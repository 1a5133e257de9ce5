"""A study's own network, data set and training step in real PyTorch: tried first, known by its code, measured."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from steplab.runner.environments import worker
from steplab.store import records, tables
from steplab.store.paths import StudyFolder

PATIENCE_S = 900  # for a machine that others use
OWN = """
import time
import torch
from torch import nn
from sizes import WIDTH

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))

def for_mnist():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))

def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 5))

def pair():
    class Two(nn.Module):
        def forward(self, samples):
            return samples, samples
    return Two()

def ranked():
    torch.distributed.get_rank()
    return for_mnist()

number = 3

class Squares(torch.utils.data.Dataset):
    classes = 10
    def __init__(self, seconds=0.0):
        self.samples = torch.rand(96, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        self.seconds = seconds
    def __len__(self):
        return 96
    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.samples[index], index % 10

def squares(split):
    return Squares()

def training_only():
    return Squares()

def slow():
    return Squares(0.2)

def words():
    return ["a", "b"]

def single():
    return nn.Sequential(nn.Linear(784, 1), nn.Flatten(0))

def nobody():
    return []

def numbered():
    return [{0: [1, 2]}]

def hollow():
    return [{"input_ids": []}]

def rounded():
    samples = Squares()
    samples.classes = -1.5
    return samples

def usual(net, optimizer, samples, labels):
    loss = nn.functional.cross_entropy(net(samples), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss

def forgetful(net, optimizer, samples, labels):
    net(samples)

class Output:
    def __init__(self, loss, logits):
        self.loss, self.logits = loss, logits

class Tagger(nn.Module):
    # As Hugging Face's models: arguments by name, an object with the loss if there are labels, and the logits.
    main_input_name = "input_ids"
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(256, 8), nn.Linear(8, 256)
    def forward(self, input_ids, attention_mask=None, labels=None):
        assert labels is None or not torch.is_inference_mode_enabled(), "a loss is no part of an inference"
        hidden = self.embedding(input_ids)
        if attention_mask is not None:
            hidden = hidden * attention_mask.unsqueeze(-1)
        logits = self.head(hidden)
        loss = None if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Output(loss, logits)

def tagger():
    return Tagger()

def frozen():
    net = Tagger()
    net.embedding.requires_grad_(False)
    return net

class Scorer(Tagger):
    def forward(self, input_ids, attention_mask=None, labels=None):
        return Output(None, super().forward(input_ids).logits)

def scorer():
    return Scorer()

class Texts(torch.utils.data.Dataset):
    def __init__(self, names):
        self.names = names
    def __len__(self):
        return 64
    def __getitem__(self, index):
        ids = [(index * 7 + at) % 256 for at in range(12)]
        arrays = {"input_ids": ids, "attention_mask": [1] * 8 + [0] * 4, "labels": ids[:8] + [-100] * 4}
        return {name: arrays.get(name, "a text") for name in self.names}

def texts(split):
    return Texts(["attention_mask", "input_ids", "labels"])

def unlabelled():
    return Texts(["input_ids", "attention_mask"])

def worded():
    return Texts(["input_ids", "words"])

def by_name(net, optimizer, samples, labels):
    assert (labels == samples["labels"]).all()
    loss = net(**samples).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
"""


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder with the user's code in two files, and around it what is not theirs."""
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "sizes.py").write_text("WIDTH = 16\n")
    (tmp_path / "code.py").write_text("def make():\n    pass\n")
    return tmp_path


def question(**said: object) -> dict[str, object]:
    """What a helper is asked about a network on MNIST."""
    usual = {"network": "module:mine:for_mnist", "dataset": "mnist", "step": "", "shape": [1, 28, 28], "classes": 10}
    return usual | {"tokens": False, "learns": True, "validates": False} | said


CASES = {
    "module:mine:nothing: there is no 'nothing' in": {"network": "module:mine:nothing"},
    "module:absent:make: ModuleNotFoundError: No module named 'absent'": {"network": "module:absent:make"},
    "module:mine:number: number is not a function": {"network": "module:mine:number"},
    "which hides": {"network": "module:code:make"},
    "module:mine:make does not take the samples of mnist (1x28x28): RuntimeError": {"network": "module:mine:make"},
    "module:mine:small gives 5 outputs for a sample, but mnist has 10 classes": {"network": "module:mine:small"},
    "gives a tuple, not a tensor; name a training step of your own": {"network": "module:mine:pair"},
    "module:mine:words: a sample is a str, not a pair": {"network": "lenet5", "dataset": "module:mine:words"},
    "has no parameter for the split": {"dataset": "module:mine:training_only", "validates": True},
    "module:mine:forgetful returned a NoneType, not the loss": {"step": "module:mine:forgetful"},
    "gives no `loss` for the samples of module:mine:unlabelled (input_ids, attention_mask): they need `labels`": {
        "network": "module:mine:tagger",
        "dataset": "module:mine:unlabelled",
    },
    "gives no `loss` for the samples of module:mine:texts (attention_mask, input_ids, labels): name a training step": {
        "network": "module:mine:scorer",
        "dataset": "module:mine:texts",
    },
    "gives a tuple, not a tensor; an inference gives a tensor": {"network": "module:mine:pair", "learns": False},
    "module:mine:nobody is empty": {"dataset": "module:mine:nobody"},
    "module:mine:numbered: 0 is no name of an array": {"dataset": "module:mine:numbered"},
    "module:mine:hollow: the 'input_ids' of a sample is empty": {"dataset": "module:mine:hollow"},
    "module:mine:rounded: its `classes` are -1.5, neither": {"dataset": "module:mine:rounded"},
    "module:mine:worded: 'words' of a sample is no numbers but str": {"dataset": "module:mine:worded"},
    "module:mine:for_mnist does not take the samples of module:mine:texts (attention_mask 12, input_ids 12,": {
        "dataset": "module:mine:texts",
    },
    "module:mine:texts: kind train needs samples that are pairs": {
        "network": "module:mine:tagger",
        "dataset": "module:mine:texts",
        "validates": True,
    },
}


@pytest.mark.framework("torch")
def test_what_is_wrong_with_ones_own_code_is_one_sentence(room: Path, torch_python: Path) -> None:
    questions = [question(paths=[str(room)], **said) for said in CASES.values()]
    answers = worker.answers(torch_python, "adapters.torch.own_code", {"questions": questions}, PATIENCE_S)
    for sentence, answer in zip(CASES, answers, strict=True):
        assert sentence in answer["error"]


@pytest.mark.framework("torch")
def test_code_is_known_by_the_files_it_imports_and_by_its_graph(room: Path, torch_python: Path) -> None:
    asked = [
        question(paths=[str(room)]),
        question(paths=[str(room)]),
        question(paths=[str(room)], network="module:mine:ranked"),
        question(paths=[str(room)], network="lenet5", dataset="module:mine:squares", validates=True),
    ]
    job = {"questions": asked}
    first, again, ranked, data = worker.answers(torch_python, "adapters.torch.own_code", job, PATIENCE_S)
    assert set(first["files"]) == {"mine.py", "sizes.py"}
    assert first == again
    assert ranked["graph"] == first["graph"], "the same network, although it wants to know its rank"
    assert (data["shape"], data["classes"], data["samples"], data["graph"]) == ([1, 8, 8], 10, 96, "")


def study(room: Path, factors: str, rest: str = "") -> Path:
    path = room / "study.toml"
    path.write_text(
        f'[study]\nname = "own"\n[factors]\nframework = ["torch"]\n{factors}\n[design]\nreplicates = 1\n'
        f"[measure]\niterations = 3\nwarmup = 1\n{rest or 'phases = false'}\n[data]\nsamples = 640\n"
    )
    return path


@pytest.mark.framework("torch")
def test_a_network_that_does_not_fit_its_data_is_told_on_a_screen(room: Path, on_terminal: Callable[..., Any]) -> None:
    study(room, 'network = ["module:mine:make"]')
    screen = on_terminal("run", "study.toml", "--dry-run")
    assert (screen.code, screen.widest <= 80) == (1, True)
    assert "module:mine:make does not take the samples of mnist (1x28x28): RuntimeError" in screen.text


@pytest.mark.framework("torch")
def test_a_changed_network_is_another_trial(
    room: Path, steplab: Callable[..., Any], on_terminal: Callable[..., Any]
) -> None:
    study(room, 'network = ["module:mine:for_mnist"]')
    first = on_terminal("run", "study.toml")
    assert first.code == 0, first.text
    assert f"module:mine:for_mnist:theranksruncodefrom{room}" in "".join(first.text.split())  # however it is broken
    assert "1 ok, 0 failed, 0 left of 1 trials in runs/own" in first.text
    same = steplab("run", "study.toml", "--dry-run", "--json", timeout=PATIENCE_S).json
    assert (same["left"], same["ok"]) == (0, 1)
    (record,) = records.all_records(StudyFolder(room / "runs/own"))
    assert record.config["code"] == same["plan"][0]["config"]["code"]
    assert set(record.own_code) == {"mine.py", "sizes.py", "graph"}

    (room / "sizes.py").write_text("WIDTH = 512\n")
    changed = steplab("run", "study.toml", "--dry-run", "--json", timeout=PATIENCE_S).json
    assert (changed["left"], changed["ok"]) == (1, 0)
    assert changed["plan"][0]["trial"] != record.trial
    assert re.search(r"1 left; estimated time", on_terminal("run", "study.toml", "--dry-run").text)
    assert steplab("status", "runs/own", "--json").json["left"] == 0, "of the code that was run; none is run to know it"
    roofline = steplab("roofline", "runs/own", "--machine", "a100", "--modules", room, timeout=PATIENCE_S)
    assert roofline.code == 1
    assert f"its code was {record.config['code']} when it was measured and is sha-" in roofline.err


@pytest.mark.framework("torch")
def test_own_data_steps_and_loaders_see_the_same_batches(
    room: Path, steplab: Callable[..., Any], no_orphans: Callable[[], None]
) -> None:
    """The losses tell: whichever loader reads, and whether the usual step is written by us or by the user."""
    study(
        room,
        'network = ["module:mine:make", "mlp"]\ndataset = ["module:mine:squares"]\nbatch_size = 16\n'
        'step = ["", "module:mine:usual"]\nloader = ["steplab", "dataloader"]\nloader_workers = 2',
    )
    ran = steplab("run", "study.toml", timeout=PATIENCE_S)
    assert ran.code == 0, ran.err
    no_orphans()
    trials = tables.load(room / "runs/own").trials
    assert len(trials) == 8
    assert set(trials["data_source"]) == {"own"}
    assert set(trials["sample"]) == {"1x8x8/10/96"}
    for _, alike in trials.groupby("network"):
        assert alike["loss"].tolist() == pytest.approx([alike["loss"].iloc[0]] * 4, rel=1e-5)


@pytest.mark.framework("torch")
def test_samples_of_named_arrays_go_to_the_network_by_name(
    room: Path, steplab: Callable[..., Any], no_orphans: Callable[[], None]
) -> None:
    """Its own loss is the loss, in phases and layers, too, and whoever reads or writes the step."""
    study(
        room,
        'network = ["module:mine:tagger"]\ndataset = ["module:mine:texts"]\nbatch_size = 8\nworkers = [1, 2]\n'
        'step = ["", "module:mine:by_name"]\nloader = ["steplab", "dataloader"]\nloader_workers = 1',
        "phases = true",
    )
    ran = steplab("run", "study.toml", timeout=PATIENCE_S)
    assert ran.code == 0, ran.err
    trials = tables.load(room / "runs/own").trials
    assert len(trials) == 8
    assert set(trials["sample"]) == {"12/0/64"}
    usual = trials[trials["step"] == ""]
    assert (usual["t_f"] > 0).all() and (usual["t_b"] > 0).all()
    layers = tables.load(room / "runs/own").layers.to_pandas()
    assert set(layers["layer"]) == {"embedding", "head"}
    # Phased iterations come after the native ones, so only trials with the same modes have seen as many batches.
    for _, alike in trials.groupby(["workers", "step"]):
        assert alike["loss"].tolist() == pytest.approx([alike["loss"].iloc[0]] * 2, rel=1e-5)


@pytest.mark.framework("torch")
def test_a_network_with_logits_takes_the_built_in_texts(room: Path, steplab: Callable[..., Any]) -> None:
    study(room, 'network = ["module:mine:tagger"]\ndataset = ["bytes"]\nbatch_size = 2')
    ran = steplab("run", "study.toml", timeout=PATIENCE_S)
    assert ran.code == 0, ran.err
    (loss,) = tables.load(room / "runs/own").trials["loss"]
    assert loss == pytest.approx(5.5, abs=0.5), "about log 256: nothing is learned in three steps"


@pytest.mark.framework("torch")
def test_an_inference_leaves_the_labels_among_samples_alone(room: Path, steplab: Callable[..., Any]) -> None:
    """The network would compute a loss of them, which would be timed."""
    path = study(room, 'network = ["module:mine:tagger"]\ndataset = ["module:mine:texts"]\nbatch_size = 8')
    path.write_text(path.read_text().replace('name = "own"', 'name = "own"\nkind = "infer"'))
    ran = steplab("run", "study.toml", timeout=PATIENCE_S)
    assert ran.code == 0, ran.err


@pytest.mark.framework("torch")
def test_memory_of_ones_own_network_is_seen_in_a_step(room: Path, steplab: Callable[..., Any]) -> None:
    words = ("inspect", "module:mine:tagger", "--dataset", "module:mine:texts", "--modules", room, "--json")
    held = steplab(*words, "--memory", "--batch", 4, "--optimizer", "adam", "--within", "1MB", timeout=PATIENCE_S).json
    parameters = 4 * (256 * 8 + 8 * 256 + 256)
    assert (held["parameter_bytes"], held["state_bytes"]) == (parameters, 2 * parameters)
    kept = {layer["name"]: layer["activation_bytes"] for layer in held["layers"]}
    assert kept["embedding"] == 4 * 12 * 8, "the tokens, which are 8 bytes each"
    assert kept["head"] == 4 * 12 * 8 * 4, "its input"
    shares = 4 * 12 * 256 * 4
    assert held["peak_bytes"] > 3 * parameters + shares
    assert held["largest_batch"] > 4
    larger = steplab(*words, "--memory", "--batch", held["largest_batch"] + 1, "--optimizer", "adam").json
    assert larger["peak_bytes"] > 1_000_000
    counted = steplab(*words, "--batch", 4, timeout=PATIENCE_S).json
    assert counted["forward_matmul_flops"] == 2 * 4 * 12 * 8 * 256


@pytest.mark.framework("torch")
def test_memory_of_ones_own_network_has_frozen_weights_without_gradients_and_buckets_of_several_workers(
    room: Path, steplab: Callable[..., Any]
) -> None:
    words = ("inspect", "module:mine:frozen", "--dataset", "module:mine:texts", "--modules", room, "--memory", "--json")
    alone = steplab(*words, "--batch", 4, "--optimizer", "adam", timeout=PATIENCE_S).json
    learned, frozen = 4 * (8 * 256 + 256), 4 * 256 * 8
    assert (alone["parameter_bytes"], alone["gradient_bytes"]) == (learned + frozen, learned)
    assert (alone["state_bytes"], alone["bucket_bytes"]) == (2 * learned, 0)
    several = steplab(*words, "--batch", 4, "--optimizer", "adam", "--workers", 2, timeout=PATIENCE_S).json
    assert several["bucket_bytes"] == several["peak_bytes"] - alone["peak_bytes"] == learned
    refused = steplab(*words, "--classes", 3)
    assert (refused.code, "classes and options are for built-in networks" in refused.err) == (1, True)


@pytest.mark.framework("torch")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("module:mine:single", "--input", "784"), "module:mine:single: it gives a number for a sample, not a score"),
        (("module:mine:tagger", "--dataset", "module:mine:nobody"), "module:mine:tagger: module:mine:nobody is empty"),
        (("gpt2", "--dataset", "module:mine:texts"), "an environment and a data set are for networks of one's own"),
        (("onnx:net.onnx",), "what training holds is not known of an ONNX file"),
    ],
)
def test_what_has_no_memory_to_look_at_is_one_sentence(
    room: Path, steplab: Callable[..., Any], words: tuple[str, ...], problem: str
) -> None:
    told = steplab("inspect", *words, "--modules", room, "--memory", timeout=PATIENCE_S)
    assert (told.code, problem in told.err, "FactoryError" in told.err) == (1, True, False), told.err


@pytest.mark.framework("torch")
def test_loader_processes_die_with_their_rank(room: Path, no_orphans: Callable[..., None]) -> None:
    study(
        room,
        'network = ["module:mine:make"]\ndataset = ["module:mine:slow"]\nloader = "dataloader"\nloader_workers = 2',
    )
    mark, steplab = os.environ["STEPLAB_TEST_MARK"], Path(sys.executable).with_name("steplab")
    with subprocess.Popen([steplab, "run", "study.toml"], cwd=room, stderr=subprocess.DEVNULL) as laboratory:
        deadline = time.monotonic() + PATIENCE_S
        while not _loaders(mark):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        laboratory.send_signal(signal.SIGKILL)
    no_orphans()


def _loaders(mark: str) -> list[psutil.Process]:
    """The processes whose parent runs the same worker program: a rank's own children."""
    members = [process for process in psutil.process_iter(["environ", "cmdline"]) if _is_rank(process, mark)]
    pids = {process.pid for process in members}
    return [process for process in members if process.ppid() in pids]


def _is_rank(process: psutil.Process, mark: str) -> bool:
    command, variables = process.info["cmdline"] or (), process.info["environ"] or {}
    return variables.get("STEPLAB_TEST_MARK") == mark and "--channel" in command


@pytest.mark.framework("torch")
def test_a_training_validates_on_ones_own_test_split(room: Path, steplab: Callable[..., Any]) -> None:
    path = study(room, 'network = ["module:mine:make"]\ndataset = ["module:mine:squares"]\nbatch_size = 16')
    path.write_text(path.read_text().replace('name = "own"', 'name = "own"\nkind = "train"') + "[train]\nepochs = 2\n")
    ran = steplab("run", "study.toml", timeout=PATIENCE_S)
    assert ran.code == 0, ran.err
    epochs = tables.load(room / "runs/own").epochs.to_pandas()
    assert epochs["validation_accuracy"].between(0, 1).all()
    assert len(epochs) == 2
