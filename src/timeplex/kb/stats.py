"""What is in a KB: counts, durations, open ends, and how the facts lie over time."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from timeplex.kb import dates, spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, Index, TemporalKB
from timeplex.kb.problems import Kind
from timeplex.kb.split import Leakage, leakage


@dataclass(frozen=True)
class RelationStats:
    """One relation: how many facts, how long they last, how often an end is not known."""

    relation: str
    label: str
    facts: int
    share_of_events: float  # begin = end, of the facts with both ends known
    median_duration: float | None  # in instants, of the facts with both ends known
    open_begins: float  # share of the facts
    open_ends: float


@dataclass(frozen=True)
class Stats:
    """Everything that `timeplex stats` shows; `asdict` is its JSON.

    An open end is one that the source does not state. Ends that it states but that could not be used
    (`19##`, unreadable) are open in the KB too, and counted apart.
    """

    name: str
    granularity: str
    facts: int
    splits: dict[str, int]
    entities: int
    relations: int
    first: str | None
    last: str | None
    instants: int
    both_ends_known: int
    events: int
    open_begins: int
    open_ends: int
    unusable_begins: int
    unusable_ends: int
    reversed_spans: int
    recurring_triples: int
    rows_read: int
    rows_set_aside: int
    problems: dict[str, int]
    leakage: list[Leakage]
    by_relation: list[RelationStats]
    histogram: list[tuple[str, str, int]]  # first date, last date, facts that begin there (or end, if no begin)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def describe(kb: TemporalKB, bars: int = 24) -> Stats:
    """Count everything; `bars` is the most bins that the histogram over time may have."""
    facts = kb.facts
    timeline = kb.timeline("observed")
    open_begin, open_end = spans.is_open(facts.span)
    unusable = {
        field: sum(kb.problems.number_of_facts(kind, field) for kind in (Kind.UNREADABLE_DATE, Kind.UNKNOWN_YEAR))
        for field in ("begin", "end")
    }
    kinds: dict[str, int] = {}
    for kind, _, number in kb.problems.counts():
        kinds[kind] = kinds.get(kind, 0) + number
    triples = np.unique(np.stack([facts.s, facts.r, facts.o]), axis=1, return_counts=True)[1]
    return Stats(
        name=kb.name,
        granularity=str(kb.granularity),
        facts=len(facts),
        splits={split: len(part) for split, part in kb.splits.items()},
        entities=len(kb.entities),
        relations=len(kb.relations),
        first=timeline.text(0) if len(timeline) else None,
        last=timeline.text(-1) if len(timeline) else None,
        instants=len(timeline),
        both_ends_known=int((~open_begin & ~open_end).sum()),
        events=int((facts.begin == facts.end).sum()),
        open_begins=max(int(open_begin.sum()) - unusable["begin"], 0),
        open_ends=max(int(open_end.sum()) - unusable["end"], 0),
        unusable_begins=unusable["begin"],
        unusable_ends=unusable["end"],
        reversed_spans=kb.problems.number_of_facts(Kind.BEGIN_AFTER_END),
        recurring_triples=int((triples > 1).sum()),
        rows_read=kb.problems.rows_read,
        rows_set_aside=kb.problems.set_aside,
        problems=kinds,
        leakage=leakage(kb),
        by_relation=_by_relation(kb, facts),
        histogram=_histogram(kb, facts, bars),
    )


def _by_relation(kb: TemporalKB, facts: Facts) -> list[RelationStats]:
    """One row a relation, most frequent first."""
    open_begin, open_end = spans.is_open(facts.span)
    lengths = spans.volume(facts.span)
    rows = []
    index = Index(facts.r.astype(np.int64))
    for relation in index.keys.tolist():
        mine = index.rows(relation)
        known = lengths[mine[~open_begin[mine] & ~open_end[mine]]]
        rows.append(
            RelationStats(
                relation=kb.relations[relation],
                label=kb.relations.label(relation),
                facts=len(mine),
                share_of_events=float((known == 1).mean()) if len(known) else 0.0,
                median_duration=float(np.median(known)) if len(known) else None,
                open_begins=float(open_begin[mine].mean()),
                open_ends=float(open_end[mine].mean()),
            )
        )
    return sorted(rows, key=lambda row: (-row.facts, row.relation))


def _histogram(kb: TemporalKB, facts: Facts, bars: int) -> list[tuple[str, str, int]]:
    """Facts over time in bins of a round width; what lies far outside goes into the outermost bins."""
    when = facts.date[facts.dated]
    if len(when) == 0 or bars < 1:
        return []
    for unit, width in _bin_widths(kb.granularity):
        bins = dates.coarsen(when, kb.granularity, unit) // width
        low, high = np.quantile(bins, [0.02, 0.98], method="nearest")
        if high - low < bars:
            break
    low = max(low, high - bars + 1)  # one bar cannot hold the years before and after 0, however wide
    counts = np.bincount(np.clip(bins, low, high) - low)
    starts = (low + np.arange(len(counts))) * width
    ends = starts + width - 1
    values = dates.coarsen(np.array([when.min(), when.max()]), kb.granularity, unit)
    starts[0], ends[-1] = min(starts[0], values[0]), max(ends[-1], values[1])
    return list(zip(dates.write(starts, unit), dates.write(ends, unit), counts.tolist(), strict=True))


def _bin_widths(granularity: Granularity) -> list[tuple[Granularity, int]]:
    """Widths that read well, from fine to coarse."""
    days, months = [(Granularity.DAY, 1)], [(Granularity.MONTH, 1), (Granularity.MONTH, 3)]
    years = [(Granularity.YEAR, digit * 10**power) for power in range(5) for digit in (1, 2, 5)]
    finer = {Granularity.DAY: days + months, Granularity.MONTH: months, Granularity.YEAR: []}
    return finer[granularity] + years
