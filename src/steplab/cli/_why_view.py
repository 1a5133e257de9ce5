"""Why more workers are slower, as `steplab analyze --why` shows it."""

from __future__ import annotations

from collections.abc import Sequence

from steplab.api.results.findings import Why, label
from steplab.cli._output import console, filled_table
from steplab.core.units import seconds

MOST = 5  # configurations, unless all are asked for
HELPS = 3
SMALL = 0.01  # a share of the loss that is not worth a row


def show_why(answers: Sequence[Why], varied: Sequence[str], most: int | None) -> None:
    """The causes of each loss, and what would help; the least efficient configurations first."""
    screen = console()
    shown = answers if most is None else answers[: min(most, MOST)]
    for answer in shown:
        screen.print(f"\n{label(answer.factors, varied)}: {answer.answer}", markup=False)
        _show_causes(answer)
    if len(shown) < len(answers):
        screen.print(f"… and {len(answers) - len(shown)} more (--all shows them)")


def _show_causes(answer: Why) -> None:
    screen = console()
    if answer.causes:
        columns = ["cause", "per step", "95 % interval", "share", "doubt"]
        screen.print(filled_table(columns, _rows(answer)))
    for help_ in answer.helps[:HELPS]:
        kind = "measured" if help_.measured else "predicted"
        ends = "" if help_.low is None else f", {help_.low:.2f} to {help_.high:.2f}"
        text = f"  {help_.gain:.2f} × the throughput ({kind}{ends}): {help_.action}. {_capital(help_.how)}."
        screen.print(text, markup=False)
    if answer.fair:
        screen.print(f"  {answer.fair}", markup=False)


def _rows(answer: Why) -> list[list[str]]:
    """The causes, then what makes their sum the loss."""
    rows = [
        [
            cause.title,
            _seconds(cause.amount.seconds),
            "" if cause.amount.low is None else f"{_seconds(cause.amount.low)} to {_seconds(cause.amount.high)}",
            f"{cause.share:.0%}",
            "" if cause.sure else "one replicate" if cause.amount.low is None else "within noise",
        ]
        for cause in answer.causes
        if not cause.amount.nothing
    ]
    rest = answer.unexplained_s
    if abs(rest) > SMALL * answer.excess.seconds:
        title = "no phase explains" if rest > 0 else "counted too much"
        rows.append([title, _seconds(rest), "", f"{rest / answer.excess.seconds:.0%}" if rest > 0 else "", ""])
    return [*rows, ["lost in all", _seconds(answer.excess.seconds), "", "", ""]]


def _seconds(value: float | None) -> str:
    """Seconds with their sign."""
    return "" if value is None else seconds(value) if value >= 0 else f"−{seconds(-value)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
