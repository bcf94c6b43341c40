"""How things are shown: tables, bars, JSON and progress."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

JSON_OPTION = typer.Option(False, "--json", help="Print one JSON object instead of tables.")
DATA_DIR_OPTION = typer.Option(None, "--data-dir", help="Where the benchmarks lie (else $TIMEPLEX_DATA, the cache).")
KB_ARGUMENT = typer.Argument(
    ..., metavar="KB", help="A benchmark's name, `sample`, a KB folder, a folder with train/valid/test, or a file."
)


def console() -> "Console":
    """Standard output; as wide as it needs to be when it is not a terminal."""
    from rich.console import Console

    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=120)


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


def print_table(title: str, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; columns that hold numbers only are set to the right. Texts are shown as they are."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = [list(row) for row in rows]
    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column, header in enumerate(headers):
        numeric = all(isinstance(row[column], int | float | None) for row in rows)
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def percent(share: float) -> str:
    """A share as a text for a table."""
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else "< 1 %"


def print_bars(title: str, rows: Sequence[tuple[str, int]], width: int = 50) -> None:
    """A horizontal bar a row, scaled to the longest."""
    from rich.text import Text

    out = console()
    out.print(Text(title))
    most = max((number for _, number in rows), default=0)
    label_width = max((len(label) for label, _ in rows), default=0)
    for label, number in rows:
        eighths = round(8 * width * number / most) if most else 0
        eighths = max(eighths, 1) if number else 0
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        out.print(Text(f"  {label:>{label_width}}  {bar} {number:,}"))


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on the terminal (nothing elsewhere): call the result with (done, total) in bytes.

    Before the first call it pulses, so that any long work shows that it goes on.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
