"""HTML for notebooks: sentences, small tables, a chart of bars. No script, nothing from elsewhere.

Names, levels and reasons are other people's text: whatever stands in them is shown as text, never taken for markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steplab.core.plain_text import plain

LONGEST = 300  # characters of a sentence or a cell
LABEL = 44  # characters beside a bar
STYLE = "text-align:{side};padding:2px 8px;white-space:{wrap}"
ROW, LEFT, WIDTH, RIGHT = 20, 330, 330, 100  # the chart's pixels: a row's height, then the columns


@dataclass(frozen=True)
class Bar:
    """A bar of a chart: its name, length, the ends of its interval if they are known, and the words beside it."""

    name: str
    value: float
    low: float | None
    high: float | None
    words: str


def block(*parts: str) -> str:
    """Parts below each other; empty ones are left out."""
    return '<div class="steplab">' + "".join(parts) + "</div>"


def title(text: object) -> str:
    """A heading."""
    return f"<p><strong>{plain(text, LONGEST)}</strong></p>"


def sentence(text: object) -> str:
    """A paragraph.

    >>> sentence("<script>alert(1)</script>")
    '<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>'
    """
    return f"<p>{plain(text, 4 * LONGEST)}</p>"


def code(text: object) -> str:
    """Something to copy, such as a formula."""
    return f"<pre>{plain(text, 20 * LONGEST)}</pre>"


def rest(count: int) -> str:
    """How many rows more there are, if any."""
    return sentence(f"… and {count} more") if count > 0 else ""


def table(columns: Sequence[object], rows: Sequence[Sequence[object]], *, left: int = 1) -> str:
    """A table whose first `left` columns are text, the others numbers; nothing if it has no rows."""
    if not rows:
        return ""
    sides = ["left" if at < left else "right" for at in range(len(columns))]
    head = "".join(_cell("th", column, side) for column, side in zip(columns, sides, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell("td", value, side) for value, side in zip(row, sides, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, value: object, side: str) -> str:
    style = STYLE.format(side=side, wrap="normal" if side == "left" else "nowrap")
    return f'<{tag} style="{style}">{"–" if value is None else plain(value, LONGEST)}</{tag}>'


def bars(rows: Sequence[Bar]) -> str:
    """Horizontal bars with their intervals, as a picture that needs no script; nothing without rows."""
    if not rows:
        return ""
    longest = max(row.high or row.value for row in rows) or 1.0
    drawn = "".join(_bar(row, at * ROW, WIDTH / longest) for at, row in enumerate(rows))
    size = f'width="{LEFT + WIDTH + RIGHT}" height="{len(rows) * ROW}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-size="12" fill="currentColor">{drawn}</svg>'


def _bar(row: Bar, top: float, scale: float) -> str:
    middle, end = top + ROW / 2, LEFT + (row.high or row.value) * scale
    parts = [
        f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end">{plain(row.name, LABEL)}</text>',
        f'<rect x="{LEFT}" y="{top + 4}" width="{row.value * scale:.1f}" height="{ROW - 8}" fill="#4c9a9a"/>',
        f'<text x="{end + 8:.1f}" y="{middle + 4}">{plain(row.words, LABEL)}</text>',
    ]
    if row.low is not None and row.high is not None:
        ends = f'x1="{LEFT + row.low * scale:.1f}" x2="{end:.1f}" y1="{middle}" y2="{middle}"'
        parts.append(f'<line {ends} stroke="currentColor" stroke-width="1.5"/>')
    return "".join(parts)
