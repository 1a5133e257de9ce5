"""`steplab sources`: lists, runs, is interrupted and continued, fills the pages; mistakes are one sentence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import steplab
from steplab.api.reproduction import summaries
from steplab.api.reproduction.smoke import smoke_text
from steplab.api.reproduction.summaries import digest
from steplab.cli import sources as command
from steplab.core.errors import StoreError
from steplab.core.record import Record
from steplab.sources import load_source, source_names
from steplab.store import records
from steplab.study.file import parse_study

ROOT = Path(__file__).parents[2]
SYNTHETIC = """\
[study]
name = "ssgd-frameworks-laptop"
[factors]
framework = ["synthetic"]
network = ["lenet5"]
batch_size = [8]
workers = [1, 2]
[design]
replicates = 3
[measure]
iterations = 6
warmup = 2
"""
InProcess = Callable[..., SimpleNamespace]
StudyFile = Callable[..., Path]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder like a checkout before anything was run: pages, and a study of one source on a virtual clock."""
    pages = Path(shutil.copytree(ROOT / "docs" / "sources", tmp_path / "docs" / "sources"))
    for name in source_names():
        shutil.rmtree(pages / "data" / name, ignore_errors=True)
    steplab.rebuild_pages(pages)
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "ssgd-frameworks-laptop.toml").write_text(SYNTHETIC)
    return tmp_path


def test_the_list_has_every_source_with_its_trials_and_time(in_process: InProcess) -> None:
    shown = in_process("sources", "--list", "--studies", ROOT / "studies", "--json")
    assert [row["name"] for row in shown.json["sources"]] == source_names()
    assert all(row["trials"] == row["left"] > 0 and row["seconds"] > 0 for row in shown.json["sources"])
    assert shown.json["seconds"] == pytest.approx(sum(row["seconds"] for row in shown.json["sources"]))
    assert "estimated time of all" in in_process("sources", "--list", "--studies", ROOT / "studies").out


def test_a_source_is_run_and_its_page_filled(checkout: Path, in_process: InProcess) -> None:
    page = checkout / "docs/sources/ssgd-frameworks.md"
    assert "runs/sources" not in page.read_text()
    done = in_process("sources", "--only", "ssgd-frameworks", "--json")
    assert (done.code, done.json["pages"]) == (0, ["docs/sources/ssgd-frameworks.md"])
    (study,) = done.json["sources"][0]["studies"]
    assert (study["ok"], study["left"]) == (6, 0)
    assert (
        "$ steplab run studies/ssgd-frameworks-laptop.toml --out runs/sources/ssgd-frameworks-laptop"
        in page.read_text()
    )
    assert "| synthetic |" in page.read_text()
    assert {claim["verdict"] for claim in done.json["sources"][0]["claims"]} <= {
        "confirmed", "refuted", "not decidable here"}  # fmt: skip
    again = in_process("sources", "--only", "ssgd-frameworks", "--json")
    assert again.json["pages"] == []  # nothing was left to run, nothing has changed
    assert in_process("sources", "--rebuild").out.strip() == "all pages are as their tables say"


def test_a_page_that_was_changed_by_hand_is_filled_from_its_tables(checkout: Path, in_process: InProcess) -> None:
    in_process("sources", "--only", "ssgd-frameworks")
    page = checkout / "docs/sources/ssgd-frameworks.md"
    right = page.read_text()
    page.write_text(right.replace("| synthetic |", "| magic |"))
    assert in_process("sources", "--rebuild", "--json").json == {"pages": ["docs/sources/ssgd-frameworks.md"]}
    assert page.read_text() == right


def test_the_command_below_a_table_makes_that_very_table(checkout: Path, in_process: InProcess) -> None:
    again = ("sources", "--only", "ssgd-frameworks", "--table", "speedup")
    done = in_process(*again, "--json")
    (row,) = done.json["table"]
    page = (checkout / "docs/sources/ssgd-frameworks.md").read_text()
    assert f"Repeat it: `{' '.join(('steplab', *again))}`" in page
    assert f"| lenet5 | synthetic | 2 | {row['t_alone']:.4g} | {row['t_iter']:.4g} |" in page
    assert f"| {row['efficiency']:.4g} | {row['speedup']:.4g} |" in page
    shown = in_process(*again, "--rebuild").out
    assert f"{row['speedup']:.4g}" in shown
    assert in_process(*again, "--rebuild", "--json").json == {"pages": [], "table": [row]}


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("--only", "ssgd-frameworks", "--table", "speedups"), 1, "has no table 'speedups'"),
        (("--only", "ssgd-frameworks", "--table", "speedup", "--rebuild"), 1, "was not run to its end at laptop size"),
        (("--table", "speedup"), 2, "--table goes with one --only"),
        (("--only", "ssgd-frameworks", "--table", "speedup", "--size", "smoke"), 2, "not with --size smoke"),
    ],
)
def test_a_table_that_cannot_be_shown_is_refused_before_anything_runs(
    checkout: Path, in_process: InProcess, words: tuple[str, ...], code: int, what: str
) -> None:
    ended = in_process("sources", *words)
    assert (ended.code, ended.out if code == 2 else "") == (code, "")
    assert what in " ".join(ended.err.replace("│", "").split())
    assert not (checkout / "runs").exists()


def test_the_page_above_has_the_verdicts_of_all(checkout: Path, in_process: InProcess) -> None:
    above = checkout / "docs" / "sources.md"
    above.write_text((ROOT / "docs" / "sources.md").read_text())
    in_process("sources", "--rebuild")
    assert above.read_text().count("| Not yet run. |") == sum(len(load_source(n).questions) for n in source_names())
    done = in_process("sources", "--only", "ssgd-frameworks", "--json")
    assert "docs/sources.md" in done.json["pages"]
    for claim in done.json["sources"][0]["claims"]:
        assert f"| {claim['question']} | **{claim['verdict']}** | {claim['sentence']} |" in above.read_text()
    above.write_text("# A page without a place for them\n")
    ended = in_process("sources", "--rebuild")
    assert (ended.code, "has no block 'verdicts'" in " ".join(ended.err.split())) == (1, True)


def test_an_interrupted_source_goes_on_and_its_page_waits(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    stop = steplab.Stop()

    class AfterOne(steplab.RunObserver):
        def on_record(self, record: Record) -> None:
            stop.asked = True

    class Watched:
        def __init__(self, planned: steplab.StudyPlan) -> None:
            pass

        def __enter__(self) -> steplab.RunObserver:
            return AfterOne()

        def __exit__(self, *error: object) -> None:
            pass

    first = steplab.reproduce(["ssgd-frameworks"], watch=Watched, stop=stop)
    assert (first.stopped, first.runs[0].left, first.runs[0].claims, first.pages) == (True, 5, (), ())
    first_records = set((checkout / "runs/sources/ssgd-frameworks-laptop/records").iterdir())
    second = steplab.reproduce(["ssgd-frameworks"])
    assert (second.stopped, second.runs[0].left) == (False, 0)
    assert second.pages == (Path("docs/sources/ssgd-frameworks.md"),)
    assert first_records < set((checkout / "runs/sources/ssgd-frameworks-laptop/records").iterdir())


def test_a_full_size_shows_its_plan_its_time_and_its_batch_script(in_process: InProcess) -> None:
    study = ROOT / "studies" / "tf-sync-vs-accumulate-full.toml"
    shown = in_process("run", study, "--dry-run", "--executor", "slurm")
    assert shown.code == 0
    assert "180 trials: 36 configurations, 5 replicates" in shown.out
    assert "180 left; estimated time" in shown.out
    assert "#SBATCH --time=12:00:00" in shown.out


def test_new_records_make_new_tables(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    steplab.reproduce(["ssgd-frameworks"])
    ran = checkout / "docs/sources/data/ssgd-frameworks/laptop/ran.json"
    before = json.loads(ran.read_text())
    (checkout / "studies/ssgd-frameworks-laptop.toml").write_text(SYNTHETIC.replace("[1, 2]", "[1, 2, 3]"))
    assert steplab.reproduce(["ssgd-frameworks"]).pages
    after = json.loads(ran.read_text())
    assert (before["trials"], after["trials"]) == (6, 9)
    assert before["records"] != after["records"]


def test_the_same_trials_measured_again_make_new_tables(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    steplab.reproduce(["ssgd-frameworks"])
    ran = checkout / "docs/sources/data/ssgd-frameworks/laptop/ran.json"
    before = json.loads(ran.read_text())
    steplab.reproduce(["ssgd-frameworks"], out="elsewhere")
    after = json.loads(ran.read_text())
    assert after["records"] != before["records"]
    assert after["folders"] == ["elsewhere/ssgd-frameworks-laptop"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "ssgd-framework"], "there is no source 'ssgd-framework'; did you mean 'ssgd-frameworks'?"),
        (["--size", "huge"], "there is no size 'huge'; allowed: 'laptop', 'full', 'smoke'"),
        (["--studies", "nowhere"], "nowhere: there is no such folder; run it in a checkout, or give --studies DIR"),
        (["--executor", "moon"], "moon"),
        (["--rebuild", "--pages", "nowhere"], "there is no such page"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str, checkout: Path, in_process: InProcess) -> None:
    ended = in_process("sources", *words)
    assert ended.code == 1
    assert sentence in ended.err.replace("\n", " ")
    assert not (checkout / "runs").exists()


def test_a_damaged_summary_is_one_sentence(checkout: Path, in_process: InProcess) -> None:
    place = checkout / "docs/sources/data/ssgd-frameworks/laptop"
    place.mkdir(parents=True)
    (place / "ran.json").write_text('{"commands": 3}')
    ended = in_process("sources", "--rebuild")
    assert ended.code == 1
    assert "ran.json" in ended.err
    assert "is not a summary" in ended.err


def test_the_digest_is_another_one_when_a_trial_took_another_time(checkout: Path, study_file: StudyFile) -> None:
    steplab.run(study_file(), checkout / "out")
    before = digest([checkout / "out"])
    assert digest([checkout / "out"]) == before
    record = next((checkout / "out/records").iterdir())
    document = json.loads(record.read_text())
    record.write_text(json.dumps({**document, "seconds": document["seconds"] + 1}))
    assert digest([checkout / "out"]) != before


def test_the_machine_of_a_summary_is_that_of_the_records(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    steplab.reproduce(["ssgd-frameworks"], pages=None)
    for record in (checkout / "runs/sources/ssgd-frameworks-laptop/records").iterdir():
        document = json.loads(record.read_text())
        elsewhere = {**document["machine"], "cpu": "Another CPU", "cpus": 77, "gpus": "two of them"}
        record.write_text(json.dumps({**document, "machine": elsewhere}))
    steplab.reproduce(["ssgd-frameworks"])
    ran = json.loads((checkout / "docs/sources/data/ssgd-frameworks/laptop/ran.json").read_text())
    assert ran["machine"].startswith("Another CPU, 77 CPUs")
    assert ran["machine"].endswith(", two of them")


def _ran(place: Path, **changed: object) -> None:
    path = place / "ran.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


LAPTOP, PUBLISHED = "data/ssgd-frameworks/laptop", "data/published"
DAMAGES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a wrong type": (lambda p: _ran(p / LAPTOP, trials="six"), f"{LAPTOP}/ran.json", "trials: Input should be a"),
    "no list": (lambda p: _ran(p / LAPTOP, commands="ls"), f"{LAPTOP}/ran.json", "commands: Input should be a"),
    "no number": (lambda p: _ran(p / LAPTOP, seconds=float("nan")), f"{LAPTOP}/ran.json", "seconds: Input should"),
    "a strange key": (lambda p: _ran(p / LAPTOP, strange=1), f"{LAPTOP}/ran.json", "strange: "),
    "no JSON": (lambda p: (p / LAPTOP / "ran.json").write_text("{"), f"{LAPTOP}/ran.json", "is not a summary"),
    "a FIFO for a summary": (lambda p: _fifo(p / LAPTOP / "ran.json"), f"{LAPTOP}/ran.json", "is a FIFO"),
    "no trials": (lambda p: (p / LAPTOP / "trials.csv").unlink(), f"{LAPTOP}/trials.csv", "there is no such file"),
    "other columns": (
        lambda p: (p / LAPTOP / "trials.csv").write_text("a,b\n1,2\n"), f"{LAPTOP}/trials.csv",
        "does not fill the table 'phases' of the page"),
    "shifted columns": (
        lambda p: (p / LAPTOP / "trials.csv").write_text("a,b\n1,2,3\n"), f"{LAPTOP}/trials.csv", "more cells"),
    "nothing published": (lambda p: shutil.rmtree(p / PUBLISHED), f"{PUBLISHED}/", "there is no such file"),
    "junk published": (
        lambda p: (p / PUBLISHED / "nyu_flops.csv").write_text("hello\nworld\n"), f"{PUBLISHED}/nyu_flops.csv",
        "its columns are not network, flops, expected_flops"),
    "bytes published": (
        lambda p: (p / PUBLISHED / "nyu_flops.csv").write_bytes(b"\xff\xfe\x00"), f"{PUBLISHED}/nyu_flops.csv",
        "is not a table"),
    "words for numbers": (
        lambda p: (p / PUBLISHED / "nyu_flops.csv").write_text("network,flops,expected_flops\nalexnet,many,9\n"),
        f"{PUBLISHED}/nyu_flops.csv", "the column flops has something else than numbers"),
    "a page of bytes": (
        lambda p: (p / "resattnet3d.md").write_bytes(b"\xff\xfe"), "resattnet3d.md", "it is not UTF-8 text"),
    "a FIFO for a page": (lambda p: _fifo(p / "resattnet3d.md"), "resattnet3d.md", "is a FIFO, not a regular file"),
}  # fmt: skip


@pytest.fixture(scope="module")
def measured_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of which one source was run, on a virtual clock."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "studies").mkdir()
    (folder / "studies" / "ssgd-frameworks-laptop.toml").write_text(SYNTHETIC)
    pages = Path(shutil.copytree(ROOT / "docs" / "sources", folder / "pages"))
    steplab.reproduce(["ssgd-frameworks"], out=folder / "runs", studies=folder / "studies", pages=pages)
    return pages


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_one_sentence_that_names_it(
    damage: str, measured_pages: Path, tmp_path: Path, in_process: InProcess
) -> None:
    harm, file, what = DAMAGES[damage]
    pages = Path(shutil.copytree(measured_pages, tmp_path / "p"))
    changed_by_hand = pages / "alexnet-resnet18-roofline.md"
    changed_by_hand.write_text(changed_by_hand.read_text().replace("| alexnet |", "| magic |"))
    before = changed_by_hand.read_text()
    harm(pages)
    ended = in_process("sources", "--rebuild", "--pages", "p")
    said = " ".join(ended.err.split())
    assert ended.code == 1
    assert said.startswith(f"steplab: p/{file}")
    assert what in said
    assert "Traceback" not in said
    assert changed_by_hand.read_text() == before  # nothing is written unless everything can be


def test_a_summary_whose_writing_fails_leaves_the_old_one(
    measured_pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(shutil.copytree(measured_pages / LAPTOP, tmp_path / "laptop"))
    stored = {path.name: path.read_bytes() for path in place.iterdir()}
    new = summaries.Summary({"trials": pd.DataFrame({"a": [1]})}, summaries.read_summary(place).ran)
    write = records.write_file

    def full(path: Path, content: bytes) -> None:
        if path.name == "ran.json":
            raise StoreError("the disk is full")
        write(path, content)

    monkeypatch.setattr(records, "write_file", full)
    with pytest.raises(StoreError, match="the disk is full"):
        summaries.write_summary(place, new)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == stored
    assert list(tmp_path.iterdir()) == [place]
    monkeypatch.undo()
    summaries.write_summary(place, new)
    assert list(summaries.read_summary(place).tables) == ["trials"]  # the tables that are no longer made are gone
    assert list(summaries.read_summary(place).tables["trials"].columns) == ["a"]


def test_the_command_that_goes_on_repeats_what_was_given() -> None:
    default = ("laptop", Path("runs/sources"), "local", Path("studies"), Path("docs/sources"))
    assert command._again([], *default) == "steplab sources"
    given = ("full", Path("my runs"), "slurm", Path("mine"), Path("pages"))
    assert command._again(["resattnet3d"], *given) == (
        "steplab sources --only resattnet3d --size full --out 'my runs' --executor slurm --studies mine --pages pages"
    )


def test_a_list_and_a_rebuild_at_once_are_refused(checkout: Path, in_process: InProcess) -> None:
    ended = in_process("sources", "--list", "--rebuild")
    assert (ended.code, ended.out) == (2, "")
    assert "give --list or --rebuild, one of the two" in " ".join(ended.err.split())


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*-laptop.toml")), ids=lambda path: path.stem)
def test_a_study_cut_down_is_a_study_of_one_short_trial(path: Path) -> None:
    study = parse_study(smoke_text(path.read_text(), "short"), path)
    assert study.about.kind == steplab.read_study(path).about.kind
    assert all(isinstance(levels, tuple) and len(levels) == 1 for levels in study.factors.values())
    assert (study.design.replicates, study.measure.iterations, study.data.samples) == (1, 2, 64)
    assert len(steplab.plan(study).trials) == 1
    assert "placement" not in study.factors


def test_a_range_is_cut_down_to_its_low_end() -> None:
    text = '[study]\nname = "x"\n[factors]\nbatch_size = { low = 4, high = 64 }\n[design]\ntype = "latin"\nn = 9\n'
    assert parse_study(smoke_text(text, "short"), Path("x.toml")).factors["batch_size"] == (4,)
