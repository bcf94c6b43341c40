"""What patterns say of years, in plain loops that follow the docstrings: slow, and hard to get wrong.

A fact is a row (s, r, o, begin, end), a feature a function of an instant; nothing is shared with what is tested but
the constants.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from math import exp, floor, inf, log, sqrt

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.patterns import densities, durations, gaps, lifespans, slots, successions
from timeplex.patterns.base import Evidence, Side

Row = tuple[int, int, int, int, int]
Seen = tuple[int, int, int, int]
"""A fact as one of its entities sees it: directed relation, the other entity, begin, end."""
OPEN = (spans.OPEN_BEGIN, spans.OPEN_END)


def rows_of(evidence: Evidence, counted: Sequence[bool] | None = None) -> list[Row]:
    return [row for at, row in enumerate(evidence.facts) if counted is None or counted[at]]


def without(rows: list[Row], own: int) -> list[Row]:
    return [row for at, row in enumerate(rows) if at != own]


def seen_by(rows: list[Row], x: int, relations: int) -> list[Seen]:
    found = []
    for s, r, o, begin, end in rows:
        if s == x:
            found.append((r, o, begin, end))
        if o == x:
            found.append((r + relations, s, begin, end))
    return found


def dates(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """(0 begin or 1 end, date); what happened in an instant has one date."""
    if begin not in OPEN:
        yield 0, begin
    if end not in OPEN and end != begin:
        yield 1, end


# --- densities -----------------------------------------------------------------------------------------


class Buckets:
    """The buckets in order, as lists of gaps."""

    def __init__(self, granularity: Granularity) -> None:
        reach = densities.EXACT if granularity == Granularity.YEAR else densities.REACH
        special = set()
        if granularity == Granularity.DAY:
            days = {round(year * 365.2425) + more for year in range(1, 51) for more in (-1, 0, 1)}
            special = {day for day in days if densities.EXACT < day <= reach}
        later: list[list[int]] = [[gap] for gap in range(1, densities.EXACT + 1)]
        low = densities.EXACT + 1
        while low <= reach:
            past = floor(low * densities.GROWTH) + 1
            later.append([gap for gap in range(low, min(past, reach + 1)) if gap not in special])
            low = past
        later += [[day] for day in sorted(special)]
        self.gaps = [[-gap for gap in cell] for cell in reversed(later)] + [[0]] + later
        self.cell = {gap: at for at, cell in enumerate(self.gaps) for gap in cell}
        self.reach = reach

    def __call__(self, gap: int) -> int:
        return self.cell[max(-self.reach, min(self.reach, gap))]

    @property
    def width(self) -> list[int]:
        return [len(cell) for cell in self.gaps]


def laplace(counts: dict[int, float], at: int, scale: float) -> float:
    decay = exp(-1 / scale)
    return sum(count * decay ** abs(at - cell) for cell, count in counts.items()) * (1 - decay) / (1 + decay)


def density(counts: dict[int, float], at: int, width: Sequence[float]) -> float:
    """log(p / uniform) of a bucket, by the formula of the module."""
    cases, uniform = sum(counts.values()), width[at] / sum(width)
    wide = (laplace(counts, at, 12) + uniform) / (cases + 1)
    narrow = (laplace(counts, at, 2) + 10 * wide) / (cases + 10)
    p = 0.95 * (counts.get(at, 0) + 20 * narrow) / (cases + 20) + 0.05 * uniform
    return log(p / uniform)


# --- patterns: each gives a row of features for an instant -----------------------------------------------

Says = Callable[[int], list[float]]


def gap_counts(rows: list[Row], relations: int, side: Side, bucket: Buckets) -> dict[tuple[int, ...], Counter[int]]:
    """Weighted counts by kind (r, other r, anchor), and by (r,)."""
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for at, (s, r, o, begin, end) in enumerate(rows):
        date = begin if side == "begin" else end
        if date in OPEN:
            continue
        for x, role in ((s, r), (o, r + relations)):
            size = len(seen_by(rows, x, relations))
            for other, _, *span in seen_by(without(rows, at), x, relations):
                for anchor, when in dates(*span):
                    for kind in ((role, other, anchor), (role,)):
                        counts[kind][bucket(date - when)] += 1 / sqrt(max(size - 1, 1))
    return counts


def gap_features(
    evidence: Evidence, rows: list[Row], counted: list[Row], query: tuple[int, int, int], own: int, side: Side
) -> Says:
    bucket = Buckets(evidence.granularity)
    counts, width = gap_counts(counted, evidence.relations, side, bucket), bucket.width
    s, r, o = query

    @cache
    def told(kind: tuple[int, ...]) -> float:
        """Σ p log(p / uniform)."""
        logs = [density(counts.get(kind, {}), at, width) for at in range(len(width))]
        return sum(exp(each) * wide / sum(width) * each for each, wide in zip(logs, width, strict=True))

    def says(t: int) -> list[float]:
        found = []
        for x, role in ((s, r), (o, r + evidence.relations)):
            alike, rest, sharp = [], [], []
            for other, _, *span in seen_by(without(rows, own), x, evidence.relations):
                for anchor, when in dates(*span):
                    kind: tuple[int, ...] = (role, other, anchor)
                    kind = kind if kind in counts else (role,)
                    value = density(counts.get(kind, {}), bucket(t - when), width)
                    (alike if other == role else rest).append(value)
                    sharp.append((told(kind), value))
            every = alike + rest
            found += [sum(part) * min(len(part), gaps.HEARD) / max(len(part), 1) for part in (alike, rest)]
            if every:
                found += [log(sum(map(exp, every)) / len(every)), max(every), sum(every) / sqrt(len(every))]
            else:
                found += [0, 0, 0]
            sharpest = [value for each, value in sharp if each > max(sharp)[0] - gaps.AS_SHARP]
            found.append(sum(sharpest) / max(len(sharpest), 1))
        return found

    return says


def rhythm(begins: list[int]) -> tuple[int, int]:
    known = sorted(set(begins))
    if len(known) < slots.LEAST_DATES:
        return 0, 0
    steps = Counter(b - a for a, b in pairwise(known))
    period = min(steps, key=lambda step: (-steps[step], step))
    if period < 2 or steps[period] < slots.LEAST_EVEN * (len(known) - 1):
        return 0, 0
    phases = Counter(date % period for date in known)
    phase = min(phases, key=lambda each: (-phases[each], each))
    return (period, phase) if phases[phase] >= slots.LEAST_IN_STEP * len(known) else (0, 0)


def slot_features(evidence: Evidence, rows: list[Row], query: tuple[int, int, int], own: int) -> Says:
    s, r, o = query

    def says(t: int) -> list[float]:
        found = []
        for x, role in ((s, r), (o, r + evidence.relations)):
            held = [(b, e) for other, _, b, e in seen_by(without(rows, own), x, evidence.relations) if other == role]
            begins = [b for b, _ in held if b not in OPEN]
            taken = sum(b not in OPEN and e not in OPEN and b < t < e for b, e in held)
            period, phase = rhythm(begins)
            in_step = False
            if period:
                reach = slots.REACH * period
                in_step = min(begins) - reach <= t <= max(begins) + reach and t % period == phase
            found += [
                min(taken, slots.MOST),
                any(e == t != b for b, e in held),
                any(b == t != e for b, e in held),
                any(b == t == e for b, e in held),
                min(sum(exp(-abs(t - b) / 2) for b in begins), slots.MOST),
                min(sum(exp(-abs(t - b) / 8) for b in begins), slots.MOST),
                in_step,
                in_step and t not in begins,
            ]
        return [float(value) for value in found]

    return says


def lifespan_features(evidence: Evidence, rows: list[Row], query: tuple[int, int, int], own: int) -> Says:
    year = {Granularity.YEAR: 1, Granularity.MONTH: 12, Granularity.DAY: 365.2425}[evidence.granularity]

    def says(t: int) -> list[float]:
        found: list[float] = []
        for x in (query[0], query[2]):
            known = [
                when
                for _, _, *span in seen_by(without(rows, own), x, evidence.relations)
                for when in span
                if when not in OPEN
            ]
            if not known:
                found += [0, 0, 0]
                continue
            a, z, unit = min(known), max(known), lifespans.YEARS * year
            found += [-log(1 + max(0, a - t) / unit), -log(1 + max(0, t - z) / unit), float(a <= t <= z)]
        return found

    return says


def pair_features(
    evidence: Evidence, rows: list[Row], counted: list[Row], query: tuple[int, int, int], own: int, side: Side
) -> Says:
    bucket, relations = Buckets(evidence.granularity), evidence.relations
    counts: dict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    for at, (s, r, o, begin, end) in enumerate(counted):
        date = begin if side == "begin" else end
        for other, y, *span in seen_by(without(counted, at), s, relations):
            for anchor, when in dates(*span):
                if y == o and date not in OPEN:
                    counts[r, other, anchor][bucket(date - when)] += 1
    s, r, o = query

    def says(t: int) -> list[float]:
        best = [-inf, -inf]
        for other, y, *span in seen_by(without(rows, own), s, relations):
            for anchor, when in dates(*span):
                if y == o and (r, other, anchor) in counts:
                    value = density(counts[r, other, anchor], bucket(t - when), bucket.width)
                    best[other >= relations] = max(best[other >= relations], value)
        return [0 if value == -inf else value for value in best]

    return says


def usual_features(evidence: Evidence, counted: list[Row], r: int, side: Side) -> Says:
    cells = evidence.axis.tolist()

    def cell(date: int) -> int:
        return max([at for at, low in enumerate(cells) if low <= date], default=0)

    wanted = [begin if side == "begin" else end for _, each, _, begin, end in counted if each == r]
    counts = Counter(cell(date) for date in wanted if date not in OPEN)
    return lambda t: [density(dict(counts), cell(t), evidence.width.tolist())]


def by_slot(gaps: Counter[int], usual: Counter[int], cell: int, width: Sequence[float]) -> float:
    """log(p / uniform) of a gap by the slot's own series, with the gaps of all slots as some more."""
    if not gaps:
        return 0
    uniform, others = width[cell] / sum(width), successions.OTHERS
    p = exp(density(usual, cell, width)) * uniform
    return log((gaps[cell] + others * p) / (gaps.total() + others) / uniform)


def succession_features(
    evidence: Evidence, rows: list[Row], counted: list[Row], query: tuple[int, int, int], own: int, side: Side
) -> Says:
    bucket, relations = Buckets(evidence.granularity), evidence.relations

    def series(facts: list[Row], x: int, role: int) -> list[tuple[int, int]]:
        return sorted((b, e) for other, _, b, e in seen_by(facts, x, relations) if other == role and b not in OPEN)

    def says(t: int) -> list[float]:
        found: list[float] = []
        for x, role in ((query[0], query[1]), (query[2], query[1] + relations)):
            from_begin, from_end = Counter[int](), Counter[int]()
            for each in range(evidence.entities):
                for (b, e), (after, _) in pairwise(series(counted, each, role)):
                    from_begin[bucket(after - b)] += 1
                    if e not in OPEN:
                        from_end[bucket(after - e)] += 1
            held = series(without(rows, own), x, role)
            gaps = Counter(bucket(b - a) for (a, _), (b, _) in pairwise(held))
            width = bucket.width
            before, after = [each for each in held if each[0] <= t], [each for each in held if each[0] > t]
            since = bucket(t - before[-1][0]) if before else None
            until = bucket(after[0][0] - t) if after else None
            ended = bool(before) and before[-1][1] not in OPEN
            found += [
                0 if since is None else density(from_begin, since, width),
                density(from_end, bucket(t - before[-1][1]), width) if ended else 0,
                0 if until is None else density(from_begin, until, width),
                0 if since is None else by_slot(gaps, from_begin, since, width),
                0 if until is None else by_slot(gaps, from_begin, until, width),
            ]
        return found if side == "begin" else [0.0] * len(found)

    return says


def end_features(
    evidence: Evidence, rows: list[Row], counted: list[Row], query: tuple[int, int, int], own: int, begin: int
) -> Says:
    bucket, (s, r, o) = Buckets(evidence.granularity), query
    lengths = [(each, bucket(e - b)) for _, each, _, b, e in counted if b not in OPEN and e not in OPEN]
    counts: dict[int, float] = defaultdict(float)
    for each, cell in lengths:
        counts[cell] += (each == r) + durations.ALL_CASES / len(lengths)

    def says(t: int) -> list[float]:
        found = [density(counts, bucket(t - begin), bucket.width)]
        for x, role in ((s, r), (o, r + evidence.relations)):
            seen = seen_by(without(rows, own), x, evidence.relations)
            later = [b for other, _, b, _ in seen if other == role and b > begin]
            following = min(later, default=None)
            if following is None:
                found += [0, 0, 0]
            else:
                found += [float(t == following), float(t == following - 1), log(1 + max(t - following, 0))]
        return found

    return says


ORACLES: dict[str, Callable[..., Says]] = {
    "gaps": gap_features,
    "slots": lambda evidence, rows, counted, query, own, side: slot_features(evidence, rows, query, own),
    "lifespans": lambda evidence, rows, counted, query, own, side: lifespan_features(evidence, rows, query, own),
    "pairs": pair_features,
    "successions": succession_features,
    "usual-dates": lambda evidence, rows, counted, query, own, side: usual_features(evidence, counted, query[1], side),
}
"""By name: (evidence, rows, counted rows, (s, r, o), own, side) → what it says of an instant."""
