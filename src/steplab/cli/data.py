"""Data sets: what there is, making one in its original format, checking files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import steplab
from steplab.cli._output import JsonOption, command_app, console, next_step, print_json, shell, table

if TYPE_CHECKING:
    from steplab.api.machine.datasets import DataCheck

app = command_app(__doc__)


@app.command("list")
def list_(json: JsonOption = False) -> None:
    """All data sets: shape, classes, original sizes, and whether real or generated files are there.

    Example: steplab data list --json
    """
    rows = steplab.list_datasets()
    if json:
        print_json({"datasets": rows})
        return
    cells = [
        (row.name, "x".join(map(str, row.shape)), row.classes, f"{row.train:,}", f"{row.test:,}", row.source)
        for row in rows
    ]
    console().print(table(("data set", "sample", "classes", "train", "test", "files"), cells))
    next_step("steplab data make mnist --samples 1000 --out mnist  (or STEPLAB_DATA=folder of real ones)")


@app.command()
def make(
    name: Annotated[str, typer.Argument(help="The data set, as in `steplab data list`.")],
    out: Annotated[Path, typer.Option(help="A new folder for the files.")],
    samples: Annotated[int | None, typer.Option(min=1, help="Training samples; test samples in proportion.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
    text: Annotated[
        list[Path] | None, typer.Option(metavar="PATH", help="For bytes: real text, a file or a folder; repeatable.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Generate a learnable data set in its original format and layout, or make one of real text.

    Example: steplab data make cifar10 --samples 5000 --out cifar10
    """
    dataset = steplab.make_dataset(name, out, samples, seed, texts=text or ())
    if json:
        print_json(dataset.document())
        return
    sizes = f"{dataset.train:,} training and {dataset.test:,} test samples"
    console().print(f"{name}: {sizes} in {out}, {dataset.seconds:.1f} s")
    next_step(shell("steplab", "data", "check", out))


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with a data set's files.")],
    name: Annotated[str, typer.Option(help="The data set, if its files do not tell.")] = "",
    json: JsonOption = False,
) -> None:
    """Read every sample and sum every file; a truncated, corrupt or mislabelled file is named with the offset.

    Example: steplab data check cifar10
    """
    dataset = steplab.check_dataset(folder, name)
    if json:
        print_json(dataset)
        return
    _show(dataset)


def _show(dataset: DataCheck) -> None:
    out = console()
    kind = {True: ", the published images", False: ", not the published images", None: ""}[dataset.original]
    out.print(f"{dataset.name}: {dataset.files:,} files, {dataset.bytes:,} bytes, all readable{kind}")
    rows = [(split.split, f"{split.samples:,}", split.classes, split.fewest, split.most) for split in dataset.splits]
    out.print(table(("split", "samples", "classes", "fewest of a class", "most"), rows))
    for path, checksum in dataset.checksums.items():
        out.print(f"sha256 {checksum[:16]}…  {path}", markup=False)
    out.print(f"sha256 of all  {dataset.sha256}")
