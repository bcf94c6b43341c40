"""`timeplex stats KB`: what is in a KB."""

from pathlib import Path
from typing import TYPE_CHECKING

from timeplex.cli.show import (
    DATA_DIR_OPTION,
    JSON_OPTION,
    KB_ARGUMENT,
    console,
    percent,
    print_bars,
    print_json,
    print_table,
    progress,
)

if TYPE_CHECKING:
    from timeplex.kb.split import Leakage
    from timeplex.kb.stats import Stats

MOST_RELATIONS = 30


def stats(kb: str = KB_ARGUMENT, data_dir: Path | None = DATA_DIR_OPTION, as_json: bool = JSON_OPTION) -> None:
    """Show what is in a KB: counts, relations, durations, open ends, facts over time, problems, leakage.

    Example: timeplex stats yago11k
    """
    from timeplex.kb.source import read
    from timeplex.kb.stats import describe

    with progress(f"reading {kb}") as report:
        described = describe(read(kb, data_dir=data_dir, progress=report))
    if as_json:
        print_json(described.to_json())
    else:
        show(described, kb)


def show(stats: "Stats", source: str) -> None:
    """Print the statistics as tables and bars; `source` is what the user called the KB."""
    out = console()
    sizes = " · ".join(f"{split} {number:,}" for split, number in stats.splits.items())
    out.print(f"{stats.name}: {stats.facts:,} facts ({sizes})")
    time = f"{stats.first} to {stats.last} by {stats.granularity}" if stats.first else "no date at all"
    out.print(
        f"{stats.entities:,} entities · {stats.relations:,} relations · {time} · {stats.instants:,} instants occur"
    )
    unusable = stats.unusable_begins + stats.unusable_ends
    out.print(
        f"{stats.events:,} events (begin = end) · {stats.open_ends:,} open ends · {stats.open_begins:,} open begins"
        + (f" · {unusable:,} dates stated but not usable" if unusable else "")
        + (f" · {stats.reversed_spans:,} reversed spans" if stats.reversed_spans else "")
        + f" · {stats.recurring_triples:,} triples recur"
    )
    print_table(
        "",
        ["relation", "facts", "events", f"median {stats.granularity}s", "open begin", "open end"],
        [
            [
                row.label if row.label == row.relation else f"{row.label} ({row.relation})",
                row.facts,
                percent(row.share_of_events),
                row.median_duration,
                percent(row.open_begins),
                percent(row.open_ends),
            ]
            for row in stats.by_relation[:MOST_RELATIONS]
        ],
    )
    if len(stats.by_relation) > MOST_RELATIONS:
        out.print(f"… and {len(stats.by_relation) - MOST_RELATIONS} more relations (all with --json)\n")
    if stats.histogram:
        rows = [(first if first == last else f"{first} … {last}", number) for first, last, number in stats.histogram]
        print_bars("Facts by the time they begin", rows)
        out.print()
    if stats.problems:
        kinds = " · ".join(f"{number:,} {kind}" for kind, number in stats.problems.items())
        out.print(f"Problems in the source: {kinds} (see: timeplex problems {source})")
    if stats.leakage:
        show_leakage(stats.leakage)


def show_leakage(rows: "list[Leakage]") -> None:
    """Print how much of valid and test is given away by train."""
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
