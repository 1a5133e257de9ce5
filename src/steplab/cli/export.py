"""Write a study's tables to CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steplab.cli._output import JsonOption, command_app, console, print_json

app = command_app()


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    to: Annotated[Path, typer.Option(metavar="FILE", help="Where to: FILE.csv or FILE.parquet.")],
    table: Annotated[str, typer.Option(help="trials, iterations, layers or epochs.")] = "trials",
    as_json: JsonOption = False,
) -> None:
    """Write one of the tables of a study to a file.

    Example: steplab export runs/demo --table iterations --to iterations.parquet
    """
    import io

    import pyarrow.csv
    import pyarrow.parquet

    from steplab.core.errors import InputError, allowed
    from steplab.store import records, tables

    writers = {".csv": pyarrow.csv.write_csv, ".parquet": pyarrow.parquet.write_table}
    if to.suffix not in writers:
        raise InputError(f"{to.name!r} has no known ending", where="--to", hint=allowed(writers))
    if not to.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=f"--to {to.parent}", hint="make it first")
    made = tables.load(folder).table(table)
    content = io.BytesIO()
    writers[to.suffix](made, content)
    records.write_file(to, content.getvalue())
    if as_json:
        print_json({"file": str(to), "table": table, "rows": made.num_rows, "columns": made.column_names})
    else:
        console().print(f"{made.num_rows} rows of {table} in {to}", markup=False)
