"""A real Slurm with four nodes on this machine: studies over several nodes, through what happens to jobs on a cluster.

`tests/helpers/slurm_box.py` is the cluster; it has no accounting. What accounting would add is in
`tests/runner/slurm/test_executor.py`. `benchmarks/slurm_kills.py` kills the submitting laboratory more often.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import slurm_box
from slurm_box import SlurmBox

from steplab.store.claims import Claims, submitted_claims
from steplab.store.paths import StudyFolder

STEPLAB = Path(sys.executable).with_name("steplab")
PAGE = Path(__file__).parents[2] / "docs" / "slurm.md"
PATIENCE_S = 600.0  # of a machine that others use, too
SETTINGS = '[executor.slurm]\ntime = "10"\npoll_s = 0.5\njobs = {jobs}\nretries = {retries}\nwarning_s = 20\n{more}'
Steplab = Callable[..., Any]


@pytest.fixture(scope="module")
def box() -> Iterator[SlurmBox]:
    with SlurmBox() as box:
        yield box


@pytest.fixture(autouse=True)
def variables(box: SlurmBox, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands find the cluster; no job of a test meets the next one's."""
    for name, value in box.variables.items():
        monkeypatch.setenv(name, value)
    yield
    box.cancel_all()


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Path]:
    """Write a study for Slurm."""

    def write(jobs: int = 2, retries: int = 2, more: str = "", replicates: int = 1, **factors: object) -> Path:
        lines = ['[study]\nname = "cluster"\n[factors]']
        lines += [f"{name} = {json.dumps(levels)}" for name, levels in factors.items()]
        lines += [f"[design]\nreplicates = {replicates}\n[measure]\niterations = 4\nwarmup = 1\nphases = false"]
        lines += ["[data]\nsamples = 128", SETTINGS.format(jobs=jobs, retries=retries, more=more)]
        path = tmp_path / "study.toml"
        path.write_text("\n".join(lines))
        return path

    return write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose name a careless script would break at."""
    return tmp_path / "it's a %j study"


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (folder / "records").glob("*.json")]


def start(study: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [STEPLAB, "run", study, "--out", folder, "--executor", "slurm"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def until(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)
    return seen


@pytest.mark.framework("torch")
@pytest.mark.framework("jax")
@pytest.mark.framework("mxnet")
@pytest.mark.framework("chainer")
def test_two_nodes_in_four_frameworks(steplab: Steplab, study: Callable[..., Path], folder: Path) -> None:
    file = study(framework=["torch", "jax", "mxnet", "chainer"], network=["lenet5"], batch_size=[8], nodes=[2])
    ran = steplab("run", file, "--out", folder, "--executor", "slurm", "--json", timeout=PATIENCE_S)
    assert (ran.code, ran.json["ok"]) == (0, 4), [record["reason"] for record in records(folder)]
    for record in records(folder):
        hosts = [rank["host"] for rank in record["ranks"]]
        assert len(hosts) == 2 == len(set(hosts)), "a rank on each of two nodes"
        assert {host["host"] for host in record["hosts"]} == set(hosts)


def test_a_cancelled_job_a_dead_node_and_a_preemption_cost_no_trial(
    box: SlurmBox, study: Callable[..., Path], folder: Path
) -> None:
    # A trial sleeps for a quarter of a minute: long enough to be hit, and no load for the machine.
    slow = {"compute_s": 3.0, "pace": 1.0}
    file = study(jobs=1, retries=9, framework=["synthetic"], nodes=[2], batch_size=[1, 2], **slow)
    process = start(file, folder)
    try:
        cancelled = victim(box, folder)
        box.run("scancel", cancelled)
        struck = victim(box, folder, cancelled)
        node = int(box.run("squeue", "-h", "-j", struck, "-o", "%N")[2])  # of n[1-2]: the laboratory's own
        box.kill_node(node)
        until(lambda: (struck,) in [job[:1] for job in box.jobs("NODE_FAIL")])
        box.start_node(node)
        preempted = victim(box, folder, cancelled, struck)
        box.run("sbatch", "--partition=urgent", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=true")
        assert process.wait(timeout=PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
    assert sorted((record["config"]["batch_size"], record["status"]) for record in records(folder)) == [
        (1, "ok"), (2, "ok"),
    ]  # fmt: skip
    lost = {json.loads(path.read_text())["reason"] for path in (folder / "slurm").glob("*.lost")}
    assert lost == {
        f"job {cancelled} was cancelled",
        f"job {struck} lost a node",
        f"job {preempted} was preempted by another job",
    }
    assert not list((folder / "claims").iterdir())


def victim(box: SlurmBox, folder: Path, *before: str) -> str:
    """The number of a job that is at a trial; none of those before."""

    def look() -> str:
        at_work = {submission for _, submission in submitted_claims(StudyFolder(folder))}
        running = [(number, name) for number, name, _ in box.jobs("RUNNING") if number not in before]
        return next((number for number, name in running if name.rpartition("-")[2] in at_work), "")

    number: str = until(look)
    return number


def test_a_trial_longer_than_its_allocation_is_left_in_good_order_and_is_a_timeout(
    steplab: Steplab, study: Callable[..., Path], folder: Path
) -> None:
    file = study(jobs=1, retries=0, framework=["synthetic"], compute_s=60.0, pace=1.0)
    # Slurm warns up to half a minute too early. A minute less 10 s less that leaves a trial 20 s to begin; a laboratory
    # that is warned before leaves without one, and another job is submitted.
    text = file.read_text().replace('time = "10"', 'time = "1"').replace("warning_s = 20", "warning_s = 10")
    file.write_text(text)
    ran = steplab("run", file, "--out", folder, "--executor", "slurm", timeout=PATIENCE_S)
    (record,) = records(folder)
    assert (ran.code, record["status"]) == (3, "timeout")
    assert record["reason"].endswith(" reached its time limit")
    words = [json.loads(path.read_text()) for path in (folder / "slurm").glob("*.left")]
    assert {word["why"] for word in words} == {"limit"}
    assert [word["trial"] for word in words if word["trial"]] == [record["trial"]]


def test_a_submitting_laboratory_may_be_killed_at_any_moment(
    steplab: Steplab, box: SlurmBox, study: Callable[..., Path], folder: Path
) -> None:
    file = study(jobs=2, framework=["synthetic"], batch_size=[1, 2, 3, 4], workers=[1, 2], compute_s=0.2, pace=1.0)
    moments = random.Random(7)
    for kill in range(3):
        process = start(file, folder)
        if kill % 2:
            time.sleep(moments.uniform(0.5, 6.0))
        else:  # the first and the last time while it submits and follows, however slow the machine
            until(lambda process=process: submits(folder, process))
            time.sleep(moments.uniform(0.0, 2.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    ran = steplab("run", file, "--out", folder, "--executor", "slurm", "--json", timeout=PATIENCE_S)
    assert (ran.code, ran.json["ok"], len(records(folder))) == (0, 8, 8)
    names = [name for _, name, _ in box.jobs("all") if name.startswith("steplab-")]
    assert len(names) == len(set(names)), "no submission became two jobs"
    assert not [job for job in box.jobs() if job[1] in names], "no job is left behind"


def submits(folder: Path, process: subprocess.Popen[bytes]) -> bool:
    """Whether this laboratory is the one that submits the study's jobs, or has ended already."""
    holder = Claims(StudyFolder(folder), 0.0).holder("submitter")
    return holder.startswith(f"process {process.pid} on ") or process.poll() is not None


ADAPTIVE = 'type = "adaptive"\naim = "predict"\ntrials = 10\ntolerance = 0.0001'


@pytest.fixture
def adaptive(study: Callable[..., Path]) -> Path:
    """A start block and two batches of four, four and two trials, which sleep, so that they can be hit."""
    file = study(framework=["synthetic"], batch_size=[1, 4, 16, 64], workers=[1, 2], compute_s=0.1, pace=1.0)
    file.write_text(file.read_text().replace("replicates = 1", ADAPTIVE))
    return file


def batches(folder: Path) -> list[int]:
    return sorted(record["choice"]["batch"] for record in records(folder) if record["choice"]["why"])


def test_an_adaptive_study_goes_on_after_its_laboratory_was_killed(
    steplab: Steplab, box: SlurmBox, adaptive: Path, folder: Path
) -> None:
    process = start(adaptive, folder)
    until(lambda: len(records(folder)) >= 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    ran = steplab("run", adaptive, "--out", folder, "--executor", "slurm", "--json", timeout=PATIENCE_S)
    assert (ran.code, ran.json["ok"], ran.json["left"]) == (0, 10, 0)
    assert batches(folder) == [0] * 4 + [1] * 4 + [2] * 2
    assert len({(json.dumps(record["config"]), record["replicate"]) for record in records(folder)}) == 10
    assert len([name for _, name, _ in box.jobs("all") if name.startswith("steplab-")]) >= 2, "a job for each batch"
    assert not [job for job in box.jobs() if job[1].startswith("steplab-")], "no job is left behind"


def test_a_detached_adaptive_study_submits_its_next_batch_when_it_is_called_again(
    steplab: Steplab, adaptive: Path, folder: Path
) -> None:
    for number in (4, 8, 10):
        assert steplab("run", adaptive, "--out", folder, "--executor", "slurm", "--detach").code == 0
        until(lambda number=number: len(records(folder)) == number)
    assert batches(folder) == [0] * 4 + [1] * 4 + [2] * 2


def test_status_shows_jobs_and_cancel_ends_them(
    steplab: Steplab, box: SlurmBox, study: Callable[..., Path], folder: Path
) -> None:
    file = study(jobs=5, framework=["synthetic"], batch_size=[1, 2, 3, 4, 5], compute_s=60.0, pace=1.0)
    assert steplab("run", file, "--out", folder, "--executor", "slurm", "--detach").code == 0
    until(lambda: len(box.jobs("RUNNING")) == 4)
    assert steplab("run", file, "--out", folder, "--executor", "slurm", "--detach").code == 0
    assert len(box.jobs()) == 5, "attached, not submitted twice"
    jobs = steplab("status", folder, "--json").json["jobs"]
    assert sorted((job["state"], job["detail"]) for job in jobs) == [
        ("queued", "Resources"), *(("running", f"on n{number}") for number in (1, 2, 3, 4)),
    ]  # fmt: skip
    assert len(steplab("cancel", folder, "--json").json["cancelled"]) == 5
    assert not box.jobs()
    assert not list((folder / "claims").glob("?" * 16))
    assert {job["state"] for job in steplab("status", folder, "--json").json["jobs"]} == {"lost"}
    assert not records(folder)


def test_a_source_runs_over_slurm_to_its_page(steplab: Steplab, tmp_path: Path) -> None:
    pages = Path(shutil.copytree(PAGE.parent / "sources", tmp_path / "pages"))
    factors = 'framework = ["synthetic"]\nnetwork = ["lenet5"]\nbatch_size = [8]\nnodes = [1, 2]\nranks_per_node = 1\n'
    measure = "[design]\nreplicates = 3\n[measure]\niterations = 6\nwarmup = 2\n"
    text = f'[study]\nname = "ssgd-frameworks-laptop"\n[factors]\n{factors}{measure}'
    (tmp_path / "ssgd-frameworks-laptop.toml").write_text(text + SETTINGS.format(jobs=2, retries=2, more=""))
    words = ("--only", "ssgd-frameworks", "--executor", "slurm", "--studies", tmp_path, "--out", tmp_path / "runs")
    ran = steplab("sources", *words, "--pages", pages, "--json", timeout=PATIENCE_S)
    (study,) = ran.json["sources"][0]["studies"]
    assert (ran.code, study["ok"], study["left"]) == (0, 6, 0), ran.err
    hosts = [[rank["host"] for rank in record["ranks"]] for record in records(Path(study["folder"]))]
    assert sorted(map(len, hosts)) == [1, 1, 1, 2, 2, 2]
    assert all(len(set(own)) == len(own) for own in hosts), "a rank on each node"
    page = (pages / "ssgd-frameworks.md").read_text()
    assert "| lenet5 | synthetic | 2 |" in page
    assert "--executor slurm" in page


def test_wrong_settings_are_one_sentence(
    steplab: Steplab, study: Callable[..., Path], folder: Path, tmp_path: Path
) -> None:
    ran = steplab("run", study(more='partition = "nowhere"', framework=["synthetic"]), "--executor", "slurm")
    assert (ran.code, "Invalid partition name specified" in ran.err.splitlines()[-1]) == (1, True)
    bare = {"PATH": str(tmp_path), "HOME": os.environ.get("HOME", "")}
    ran = steplab("run", study(framework=["synthetic"]), "--executor", "slurm", env=bare)
    assert (ran.code, "there is no `sbatch`" in ran.err.splitlines()[-1]) == (1, True)


@pytest.mark.framework("torch")
def test_an_environment_that_is_missing_on_the_node_is_one_sentence(
    steplab: Steplab, study: Callable[..., Path], folder: Path
) -> None:
    file = study(more='setup = ["export STEPLAB_HOME=/nowhere"]', framework=["torch"], network=["lenet5"])
    ran = steplab("run", file, "--out", folder, "--executor", "slurm", timeout=PATIENCE_S)
    assert (ran.code, "there is no environment 'torch'" in ran.err.splitlines()[-1]) == (1, True)
    assert "its jobs run the study's own setup" in ran.err


def test_the_commands_of_the_page_on_slurm(study: Callable[..., Path], tmp_path: Path) -> None:
    study(framework=["synthetic"], nodes=[1, 2])
    paths = os.pathsep.join([str(STEPLAB.parent), os.environ["PATH"]])
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("steplab ")]
    assert [line.split()[1] for line in lines] == ["doctor", "run", "run", "status", "cancel"]
    for line in lines:
        typed = ["bash", "-c", line]
        done = subprocess.run(
            typed, cwd=tmp_path, env={**os.environ, "PATH": paths}, capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert len(records(tmp_path / "runs" / "s")) == 2


def test_doctor_shows_the_partitions(steplab: Steplab) -> None:
    slurm = steplab("doctor", "--json").json["slurm"]
    assert [(part["name"], part["default"], part["up"]) for part in slurm["partitions"]] == [
        ("main", True, True), ("urgent", False, True),
    ]  # fmt: skip
    assert not slurm["accounting"]


OWNER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import slurm_box
with slurm_box.SlurmBox(nodes=1) as box:
    box.run("sbatch", "--output=/dev/null", "--wrap=srun sleep 1000")
    while not any(process.name() == "sleep" for process in slurm_box.in_box(box.folder)):
        time.sleep(0.1)
    print(box.folder, flush=True)
    time.sleep(1000)
"""


def test_a_cluster_whose_owner_is_killed_leaves_nothing_behind() -> None:
    command = [sys.executable, "-c", OWNER, str(Path(slurm_box.__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        steps = [process.name() for process in slurm_box.in_box(folder)]
        owner.kill()
    assert steps.count("slurmstepd") == 2, "of the batch script and of its step"
    until(lambda: not folder.exists())
    assert not list(slurm_box.in_box(folder))
