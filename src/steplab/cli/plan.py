"""Decide with a model: how many workers, what meets a deadline, the best within limits, what to measure next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import steplab
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, sentence, shell, table
from steplab.core.units import seconds as shown

if TYPE_CHECKING:
    from steplab.api.deciding.best import BestAnswer
    from steplab.api.deciding.deadline import DeadlineAnswer
    from steplab.api.deciding.workers import WorkersAnswer

app = command_app("Decide with a fitted model, or with what a study has measured so far.")
SHOWN = 12
BAR = 40  # characters of the longest bar

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL.json", help="A model saved by `steplab fit --out`.")]
FixOption = Annotated[str, typer.Option(help='Factors that are given: "batch_size=64,padding=same".')]
VaryOption = Annotated[str, typer.Option(help='Values to look at: "workers=1..16,batch_size=32|64".')]
PricesOption = Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Your prices: [machine.NAME] sections.")]
MachineOption = Annotated[str, typer.Option(help="Which machine of the prices.")]
BatchOption = Annotated[
    float | None, typer.Option("--batch", help="Samples of a worker in an iteration, if that is no factor.")
]
ValidationOption = Annotated[int, typer.Option(help="Samples passed forward after each epoch.")]
CheckpointOption = Annotated[str, typer.Option(help="Time of a checkpoint after each epoch, e.g. 20s.")]


@app.command()
def workers(
    model: ModelArgument,
    fix: FixOption = "",
    counts: Annotated[str, typer.Option("--workers", help="Numbers to look at: 1..8 or 1|2|4|8.")] = "",
    worth: Annotated[float, typer.Option(help="What a further worker must bring, as a share of the first.")] = 0.5,
    prices: PricesOption = None,
    machine: MachineOption = "",
    hour_worth: Annotated[float | None, typer.Option(help="What an hour is worth to you: money decides.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Speed-up and efficiency against workers, and where one more stops paying.

    Example: steplab plan workers model.json --fix "batch_size=64" --workers 1..16
    """
    answer = steplab.plan_workers(
        model, fix, counts, worth=worth, prices=prices, machine=machine, hour_worth=hour_worth
    )
    if as_json:
        print_json(answer.document())
        return
    console().print(table(answer.columns, answer.cells))
    _bars(answer)
    sentence(answer.why)
    next_step(shell("steplab", "plan", "deadline", model) + " --samples 60000 --epochs 10 --by 1h")


@app.command()
def deadline(
    model: ModelArgument,
    samples: Annotated[int, typer.Option(help="Samples of an epoch.")],
    by: Annotated[str, typer.Option(help="What the whole job may take: 24h, 30min.")],
    epochs: Annotated[int, typer.Option(help="How many epochs.")] = 1,
    fix: FixOption = "",
    vary: VaryOption = "",
    confidence: Annotated[float, typer.Option(help="With which probability it is to be in time.")] = 0.9,
    validation_samples: ValidationOption = 0,
    startup: Annotated[str, typer.Option(help="Time before the first step, e.g. 2min.")] = "0s",
    checkpoint: CheckpointOption = "0s",
    batch: BatchOption = None,
    prices: PricesOption = None,
    machine: MachineOption = "",
    as_json: JsonOption = False,
) -> None:
    """What meets a deadline, and with which probability.

    Example: steplab plan deadline model.json --epochs 90 --samples 1281167 --by 24h
    """
    answer = steplab.plan_deadline(
        model, samples, by, epochs=epochs, fix=fix, vary=vary, confidence=confidence, checkpoint=checkpoint,
        validation_samples=validation_samples, startup=startup, batch_size=batch, prices=prices, machine=machine,
    )  # fmt: skip
    _show(answer, as_json)


@app.command()
def best(
    model: ModelArgument,
    minimise: Annotated[str, typer.Option(help="t_epoch, t_iter, cost or energy.")] = "",
    fix: FixOption = "",
    vary: VaryOption = "",
    within: Annotated[str, typer.Option(help='Limits: "memory<8GB,workers<=8,t_epoch<2h".')] = "",
    samples: Annotated[int | None, typer.Option(help="Samples of an epoch, for all but t_iter.")] = None,
    validation_samples: ValidationOption = 0,
    checkpoint: CheckpointOption = "0s",
    batch: BatchOption = None,
    prices: PricesOption = None,
    machine: MachineOption = "",
    also: Annotated[
        list[Path] | None, typer.Option(help="A model of a further quantity, such as memory_bytes.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The best configurations within limits, with intervals; the front of time against cost.

    Example: steplab plan best model.json --minimise t_epoch --samples 60000 --within "workers<=8"
    """
    answer = steplab.plan_best(
        model, minimise=minimise, fix=fix, vary=vary, within=within, samples=samples, checkpoint=checkpoint,
        validation_samples=validation_samples, batch_size=batch, prices=prices, machine=machine, also=also or (),
    )  # fmt: skip
    _show(answer, as_json)


@app.command("next")
def next_(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A study's folder, a CSV or a Parquet file.")],
    aim: Annotated[str, typer.Option(help="predict, best, scaling or compare.")] = "predict",
    trials: Annotated[int, typer.Option(help="How many trials to add.")] = 4,
    target: Annotated[str | None, typer.Option(help="The column of the time; t_iter by default.")] = None,
    difference: Annotated[float, typer.Option(help="To compare: the relative difference to be seen.")] = 0.05,
    intrinsic: Annotated[str, typer.Option(help="Columns of the network, with commas.")] = "",
    categorical: Annotated[str, typer.Option(help="Columns that hold levels.")] = "",
    extrinsic: Annotated[str, typer.Option(help="Columns of the scale.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Which trials to add to what was measured: why, what they tell, how long they take.

    Example: steplab plan next runs/demo --aim predict --trials 4
    """
    roles = [[part.strip() for part in text.split(",") if part.strip()] for text in (intrinsic, categorical, extrinsic)]
    answer = steplab.plan_next(
        source, aim=aim, trials=trials, target=target, difference=difference, intrinsic=roles[0],
        categorical=roles[1], extrinsic=roles[2],
    )  # fmt: skip
    if as_json:
        print_json(answer.document())
        return
    if answer.cells:
        console().print(table(answer.columns, answer.cells, left=3))
    took = "" if answer.minutes is None else f"; together about {shown(60 * answer.minutes)}"
    sentence(f"{answer.why}{took}")
    next_step("steplab run STUDY.toml  (with these levels in it, or type = 'adaptive')")


def _show(answer: BestAnswer | DeadlineAnswer, as_json: bool) -> None:
    if as_json:
        print_json(answer.document())
        return
    console().print(table(answer.columns, answer.cells[:SHOWN]))
    if len(answer.cells) > SHOWN:
        console().print(f"… and {len(answer.cells) - SHOWN} more")
    sentence(answer.why)
    for text in answer.assumptions:
        sentence(f"assumed: {text}")
    next_step("steplab run STUDY.toml  (with the first of them in it, to see whether that is true)")


def _bars(answer: WorkersAnswer) -> None:
    """The speed-up as bars, beside what every worker would bring if none was lost."""
    rows = answer.plan.rows
    ideal = rows[-1].workers / rows[0].workers
    most = max(ideal, *(row.speedup for row in rows))
    for row in rows:
        filled, whole = (round(BAR * x / most) for x in (row.speedup, row.workers / rows[0].workers))
        mark = f" <- {'still pays' if row is rows[-1] else 'enough'}" if row.workers == answer.enough else ""
        console().print(f"{row.workers:>5} {'#' * filled}{'.' * max(0, whole - filled)}{mark}", markup=False)
