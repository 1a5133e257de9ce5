"""The page of a source: prose by hand, and between markers what is computed from the stored tables.

A block begins with `<!-- begin NAME -->` and ends with `<!-- end NAME -->`; what stands between is written anew, all
else stays. A size that was not run is said in words, and no number stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, ClassVar

import pandas as pd
from pydantic import ConfigDict, Field

from steplab.core.errors import InputError
from steplab.core.parsing import parsing
from steplab.sources.claim import Claim
from steplab.sources.source import SIZES, Figure, PageTable, Source, Tables

BLOCK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", re.S)
RAN, CLAIMS, VERDICTS = "ran", "claims", "verdicts"
Number = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Ran:
    """What was run, for the reader: each study's command and records, versions, machine, day."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    commands: tuple[str, ...]
    folders: tuple[str, ...]
    trials: Number
    failed: Number
    unsupported: Number
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]  # of measuring
    day: str
    machine: str
    versions: Mapping[str, str]
    records: str  # a digest of the records: whether the summary is theirs


@dataclass(frozen=True)
class Summary:
    """The small tables of one size of a source, where they come from, and the folder that they stand in."""

    tables: Tables
    ran: Ran
    place: str = ""

    def filling(self, what: str, names: Sequence[str] = ()) -> AbstractContextManager[None]:
        """The border to tables that somebody may have changed: what cannot be computed from them names their files."""
        where = ", ".join(self.file(name) for name in names) or self.place
        return parsing(f"does not fill {what} of the page", where)

    def file(self, name: str) -> str:
        """The path of a table."""
        return f"{self.place}/{name}.csv"


Summaries = Mapping[str, Summary]  # by size


def filled(text: str, source: Source, summaries: Summaries, published: Tables) -> str:
    """The page with its blocks computed anew; one that no table or question fills is an error."""
    with parsing("cannot be filled", f"the page of {source.name}"):
        contents = blocks(source, summaries, published)
    names = [match[1] for match in BLOCK.findall(text)]
    missing = [name for name in contents if name not in names]
    unknown = [name for name in names if name not in contents]
    if missing or unknown:
        what = f"has no block {missing[0]!r}" if missing else f"has a block {unknown[0]!r} that nothing fills"
        raise InputError(what, where=f"the page of {source.name}", hint="blocks: " + ", ".join(contents))
    return BLOCK.sub(lambda match: f"{match[1]}\n{contents[match[2]]}\n\n{match[3]}", text)


def filled_index(text: str, every: Sequence[tuple[Source, Summaries]]) -> str:
    """The page above all pages with the verdict on every question."""
    rows = [row for source, summaries in every for row in _verdicts(source, summaries)]
    content = markdown(pd.DataFrame(rows, columns=["question", "verdict", "answer", "page"]))
    if VERDICTS not in [match[1] for match in BLOCK.findall(text)]:
        raise InputError(f"has no block {VERDICTS!r}", where="the page of all sources")
    return BLOCK.sub(lambda match: f"{match[1]}\n{content}\n\n{match[3]}", text)


def _verdicts(source: Source, summaries: Summaries) -> Iterator[tuple[str, str, str, str]]:
    """The questions of a source: what the largest size that was run says of each."""
    size = next((size for size in reversed(SIZES) if size in summaries), None)
    page = f"[{source.name}](sources/{source.name}.md#the-claims)"
    if size is None:
        yield from ((question.text, "", "Not yet run.", page) for question in source.questions)
        return
    for claim in claims_of(source, summaries[size]):
        yield claim.question, f"**{claim.verdict}**", claim.sentence, f"{page}, {size}"


def blocks(source: Source, summaries: Summaries, published: Tables) -> dict[str, str]:
    """What stands in each block."""
    tables = {table.name: _table_block(source, table, summaries, published) for table in source.tables}
    drawn = {figure.name: _figure_block(source, figure, summaries) for figure in source.figures}
    return {RAN: _ran_block(source, summaries), **tables, **drawn, CLAIMS: _claims_block(source, summaries)}


def _not_run(summaries: Summaries) -> list[str]:
    """What has no numbers yet, if anything."""
    sizes = [size for size in SIZES if size not in summaries]
    return [f"Not yet run at {' and '.join(sizes)} size here."] if sizes else []


def _ran_block(source: Source, summaries: Summaries) -> str:
    told = [_told(summaries[size].ran, size) for size in SIZES if size in summaries]
    open_ = [f"$ steplab sources --only {source.name} --size {size}" for size in SIZES if size not in summaries]
    commands = ["\n".join(["```", *open_, "```"])] if open_ else []
    return "\n\n".join([*told, *_not_run(summaries), *commands])


def _told(ran: Ran, size: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in ran.versions.items())
    ended = f"{ran.trials} trials measured, {ran.failed} failed, {ran.unsupported} unsupported"
    where = f"{ran.day}, {ran.machine}; {versions}"
    commands = "\n".join(f"$ {command}" for command in ran.commands)
    return f"At {size} size: {ended}, {ran.seconds / 60:.0f} minutes of measuring ({where}).\n\n```\n{commands}\n```"


def _table_block(source: Source, table: PageTable, summaries: Summaries, published: Tables) -> str:
    given = published_of(table, published)
    if not table.measured:
        return f"{markdown(beside(table, given, {'counted': table.ours({})}))}\n\nRepeat it: `{table.command}`"
    ran = {size: summaries[size] for size in SIZES if size in summaries}
    ours = {size: our_table(table, summary) for size, summary in ran.items()}
    ours = {size: frame for size, frame in ours.items() if len(frame)}
    few = [f"The trials at {size} size do not tell this." for size in ran if size not in ours]
    repeats = [line for size in ours for line in _repeats(source, table, size, ran[size].ran)]
    return "\n\n".join([*_shown(table, given, ours), *few, *repeats, *_not_run(summaries)])


def _repeats(source: Source, table: PageTable, size: str, ran: Ran) -> Iterator[str]:
    """How to make the very table again, and how to look at its numbers in the records."""
    sized = "" if size == SIZES[0] else f" --size {size}"
    yield f"Repeat it: `steplab sources --only {source.name}{sized} --table {table.name}`"
    by_hand = dict.fromkeys(table.command.format(folder=folder) for folder in ran.folders)
    yield "From the records: " + ", ".join(f"`{command}`" for command in by_hand)


def our_table(table: PageTable, summary: Summary) -> pd.DataFrame:
    """A table of a page from our small tables; empty if they do not tell it."""
    if not table.measured or not _readable(table, summary):
        return table.ours({}) if not table.measured else pd.DataFrame()
    with summary.filling(f"the table {table.name!r}", table.reads):
        return table.ours(summary.tables)


def _readable(shown: PageTable | Figure, summary: Summary) -> bool:
    """Whether the tables that it is made of have rows."""
    for name in shown.reads:
        if name not in summary.tables:
            raise InputError("there is no such file", where=summary.file(name))
    return not any(summary.tables[name].empty for name in shown.reads)


def _figure_block(source: Source, figure: Figure, summaries: Summaries) -> str:
    paths = {
        size: figure_path(source, figure, size) for size in SIZES if (size, figure.name) in drawings(source, summaries)
    }
    pictures = [f"![{figure.words}, {size} size]({path})" for size, path in paths.items()]
    few = [f"The trials at {size} size do not tell this." for size in summaries if size not in paths]
    return "\n\n".join([*pictures, *few, *_not_run(summaries)])


def figure_path(source: Source, figure: Figure, size: str) -> str:
    """Where a picture stands, from the page on."""
    return f"data/{source.name}/{size}/{figure.name}.svg"


def drawings(source: Source, summaries: Summaries) -> dict[tuple[str, str], str]:
    """The pictures of a page by size and name, as SVG; those that have anything to show."""
    pictures = {
        (size, figure.name): _drawn(figure, summary)
        for size, summary in summaries.items()
        for figure in source.figures
        if _readable(figure, summary)
    }
    return {key: picture for key, picture in pictures.items() if picture}


def _drawn(figure: Figure, summary: Summary) -> str:
    with summary.filling(f"the picture {figure.name!r}", figure.reads):
        return figure.draw(summary.tables)


def _shown(table: PageTable, given: pd.DataFrame, ours: Mapping[str, pd.DataFrame]) -> list[str]:
    """The published table and ours: in one if they have columns to be joined by, otherwise one below the other."""
    if table.on:
        merged = beside(table, given, ours)
        return [markdown(merged)] if len(merged.columns) else []
    titled = {"Published:": given} | {f"Ours, at {size} size:": frame for size, frame in ours.items()}
    return [part for title, frame in titled.items() if len(frame.columns) for part in (title, markdown(frame))]


def published_of(table: PageTable, published: Tables) -> pd.DataFrame:
    """The published table under the names of ours; empty if there is none."""
    if not table.published:
        return pd.DataFrame()
    return published[table.published].rename(columns=dict(table.renamed)).replace(dict(table.levels))


def beside(table: PageTable, given: pd.DataFrame, ours: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The published columns and ours of each size in one table, joined where they are about the same."""
    keys = list(table.on)
    merged = given.rename(columns={name: f"published {name}" for name in given.columns if name not in keys})
    for size, frame in ours.items():
        own = frame.rename(columns={name: f"{size} {name}" for name in frame.columns if name not in keys})
        merged = own if not len(merged.columns) else merged.merge(own, on=keys, how="outer", sort=False)
    return merged


def claims_of(source: Source, summary: Summary) -> tuple[Claim, ...]:
    """The answers to the source's questions."""
    with summary.filling("the answers"):
        return tuple(question.answer(summary.tables) for question in source.questions)


def _claims_block(source: Source, summaries: Summaries) -> str:
    rows = [
        (size, question.text, *_answered(claim))
        for size in SIZES
        if size in summaries
        for question, claim in zip(source.questions, claims_of(source, summaries[size]), strict=True)
    ]
    open_ = [f"- {question.text}" for question in source.questions] if not rows else []
    table = (
        [markdown(pd.DataFrame(rows, columns=["size", "question", "estimate", "verdict", "answer"]))] if rows else []
    )
    return "\n\n".join([*table, *open_, *_not_run(summaries)])


def _answered(claim: Claim) -> tuple[str, str, str]:
    number = "" if claim.estimate is None else f"{claim.measure}: {claim.estimate}"
    return number, f"**{claim.verdict}**", claim.sentence


def markdown(frame: pd.DataFrame) -> str:
    """A table in Markdown; numbers with four digits, nothing where there is none.

    >>> print(markdown(pd.DataFrame({"workers": [1, 2], "t_iter": [0.123456, None]})))
    | workers | t_iter |
    |---|---|
    | 1 | 0.1235 |
    | 2 |  |
    """
    lines = [list(map(str, frame.columns)), ["---"] * len(frame.columns)]
    lines += [[_cell(value) for value in row] for row in frame.astype(object).to_numpy()]
    return "\n".join(_line(cells, divider=at == 1) for at, cells in enumerate(lines))


def _line(cells: Sequence[str], *, divider: bool) -> str:
    return f"|{'|'.join(cells)}|" if divider else f"| {' | '.join(cells)} |"


def _cell(value: object) -> str:
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, float):
        return f"{int(value)}" if value.is_integer() and abs(value) < 1e6 else f"{value:.4g}"
    return str(value).replace("|", "\\|")
