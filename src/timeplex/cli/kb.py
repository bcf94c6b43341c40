"""The verbs of KBs themselves: `datasets`, `stats`, `import`, `problems`, `audit`, `apply`, `split`."""

import time
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli import options
from timeplex.cli.show import percent, print_bars, print_json, print_table, progress, say
from timeplex.errors import InputError
from timeplex.text import counted, quoted

if TYPE_CHECKING:
    from timeplex.auditing.findings import Findings
    from timeplex.decisions.applying import Applied
    from timeplex.kb.problems import Problems
    from timeplex.kb.split import Leakage
    from timeplex.kb.stats import Stats

MOST_ALSO = 3
"""Of the facts that are told with another one, so many are shown."""


def datasets(data_dir: Path | None = options.DATA_DIR, as_json: bool = options.JSON) -> None:
    """List the benchmarks by name, with their sizes and whether they are on this machine.

    Example: timeplex datasets
    """
    from timeplex.datasets.benchmarks import BENCHMARKS, folder_of

    rows = []
    for name, benchmark in BENCHMARKS.items():
        folder = folder_of(name, data_dir)
        rows.append(
            {
                "name": name,
                "entities": benchmark.entities,
                "relations": benchmark.relations,
                **{split: benchmark.facts[split] for split in ("train", "valid", "test")},
                "granularity": str(benchmark.granularity),
                "folder": None if folder is None else str(folder),
            }
        )
    if as_json:
        print_json({"datasets": rows})
        return
    headers = ["name", "entities", "relations", "train", "valid", "test", "by", "here"]
    table = [[*list(row.values())[:7], "yes" if row["folder"] else "no"] for row in rows]
    print_table("Benchmarks", headers, table)
    say("One that is not here is downloaded on first use. `sample` comes with the package.")
    say("Next: timeplex stats sample")


MOST_RELATIONS = 30


def stats(kb: str = options.KB, data_dir: Path | None = options.DATA_DIR, as_json: bool = options.JSON) -> None:
    """Show what is in a KB: counts, relations, durations, open ends, facts over time, problems, leakage.

    Example: timeplex stats yago11k
    """
    from timeplex.kb.stats import describe
    from timeplex.sources import read

    with progress(f"reading {kb}") as report:
        described = describe(read(kb, data_dir=data_dir, on_progress=report))
    if as_json:
        print_json(described.to_json())
    else:
        _show_stats(described, kb)


def _show_stats(stats: "Stats", source: str) -> None:
    """Print the statistics as tables and bars; `source` is what the user called the KB."""
    sizes = " · ".join(f"{split} {number:,}" for split, number in stats.splits.items())
    say(f"{stats.name}: {counted(stats.facts, 'fact')} ({sizes})")
    size = f"{counted(stats.entities, 'entity', 'entities')} · {counted(stats.relations, 'relation')}"
    recurring = counted(stats.recurring_triples, "recurring triple")
    if stats.first is None:
        say(f"{size} · {recurring} · no date at all")
    else:
        instants = counted(stats.instants, "instant")
        say(f"{size} · {instants} from {stats.first} to {stats.last} by {stats.granularity}")
        say(" · ".join([*_spans(stats), recurring]))
    _show_relations(stats)
    if stats.histogram:
        rows = [(first if first == last else f"{first} … {last}", number) for first, last, number in stats.histogram]
        print_bars("Facts by the time they begin", rows)
        say()
    if stats.problems:
        kinds = " · ".join(f"{number:,} {kind}" for kind, number in stats.problems.items())
        say(f"Problems in the source: {kinds} (see: timeplex problems {quote(source)})")
    _show_leakage(stats.leakage)


def _spans(stats: "Stats") -> list[str]:
    """What is to be said of begins and ends; oddities only where there are any."""
    unusable = stats.unusable_begins + stats.unusable_ends
    return [
        f"{counted(stats.events, 'event')} (begin = end)",
        counted(stats.open_ends, "open end"),
        counted(stats.open_begins, "open begin"),
        *([f"{counted(unusable, 'date')} stated but not usable"] if unusable else []),
        *([counted(stats.reversed_spans, "reversed span")] if stats.reversed_spans else []),
    ]


def _show_relations(stats: "Stats") -> None:
    """A row a relation; without any date there is nothing to say but how many facts it has."""
    dated = ["events", f"median {stats.granularity}s", "open begin", "open end"] if stats.first is not None else []
    rows = [
        [
            row.label if row.label == row.relation else f"{row.label} ({row.relation})",
            row.facts,
            percent(row.share_of_events),
            row.median_duration,
            percent(row.open_begins),
            percent(row.open_ends),
        ][: 2 + len(dated)]
        for row in stats.by_relation[:MOST_RELATIONS]
    ]
    print_table("", ["relation", "facts", *dated], rows)
    if len(stats.by_relation) > MOST_RELATIONS:
        say(f"… and {counted(len(stats.by_relation) - MOST_RELATIONS, 'more relation')} (all with --json)")
        say()


def _show_leakage(rows: "list[Leakage]") -> None:
    """Print how much of valid and test is given away by train; nothing if both are empty."""
    if not rows:
        return
    print_table(
        "How much of a split stands in train",
        ["split", "facts", "same triple", "mirrored", "… same span", "same pair", "unseen entity"],
        [list(asdict(row).values()) for row in rows],
    )


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
    as_json: bool = options.JSON,
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
    _show_problems(kb.problems, limit)
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


def problems(
    kb: str = options.KB,
    output: Path | None = typer.Option(None, "-o", "--output", help="Write all of them to a .csv, .jsonl or .parquet."),
    formulas: bool = options.FORMULAS,
    limit: int = typer.Option(10, "--limit", "--most", min=0, help="How many to show of each kind."),
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Show what was odd in the source of a KB: file, line, the row, the reason and what was done.

    Example: timeplex problems yago11k --limit 3
    """
    from timeplex.sources import read

    options.check_table(output)
    with progress(f"reading {kb}") as report:
        found = read(kb, data_dir=data_dir, on_progress=report).problems
    if output is not None:
        from timeplex.kb.store import write_frame

        write_frame(found.told, output, formulas=formulas)
    if as_json:
        print_json(
            {
                "rows_read": found.rows_read,
                "set_aside": found.set_aside,
                "problems": found.told.to_dicts(),
                "unlisted": [asdict(more) for more in found.unlisted],
            }
        )
        return
    _show_problems(found, limit)
    if output is not None:
        say(f"Wrote {counted(found.frame.height, 'problem')} to {output}.")


def _show_problems(found: "Problems", limit: int) -> None:
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


def audit(
    kb: str = options.KB,
    output: Path | None = typer.Option(None, "-o", "--output", help="Write all of them to a .csv, .jsonl or .parquet."),
    html: Path | None = typer.Option(None, "--html", help="Write them as a page to read in a browser."),
    since: Path | None = typer.Option(None, "--since", help="The table of an earlier audit: tell only what is new."),
    rules: Path | None = typer.Option(None, "--rules", help="A TOML file with rules of your own."),
    runs: list[Path] = typer.Option(
        [], "--run", metavar="RUN", help="A trained run: tell what it finds implausible; may be given several times."
    ),
    models: list[str] = options.OWN_MODELS,
    mute: list[str] = typer.Option([], "--mute", metavar="RULE", help="Leave out a rule; may be given several times."),
    entities: bool = typer.Option(False, "--entities", help="Also look for unlikely objects; takes a minute or so."),
    formulas: bool = options.FORMULAS,
    limit: int = typer.Option(10, "--limit", "--most", min=0, help="How many suspicious facts to show."),
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
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

    options.check_table(output)
    if html is not None:  # both are looked at before either is written
        check_writable(html)
    with progress(f"reading {kb}") as report:
        facts = read(kb, data_dir=data_dir, on_progress=report)
    start = time.perf_counter()
    judges = [] if MODEL in mute else [options.opened(run, "auto", models) for run in dict.fromkeys(runs)]
    with options.calibrating(judges[0]) if judges else progress(f"auditing {kb}") as report:
        found = api.audit(
            facts, rules=rules, mute=mute, since=since, runs=judges, entities=entities, on_progress=report
        )
    seconds = time.perf_counter() - start
    _write(found, output, html, formulas)
    if as_json:
        print_json(_json(found, seconds))
        return
    _show_findings(found, seconds, limit)
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


def _show_findings(found: "Findings", seconds: float, limit: int) -> None:
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
    first = found.frame.unique("rank", keep="first", maintain_order=True)
    causes = first["cause"].unique(maintain_order=True).head(limit)
    for cause in causes:
        together = first.filter(pl.col("cause") == cause)
        head = together.row(0, named=True)
        say(f"{head['rank']:>3}  {head['suspicion']:.2f}  {head['fact']}{_place(head)}")
        for row in found.frame.filter(pl.col("rank") == head["rank"]).iter_rows(named=True):
            support = "" if row["support"] is None else f" [{row['support']}]"
            say(f"           {row['rule']}: {row['message']}{support}")
        say(f"           → {head['suggestion']}")
        for row in together[1 : 1 + MOST_ALSO].iter_rows(named=True):
            say(f"           also: {row['rank']}  {row['suspicion']:.2f}  {row['fact']}{_place(row)}")
        if together.height > 1 + MOST_ALSO:
            say(f"           also: {together.height - 1 - MOST_ALSO:,} more")
    hidden = found.suspicious - first.filter(pl.col("cause").is_in(causes.to_list())).height
    if hidden:
        say(f"{hidden:,} more: see them with --limit, -o FILE.csv or --html FILE.html")


def _place(row: dict[str, Any]) -> str:
    """Where the fact of a finding was read, if that is known."""
    return "" if row["line"] is None else f"  ({Path(row['file']).name}, line {row['line']:,})"


def apply(
    kb: str = options.KB,
    decisions: Path = typer.Argument(..., metavar="DECISIONS", help="The file of: timeplex serve KB --decisions FILE"),
    output: Path | None = typer.Option(None, "-o", "--output", metavar="DIR", help="The KB folder to write."),
    changes: Path | None = typer.Option(
        None, "--changes", help="Write what became of each decision to a .csv, .jsonl or .parquet."
    ),
    quickstatements: Path | None = typer.Option(
        None, "--quickstatements", metavar="FILE", help="Write the changes as commands for Wikidata's QuickStatements."
    ),
    any_kb: bool = typer.Option(False, "--any-kb", help="Apply what fits of decisions that were made on another KB."),
    formulas: bool = options.FORMULAS,
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Make a new KB from the decisions of a review, and say what changed; without -o only say it.

    Example: timeplex apply leaders.kb decisions.csv -o leaders-2.kb
    """
    from timeplex import api
    from timeplex.decisions import journal
    from timeplex.files import check_writable
    from timeplex.kb.store import check_target, write_frame
    from timeplex.sources import read

    options.check_table(changes)
    if quickstatements is not None:
        check_writable(quickstatements)
    if output is not None:
        check_target(output)
    with progress(f"reading {kb}") as report:
        facts = read(kb, data_dir=data_dir, on_progress=report)
    taken = journal.read(decisions, None if any_kb else facts)
    done = api.apply(facts, taken.decisions)
    if output is not None:
        done.kb.save(output)
    if changes is not None:
        write_frame(done.table(), changes, formulas=formulas)
    told = {"folder": None if output is None else str(output), "last_line_cut_off": taken.torn}
    left_out = _write_quickstatements(done, quickstatements)
    if as_json:
        print_json({**done.as_dict(), **told, "left_out": left_out})
        return
    if taken.torn:
        say(f"Note: the last line of {decisions} was cut off, and is left out.")
    _show_applied(done)
    for path, rows in ((changes, counted(len(done.changes), "decision")), (quickstatements, "the commands")):
        if path is not None:
            say(f"Wrote {rows} to {path}.")
    _list("not said in commands", left_out)
    if output is not None:
        say(f"Saved in {output}. Next: timeplex audit {quote(str(output))}")


def _write_quickstatements(done: "Applied", path: Path | None) -> list[str]:
    """Write the commands, if they are wanted; what they cannot say."""
    from timeplex.decisions import quickstatements

    if path is None:
        return []
    found = quickstatements.commands(done)
    quickstatements.write(found, path)
    return found.left_out


def _show_applied(done: "Applied") -> None:
    """Say what changed, in counts, and what could not be done."""
    told = [
        ("changed", "facts have other dates or names"),
        ("merged", "facts became one with another"),
        ("removed", "facts were removed"),
        ("added", "facts were added"),
        ("already", "decisions were carried out before"),
        ("conflict", "decisions could not be carried out"),
    ]
    rows: list[list[object]] = [[what, done.count(what), says] for what, says in told if done.count(what)]
    rows += [
        [name, number, says]
        for name, number, says in (
            ("rejected", done.rejected, "findings and proposals were rejected: nothing to do"),
            ("skipped", done.skipped, "were left for later"),
        )
        if number
    ]
    say(f"{counted(len(done.before), 'fact')} → {counted(len(done.kb), 'fact')}")
    if rows:
        print_table("", ["outcome", "number", "what it means"], rows)
    _list("conflict", done.conflicts)


def _list(what: str, sentences: "list[str]", most: int = 10) -> None:
    for sentence in sentences[:most]:
        say(f"{what}: {sentence}")
    if len(sentences) > most:
        say(f"{what}: {len(sentences) - most:,} more")


def split(
    kb: str = options.KB,
    output: Path = typer.Option(..., "-o", "--output", metavar="DIR", help="The KB folder to write."),
    valid: float = typer.Option(0.1, help="Share of the facts for valid (dev)."),
    test: float = typer.Option(0.1, help="Share of the facts for test."),
    by_time: bool = typer.Option(False, "--by-time", help="The latest facts become test; else at random."),
    seed: int = typer.Option(0, help="Seed of the random split."),
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Split a KB anew and report what leaks from train into valid and test.

    At random, no entity or relation of valid and test is unseen in train. By time, the latest facts are
    test and those before them valid.

    Example: timeplex split careers.kb -o careers-split.kb --valid 0.1 --test 0.1 --seed 1
    """
    from timeplex.kb.split import leakage, split_by_time, split_randomly
    from timeplex.kb.store import check_target
    from timeplex.sources import read

    check_target(output)
    with progress(f"splitting {kb}") as report:
        whole = read(kb, data_dir=data_dir, on_progress=report)
        parts = split_by_time(whole, valid, test) if by_time else split_randomly(whole, valid, test, seed)
        parts.save(output)
        leaks = leakage(parts)
    sizes = {name: len(facts) for name, facts in parts.splits.items()}
    if as_json:
        print_json({"splits": sizes, "leakage": [asdict(row) for row in leaks], "folder": str(output)})
        return
    say(" · ".join(f"{name} {size:,}" for name, size in sizes.items()))
    why = (
        "facts of one instant stay together, undated ones in train"
        if by_time
        else "no entity in it may be unseen in train"
    )
    for name, share in (("valid", valid), ("test", test)):
        if sizes[name] < 0.9 * share * len(parts):
            say(f"Note: {name} is smaller than asked for, because {why}.")
    _show_leakage(leaks)
    say(f"Saved in {output}. Next: timeplex stats {quote(str(output))}")
