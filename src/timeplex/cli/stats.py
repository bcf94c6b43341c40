"""`timeplex stats KB`: what is in a KB."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from timeplex.cli.options import DATA_DIR_OPTION, JSON_OPTION, KB_ARGUMENT
from timeplex.cli.show import percent, print_bars, print_json, print_table, progress, say
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.kb.split import Leakage
    from timeplex.kb.stats import Stats

MOST_RELATIONS = 30


def stats(kb: str = KB_ARGUMENT, data_dir: Path | None = DATA_DIR_OPTION, as_json: bool = JSON_OPTION) -> None:
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
        show(described, kb)


def show(stats: "Stats", source: str) -> None:
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
    show_leakage(stats.leakage)


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


def show_leakage(rows: "list[Leakage]") -> None:
    """Print how much of valid and test is given away by train; nothing if both are empty."""
    if not rows:
        return
    print_table(
        "How much of a split stands in train",
        ["split", "facts", "same triple", "mirrored", "… same span", "same pair", "unseen entity"],
        [
            [
                row.split,
                row.facts,
                row.same_triple,
                row.mirrored,
                row.mirrored_same_span,
                row.same_pair,
                row.unseen_entity,
            ]
            for row in rows
        ],
    )
