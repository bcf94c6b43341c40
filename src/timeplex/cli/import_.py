"""`timeplex import FILE…`: from tables of dated facts to a KB folder."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from timeplex.cli.options import JSON_OPTION
from timeplex.cli.problems import show
from timeplex.cli.show import print_json, progress, say
from timeplex.text import counted, quoted

if TYPE_CHECKING:
    from timeplex.kb.problems import Problems

SHOWN = 20
"""So many columns, and three groups of names, are listed."""


def import_(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE", help="CSV, TSV, JSON, Parquet, Excel, ODS or text (also .gz); - reads standard input."
    ),
    output: Path = typer.Option(..., "-o", "--output", metavar="DIR", help="The KB folder to write."),
    subject: str | None = typer.Option(None, help="The column of the subject."),
    relation: str | None = typer.Option(None, help="The column of the relation, or =NAME for one relation."),
    object: str | None = typer.Option(None, help="The column of the object."),
    begin: str | None = typer.Option(None, help="The column of the begin (alone: each row is an event)."),
    end: str | None = typer.Option(None, help="The column of the end."),
    granularity: str | None = typer.Option(None, help="year, month or day; found from the dates if not given."),
    labels: Path | None = typer.Option(None, help="A file with id, TAB, label."),
    encoding: str | None = typer.Option(None, help="The encoding of text that is not UTF-8, such as cp1252."),
    dayfirst: bool | None = typer.Option(
        None, "--dayfirst/--monthfirst", help="Whether 1/2/1999 is in February; the other dates show it if not given."
    ),
    date_format: str | None = typer.Option(
        None, help="How dates are written: a format such as %d.%m.%y, or excel, unix, unix-ms."
    ),
    date_language: str = typer.Option("en", help="The language of the months: en, de, fr, es, it, pt or nl."),
    allow_unread_dates: bool = typer.Option(
        False, "--allow-unread-dates", help="Take unreadable dates as open, even if they are more than one in ten."
    ),
    keep_placeholders: bool = typer.Option(
        False, "--keep-placeholders", help="Keep dates that seem to stand for no date, such as 9999-12-31."
    ),
    sheet: str | None = typer.Option(None, help="The sheet of a spreadsheet; else the first that has data."),
    format: str | None = typer.Option(
        None, help="csv, tsv, txt, jsonl, json, parquet, xlsx or ods, whatever the suffix."
    ),
    merge_names: bool = typer.Option(False, help="Make names one that differ by case, spaces or accents alone."),
    max_unpacked: int | None = typer.Option(
        None, metavar="BYTES", help="What a packed file may unpack to (else 50 times its size, or 64 MB)."
    ),
    limit: int = typer.Option(3, "--limit", "--most", min=0, help="How many problems to show of each kind."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Import tables of dated facts into a KB folder, and report every row that was odd.

    If more than one date in ten cannot be read, nothing is written and the exit code is 3.

    Example: timeplex import careers.csv -o careers.kb --subject person --object org --relation role
    """
    from timeplex.kb.stats import describe
    from timeplex.kb.store import check_target
    from timeplex.sources import read

    check_target(output)
    with progress("importing"):
        kb = read(
            files,
            subject=subject,
            relation=relation,
            object=object,
            begin=begin,
            end=end,
            granularity=granularity,
            labels=labels,
            encoding=encoding,
            dayfirst=dayfirst,
            date_format=date_format,
            date_language=date_language,
            allow_unread_dates=allow_unread_dates,
            keep_placeholders=keep_placeholders,
            sheet=sheet,
            format=format,
            max_unpacked=max_unpacked,
            merge_names=merge_names,
        )
        kb.save(output)
    if as_json:
        described = describe(kb).to_json()
        told = {
            "columns_not_used": list(kb.problems.unused_columns),
            "columns_of_one_name": list(kb.problems.doubled_columns),
            "names_alike": {"groups": kb.problems.alike.groups, "examples": kb.problems.alike.examples},
        }
        print_json({**described, **told, "folder": str(output), "notes": list(kb.problems.notes)})
        return
    show(kb.problems, limit)
    _remark(kb.problems)
    say(f"{kb!r}")
    calendar = len(kb.timeline("calendar"))
    if kb.granularity != "year" and calendar > 2 * len(kb):
        instants, facts = counted(calendar, str(kb.granularity)), counted(len(kb), "fact")
        say(f"Note: there are {instants} for {facts}; a coarser --granularity may serve.")
    if end is None and len(kb) and (kb.facts.begin == kb.facts.end).all():
        say("Note: every fact is an event; if a column says when facts end, name it with --end.")
    say(f"Saved in {output}. Next: timeplex stats {quote(str(output))}")


def _remark(found: "Problems") -> None:
    """Say what was not read, and what may be one."""
    columns = found.unused_columns
    if columns:
        more = f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else ""
        say(f"Columns not used: {', '.join(columns[:SHOWN])}{more}.")
    if found.doubled_columns:
        say(f"Two columns are called {', '.join(found.doubled_columns[:SHOWN])}: the first was read.")
    if found.alike.groups:
        examples = "; ".join(" / ".join(map(quoted, group[:SHOWN])) for group in found.alike.examples[:3])
        differ = "names differs" if found.alike.groups == 1 else "names differ"
        groups = counted(found.alike.groups, "group")
        say(f"{groups} of {differ} by case, spaces or accents alone: {examples}. --merge-names makes them one.")
