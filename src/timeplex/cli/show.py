"""How things are shown: sentences, tables, bars, JSON and progress.

Names, rows and paths come from files of anyone's making. None of them is taken for markup, and no character
of theirs reaches the terminal that it would act upon (see `visible`).
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from timeplex.files import to_json
from timeplex.text import ACTING
from timeplex.text import visible as visible  # every verb takes it from here

if TYPE_CHECKING:
    from rich.console import Console

    from timeplex.training.checkpoint import Listener, Progress


def console() -> "Console":
    """Standard output; 120 columns wide where it is not a terminal."""
    from rich.console import Console

    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=120)


def say(sentence: str = "") -> None:
    """One line. It is not broken, so that what another program reads, or one copies, is whole."""
    from rich.text import Text

    console().print(Text(visible(sentence)), soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    written = to_json(value, indent=1, ensure_ascii=plain)
    # An acting character can only stand in a string, where its escape means the same.
    typer.echo(ACTING.sub(lambda found: "\n" if found[0] == "\n" else to_json(found[0])[1:-1], written))


def print_table(title: str, headers: Sequence[str], rows: Iterable[Sequence[object]], decimals: int = 1) -> None:
    """A table; columns that hold numbers only are set to the right. Texts are shown as they are."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = [list(row) for row in rows]
    heading = Text(visible(title)) if title else None
    table = Table(title=heading, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column, header in enumerate(headers):
        numeric = all(isinstance(row[column], int | float | None) for row in rows)
        table.add_column(Text(visible(header)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value, decimals)) for value in row))
    console().print(table)


def _cell(value: object, decimals: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return visible(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{decimals}f}"


def percent(share: float) -> str:
    """A share as a text for a table."""
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else "< 1 %"


def print_bars(title: str, rows: Sequence[tuple[str, int]], width: int = 50) -> None:
    """A horizontal bar a row, scaled to the longest."""
    say(title)
    most = max((number for _, number in rows), default=0)
    label_width = max((len(label) for label, _ in rows), default=0)
    for label, number in rows:
        eighths = round(8 * width * number / most) if most else 0
        eighths = max(eighths, 1) if number else 0
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        say(f"  {label:>{label_width}}  {bar} {number:,}")


def sparkline(values: Sequence[float]) -> str:
    """A curve as a line of bars, scaled to the highest; what is next to nothing is a low line."""
    most = max(values, default=0.0)
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * value / most))] if most > 0 else "▁" for value in values)


@contextmanager
def progress(what: str, counts: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on the terminal (nothing elsewhere): call the result with (done, total) in bytes, or in `counts`.

    Before the first call it pulses, so that any long work shows that it goes on.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.filesize import decimal
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    texts = [TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[bytes]")]
    columns = (texts[0], BarColumn(), texts[1], TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(visible(what), total=None, bytes="")

        def report(done: int, total: int | None) -> None:
            written = (lambda number: f"{number:,}") if counts else decimal
            size = written(done) if total is None else f"{written(done)} of {written(total)} {counts}".rstrip()
            bar.update(task, completed=done, total=total, bytes=size)

        yield report


def duration(seconds: float) -> str:
    """A length of time as a person would say it."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def training_display(quiet: bool) -> "Iterator[Listener | None]":
    """A live line on a terminal, a line an epoch elsewhere."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield _print_epochs
    else:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("training", total=None)

            def listen(now: "Progress") -> None:
                done = (now.epoch - 1) * now.batches + now.batch
                bar.update(task, completed=done, total=now.epochs * now.batches, description=_line(now))

            yield listen


def _print_epochs(now: "Progress") -> None:
    if now.ended:
        typer.echo(visible(f"{_line(now)}  {now.seconds:.0f} s"), err=True)


def _line(now: "Progress") -> str:
    if now.doing:
        return f"{now.gadgets}: {now.doing}"
    dev = "" if now.dev is None else f"  dev MRR {100 * now.dev:.2f} (best {100 * (now.best or 0):.2f})"
    return f"{now.gadgets and now.gadgets + ': '}epoch {now.epoch}/{now.epochs}  loss {now.loss:.3f}{dev}"
