"""Study files: right ones are read, wrong ones get one sentence with file, line, field and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.core.errors import StudyError
from steplab.design.plan import plan
from steplab.study.file import locate, parse_study

PATH = Path("study.toml")
GOOD = """
[study]
name = "x"
[factors]
framework = ["synthetic"]
batch_size = [32, 64]
workers = [1, 2]
[design]
replicates = 2
[measure]
iterations = 5
"""

NUMBERS = list(range(1, 1000))
# what is written in place of what, and what the sentence must say
WRONG = {
    "syntax": ("[study]", "[study", "line 2"),
    "unknown section": ("[design]", "[desing]", "did you mean 'design'?"),
    "missing section": ('[study]\nname = "x"', "", "[study] is missing"),
    "missing name": ('name = "x"', "", "'name' is missing"),
    "name not text": ('name = "x"', "name = 3", "study.name"),
    "name with a slash": ('name = "x"', 'name = "a/b"', "study.name"),
    "unknown kind": ('name = "x"', 'name = "x"\nkind = "steps"', "must be 'exchange' or 'infer' or 'step' or 'train'"),
    "unknown field": ("replicates = 2", "replicate = 2", "did you mean 'replicates'?"),
    "unknown factor": ("batch_size =", "batchsize =", "did you mean 'batch_size'?"),
    "unknown framework": ('["synthetic"]', '["pytorch"]', "must be one of"),
    "near framework": ('["synthetic"]', '["sinthetic"]', "did you mean 'synthetic'?"),
    "unknown network": ("batch_size =", 'network = ["lenet"]\nbatch_size =', "did you mean 'lenet5'?"),
    "unknown dataset": ("batch_size =", 'dataset = ["mnst"]\nbatch_size =', "did you mean 'mnist'?"),
    "own network with a file's ending": (
        "batch_size =",
        'network = ["module:net.py:make"]\nbatch_size =',
        "'module:file:function', without '.py'",
    ),
    "own network without a function": (
        "batch_size =",
        'network = ["module:net"]\nbatch_size =',
        "must look like 'module:file:function'",
    ),
    "own data set as a path": (
        "batch_size =",
        'dataset = ["module:a/b:make"]\nbatch_size =',
        "must look like 'module:file:function'",
    ),
    "an ONNX file": (
        "batch_size =",
        'network = ["onnx:a.onnx"]\nbatch_size =',
        "is a file that only onnxruntime runs, in studies of kind 'infer'; `steplab inspect onnx:a.onnx` counts it",
    ),
    "an ONNX file in a study of steps": (
        'framework = ["synthetic"]',
        'framework = ["synthetic", "onnxruntime"]\nnetwork = ["onnx:a.onnx"]',
        "only onnxruntime runs, in studies of kind 'infer'",
    ),
    "an ONNX file elsewhere": (
        "batch_size =",
        'network = ["onnx:../a.onnx"]\nbatch_size =',
        "must name a file in the study's folder, 'onnx:net.onnx'",
    ),
    "an ONNX file as a data set": ("batch_size =", 'dataset = ["onnx:a.onnx"]\nbatch_size =', "must be one of"),
    "a step that is no function": (
        'framework = ["synthetic"]',
        'framework = ["torch"]\nstep = ["fast"]',
        "must look like 'module:file:function'",
    ),
    "code is not for studies to say": ("batch_size =", 'code = ["sha-0"]\nbatch_size =', "unknown factor 'code'"),
    "option of another network": ("batch_size =", "units = [3]\nbatch_size =", "unknown factor 'units'"),
    "zero batch": ("[32, 64]", "[0]", "must be at least 1"),
    "fractional batch": ("[32, 64]", "[1.5]", "must be of the kind of 32"),
    "batch as text": ("[32, 64]", '["32"]', "must be of the kind of 32"),
    "no levels": ("[32, 64]", "[]", "has no levels"),
    "repeated level": ("[32, 64]", "[32, 32]", "stands twice"),
    "nested level": ("[32, 64]", "[[32]]", "is not a plain value"),
    "wrong strategy": ("batch_size =", 'strategy = ["acumulate:4"]\nbatch_size =', "accumulate:k"),
    "accumulate nothing": ("batch_size =", 'strategy = ["accumulate:0"]\nbatch_size =', "accumulate:k"),
    "two batches": ("batch_size =", "global_batch_size = [64]\nbatch_size =", "two factors set the batch"),
    "indivisible batch": ("batch_size = [32, 64]", "global_batch_size = [3]", "cannot be divided among 2 workers"),
    "workers thrice": ("workers =", "nodes = 1\nranks_per_node = 1\nworkers =", "give two of workers, nodes and"),
    "uneven nodes": ("workers =", "nodes = 2\nworkers =", "1 workers cannot be divided evenly among 2 nodes"),
    "rate without a net": ("workers =", 'rate = "1gbit"\nworkers =', "needs placement = 'net:NAME'"),
    "rate without a unit": ("workers =", 'rate = "fast"\nworkers =', "a rate such as '1gbit'"),
    "placement without a net": ("workers =", 'placement = "box"\nworkers =', "must be 'net:NAME'"),
    "unknown executor": ("[design]", "[executor.host]\n[design]", "did you mean 'hosts'?"),
    "executor that is no section": ("[study]", "executor = 1\n[study]", "must hold sections"),
    "unknown field of an executor": ("[design]", '[executor.hosts]\nname = ["a"]\n[design]', "did you mean 'names'?"),
    "host that is an option": ("[design]", '[executor.hosts]\nnames = ["-v"]\n[design]', "executor.hosts.names"),
    "range in a factorial": ("[32, 64]", "{ low = 1, high = 9 }", "a range needs a random, latin or adaptive design"),
    "upside-down range": ("[32, 64]", "{ low = 9, high = 1 }", "factors.batch_size"),
    "replicates zero": ("replicates = 2", "replicates = 0", "greater than or equal to 1"),
    "replicates text": ("replicates = 2", 'replicates = "2"', "valid integer"),
    "random without n": ("replicates = 2", 'type = "random"', "n (the number of configurations)"),
    "negative timeout": ("iterations = 5", "iterations = 5\ntimeout_s = -1", "greater than 0"),
    "infinite timeout": ("iterations = 5", "iterations = 5\ntimeout_s = inf", "measure.timeout_s"),
    "warmup word": ("iterations = 5", 'warmup = "never"', "'auto'"),
    "exclude unknown factor": ("[measure]", "[[exclude]]\nworker = 2\n[measure]", "did you mean 'workers'?"),
    "exclude unknown level": ("[measure]", "[[exclude]]\nworkers = 3\n[measure]", "3 is not a level of workers"),
    "exclude everything": ("[measure]", "[[exclude]]\nworkers = [1, 2]\n[measure]", "no configuration is left"),
    "impossible network": ("batch_size =", "kernel_size = [40]\nbatch_size =", "does not fit"),
    "learning rate below zero": ("batch_size =", "learning_rate = [-0.1]\nbatch_size =", "must be at least 0.0"),
    "too many combinations": ("[32, 64]", f"{NUMBERS}\nthreads = {NUMBERS}", "combinations"),
    "section as a value": ("[design]\nreplicates = 2", "[other]", "unknown section 'other'"),
}


def test_there_are_more_than_thirty_wrong_files() -> None:
    assert len(WRONG) >= 30


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_gets_its_sentence(case: str) -> None:
    old, new, said = WRONG[case]
    assert old in GOOD
    with pytest.raises(StudyError) as caught:
        plan(parse_study(GOOD.replace(old, new, 1), PATH))
    sentence = str(caught.value)
    assert sentence.startswith("study.toml")
    assert said in sentence
    assert "\n" not in sentence


def test_the_sentence_names_the_line() -> None:
    with pytest.raises(StudyError, match=r"study\.toml, line 6, factors\.batchsize: unknown factor"):
        parse_study(GOOD.replace("batch_size", "batchsize"), PATH)


def test_locate_finds_the_second_of_two_tables() -> None:
    text = "[[exclude]]\na = 1\n[[exclude]]\na = 2\n"
    assert locate(text, "exclude", "a", index=1) == 4


def test_a_good_file_gives_its_trials() -> None:
    trials = plan(parse_study(GOOD, PATH))
    assert len(trials) == 2 * 2 * 2
    assert len({trial.id for trial in trials}) == 8


@settings(max_examples=200)
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    try:
        parse_study(text, PATH)
    except StudyError as error:
        assert str(error)


@settings(max_examples=150)
@given(
    st.sampled_from(GOOD.strip().splitlines()),
    st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=8), st.lists(st.integers(0, 9), max_size=3)),
)
def test_any_value_in_any_field_is_read_or_refused(line: str, value: object) -> None:
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    text = GOOD.replace(line, f"{line.partition('=')[0]} = {shown}")
    try:
        parse_study(text, PATH)
    except StudyError as error:
        assert str(error)


def test_where_a_field_stands_is_found_at_once_in_odd_texts() -> None:
    text = 'description = """\n[' + 20_000 * " " + '\n"""\n[design]\nseed = 1\n'
    assert locate(text, "design", "seed") == 5


@pytest.mark.parametrize("level", ["true", "{a = 1}", "2026-01-01"])
@pytest.mark.parametrize("factor", ["workers = [1, 2]", "workers = {low = 1, high = 8}"])
def test_what_is_no_level_cannot_be_excluded(level: str, factor: str) -> None:
    design = '[design]\ntype = "random"\nn = 3\n' if "low" in factor else ""
    text = (
        f'[study]\nname = "x"\n[factors]\nframework = "synthetic"\n{factor}\n{design}[[exclude]]\nworkers = {level}\n'
    )
    with pytest.raises(StudyError, match="is not a level of workers"):
        parse_study(text, Path("x.toml"))
