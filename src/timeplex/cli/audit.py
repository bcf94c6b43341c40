"""`timeplex audit KB`: what is probably wrong in a KB."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli.options import (
    DATA_DIR_OPTION,
    FORMULAS_OPTION,
    JSON_OPTION,
    KB_ARGUMENT,
    OWN_MODELS_OPTION,
    calibrating,
    check_table,
    opened,
)
from timeplex.cli.show import print_json, print_table, progress, say
from timeplex.errors import InputError
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.auditing.findings import Findings


def audit(
    kb: str = KB_ARGUMENT,
    output: Path | None = typer.Option(None, "-o", "--output", help="Write all of them to a .csv, .jsonl or .parquet."),
    html: Path | None = typer.Option(None, "--html", help="Write them as a page to read in a browser."),
    since: Path | None = typer.Option(None, "--since", help="The table of an earlier audit: tell only what is new."),
    rules: Path | None = typer.Option(None, "--rules", help="A TOML file with rules of your own."),
    runs: list[Path] = typer.Option(
        [], "--run", metavar="RUN", help="A trained run: tell what it finds implausible; may be given several times."
    ),
    models: list[str] = OWN_MODELS_OPTION,
    mute: list[str] = typer.Option([], "--mute", metavar="RULE", help="Leave out a rule; may be given several times."),
    formulas: bool = FORMULAS_OPTION,
    limit: int = typer.Option(10, "--limit", "--most", min=0, help="How many suspicious facts to show."),
    data_dir: Path | None = DATA_DIR_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Find what is probably wrong in a KB, by rules mined from its own facts: dates, durations, orders, duplicates.

    With trained runs, facts that they hold for implausible are added; each is judged by runs that have not learned it.

    Example: timeplex audit sample -o findings.csv --html findings.html
    """
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{html} is not the name of a page.", "Use .html.")
    from timeplex import api
    from timeplex.auditing.base import MODEL
    from timeplex.files import check_writable
    from timeplex.sources import read

    check_table(output)
    if html is not None:  # both are looked at before either is written
        check_writable(html)
    with progress(f"reading {kb}") as report:
        facts = read(kb, data_dir=data_dir, on_progress=report)
    start = time.perf_counter()
    judges = [] if MODEL in mute else [opened(run, "auto", models) for run in dict.fromkeys(runs)]
    with calibrating(judges[0]) if judges else progress(f"auditing {kb}"):
        found = api.audit(facts, rules=rules, mute=mute, since=since, runs=judges)
    seconds = time.perf_counter() - start
    _write(found, output, html, formulas)
    if as_json:
        print_json(_json(found, seconds))
        return
    show(found, seconds, limit)
    for path in (output, html):
        if path is not None:
            say(f"Wrote {counted(len(found), 'finding')} to {path}.")


def _write(found: "Findings", output: Path | None, html: Path | None, formulas: bool) -> None:
    from timeplex.auditing.page import write_page
    from timeplex.kb.store import write_frame

    if output is not None:
        write_frame(found.frame, output, formulas=formulas)
    if html is not None:
        write_page(found, html)


def _json(found: "Findings", seconds: float) -> dict[str, Any]:
    return {
        "kb": found.name,
        "facts": found.facts,
        "suspicious": found.suspicious,
        "seconds": round(seconds, 3),
        "rules": found.counts(),
        "resolved": found.resolved,
        "notes": list(found.notes),
        "findings": found.frame.to_dicts(),
    }


def show(found: "Findings", seconds: float, limit: int) -> None:
    """Print the counts and the most suspicious facts with all that is said against them."""
    import polars as pl

    from timeplex.auditing.base import says

    new = "" if found.resolved is None else "new "
    say(f"{counted(found.suspicious, f'{new}suspicious fact')} of {found.facts:,} in {seconds:.1f} s")
    if found.resolved is not None:
        say(f"{counted(found.resolved, 'earlier finding')} resolved")
    for note in found.notes:
        say(note)
    if len(found) == 0:
        say("Nothing else was found." if found.resolved is not None else "Nothing was found.")
        return
    print_table("", ["rule", "findings", "what it means"], [[r, n, says(r)] for r, n in found.counts().items()])
    shown = found.frame.filter(pl.col("rank").rank("dense") <= limit)
    for (rank,), rows in shown.group_by("rank", maintain_order=True):
        first = rows.row(0, named=True)
        say(f"{rank:>3}  {first['suspicion']:.2f}  {first['fact']}")
        for row in rows.iter_rows(named=True):
            support = "" if row["support"] is None else f" [{row['support']}]"
            say(f"           {row['rule']}: {row['message']}{support}")
        say(f"           → {first['suggestion']}")
    hidden = found.suspicious - shown["rank"].n_unique()
    if hidden:
        say(f"{hidden:,} more: see them with --limit, -o FILE.csv or --html FILE.html")
