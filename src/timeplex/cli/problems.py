"""`timeplex problems KB`: what was odd in the source, row by row."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli.options import DATA_DIR_OPTION, FORMULAS_OPTION, JSON_OPTION, KB_ARGUMENT, check_table
from timeplex.cli.show import print_json, print_table, progress, say
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.kb.problems import Problems


def problems(
    kb: str = KB_ARGUMENT,
    output: Path | None = typer.Option(None, "-o", "--output", help="Write all of them to a .csv, .jsonl or .parquet."),
    formulas: bool = FORMULAS_OPTION,
    limit: int = typer.Option(10, "--limit", "--most", min=0, help="How many to show of each kind."),
    data_dir: Path | None = DATA_DIR_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Show what was odd in the source of a KB: file, line, the row, the reason and what was done.

    Example: timeplex problems yago11k --limit 3
    """
    from timeplex.sources import read

    check_table(output)
    with progress(f"reading {kb}") as report:
        found = read(kb, data_dir=data_dir, on_progress=report).problems
    if output is not None:
        from timeplex.kb.store import write_frame

        write_frame(found.told, output, formulas=formulas)
    if as_json:
        from dataclasses import asdict

        print_json(
            {
                "rows_read": found.rows_read,
                "set_aside": found.set_aside,
                "problems": found.told.to_dicts(),
                "unlisted": [asdict(more) for more in found.unlisted],
            }
        )
        return
    show(found, limit)
    if output is not None:
        say(f"Wrote {counted(found.frame.height, 'problem')} to {output}.")


def show(found: "Problems", limit: int) -> None:
    """Print what was decided of the whole table, the counts and the first problems of each kind."""
    for note in found.notes:
        say(f"Note: {note}")
    read, aside = counted(found.rows_read, "row"), counted(found.set_aside, "row")
    say(f"{read} read = {counted(found.rows_read - found.set_aside, 'fact')} + {aside} set aside")
    if len(found) == 0:
        say("No problem was found.")
        return
    print_table("", ["problem", "rows", "what was done"], [[kind, n, action] for kind, action, n in found.counts()])
    if limit == 0:
        return
    shown = found.frame.group_by("kind", maintain_order=True).head(limit)
    several_files = shown["file"].n_unique() > 1
    print_table(
        "",
        ["line", "problem", "reason", "row"],
        [
            [
                f"{row['file']}:{row['line']}" if several_files else f"{row['line']}",
                row["kind"],
                row["reason"],
                _row(row["row"]),
            ]
            for row in shown.iter_rows(named=True)
        ],
    )
    if found.frame.height > len(shown):
        say(f"{found.frame.height - len(shown):,} more: see them with --limit or -o FILE.csv")
    for more in found.unlisted:
        rows = counted(more.rows, "further row")
        say(f"{more.file}: {rows} with {more.kind} ({more.action}): counted, not listed.")


def _row(text: str) -> str:
    text = text.replace("\t", " │ ").replace("\n", "⏎")
    return text if len(text) <= 80 else text[:79] + "…"
