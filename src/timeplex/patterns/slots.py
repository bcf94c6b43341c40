"""Slots: what else the subject or object has in the same relation, and where that leaves room for one fact more.

The facts of a subject in a relation (or of an object) share a *slot*: a club's coaches, a person's marriages. Of every
instant they say

    taken       how many of them hold there, ends not counted, at most `MOST`
    end, begin  whether one ends or begins there: a successor comes when its predecessor goes
    event       whether one begins and ends there
    near, around  Σ exp(−|t − begin| / 2) and the same with 8, at most `MOST`

The rhythm of a slot: if at least `LEAST_DATES` distinct begins lie mostly P ≥ 2 instants apart, `in step` is 1 where
the rhythm goes on and 0 elsewhere, and `free` is 1 if moreover none of them begins there.
"""

import numpy as np
from numba import njit

from timeplex.kb import spans
from timeplex.patterns.base import Because, Evidence, Pattern, Side, TimeQueries, register
from timeplex.typing import Bools, Features, Floats, Ints

MOST = 3.0
MOST_FACTS = 4096
"""So many facts of a slot are looked at: who comes before and after is known only if none is left out."""
NEAR, AROUND = 2.0, 8.0
LEAST_DATES = 5
LEAST_EVEN = 0.5
LEAST_IN_STEP = 0.75
REACH = 2
"""A rhythm goes on for so many steps beyond the first and the last date."""
STEP_STRENGTH = 3.0
"""A rhythm points at an instant as much as a gap that is e³ times as frequent as it would be by chance."""

SLOT_FEATURES = ("taken", "end", "begin", "event", "near", "around", "in step", "free")


class Slots:
    """The rows of an evidence by (entity, directed relation)."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self._width = 2 * evidence.relations
        self._index = evidence.rows_by(evidence.x * self._width + evidence.r)

    def others(self, x: Ints, r: Ints, own: Ints) -> tuple[Ints, Ints]:
        """(start (n + 1,), rows): the other facts of each slot (x, r), in the order of begins, then of ends."""
        place, row = self._index.others(x * self._width + r, own, MOST_FACTS)
        return np.searchsorted(place, np.arange(len(x) + 1)), row


@njit(cache=True, nogil=True)
def _occupied(start: Ints, begins: Ints, ends: Ints, axis: Ints, no_begin: int, no_end: int, rows: Features) -> None:
    """Fill the first six of rows (n, 8, instants)."""
    instants = axis.shape[1]
    change = np.zeros(instants + 1)
    for query in range(len(start) - 1):
        low, high = start[query], start[query + 1]
        if low == high:
            continue
        here = axis[query if len(axis) > 1 else 0]
        change[:] = 0.0
        for fact in range(low, high):
            begin, end = begins[fact], ends[fact]
            first, last = np.searchsorted(here, begin), np.searchsorted(here, end)
            begin_on = first < instants and here[first] == begin
            end_on = last < instants and here[last] == end
            if begin_on:
                rows[query, 3 if begin == end else 2, first] = 1.0
            if end_on and begin != end:
                rows[query, 1, last] = 1.0
            if begin != no_begin and end != no_end and begin < end:
                change[first + 1 if begin_on else first] += 1.0
                change[last] -= 1.0
        held = 0.0
        for place in range(instants):
            held += change[place]
            rows[query, 0, place] = min(held, MOST)
        while low < high and begins[low] == no_begin:
            low += 1
        _kernels(begins[low:high], here, NEAR, rows[query, 4])
        _kernels(begins[low:high], here, AROUND, rows[query, 5])


@njit(cache=True, nogil=True)
def _kernels(dates: Ints, axis: Ints, scale: float, row: Features) -> None:
    """Σ exp(−|t − date| / scale) over dates in order, at most `MOST`: a decaying sum from either side."""
    if len(dates) == 0:
        return
    total = np.zeros(len(axis))
    step = np.exp(-1.0 / scale)
    running, known = 0.0, 0
    for place in range(len(axis)):
        if place and known:
            apart = axis[place] - axis[place - 1]
            running *= step if apart == 1 else np.exp(-apart / scale)
        while known < len(dates) and dates[known] <= axis[place]:
            running += np.exp((dates[known] - axis[place]) / scale)
            known += 1
        total[place] = running
    running, known = 0.0, len(dates) - 1
    for place in range(len(axis) - 1, -1, -1):
        if place < len(axis) - 1 and known < len(dates) - 1:
            apart = axis[place + 1] - axis[place]
            running *= step if apart == 1 else np.exp(-apart / scale)
        while known >= 0 and dates[known] > axis[place]:
            running += np.exp((axis[place] - dates[known]) / scale)
            known -= 1
        row[place] = min(total[place] + running, MOST)


@njit(cache=True, nogil=True)
def rhythm_of(dates: Ints) -> tuple[int, int]:
    """(P, phase) of distinct dates in order, P = 0 if they have no rhythm."""
    if len(dates) < LEAST_DATES:
        return 0, 0
    steps = np.sort(dates[1:] - dates[:-1])
    period, most, run = 0, 0, 0
    for at in range(len(steps)):
        run = run + 1 if at and steps[at] == steps[at - 1] else 1
        if run > most:
            period, most = steps[at], run
    if period < 2 or most < LEAST_EVEN * len(steps):
        return 0, 0
    phases = np.sort(dates % period)
    phase, most, run = 0, 0, 0
    for at in range(len(phases)):
        run = run + 1 if at and phases[at] == phases[at - 1] else 1
        if run > most:
            phase, most = phases[at], run
    if most < LEAST_IN_STEP * len(phases):
        return 0, 0
    return period, phase


@njit(cache=True, nogil=True)
def _rhythm(start: Ints, begins: Ints, axis: Ints, no_begin: int, rows: Features) -> None:
    for query in range(len(start) - 1):
        known = begins[start[query] : start[query + 1]]
        known = np.unique(known[known != no_begin])
        period, phase = rhythm_of(known)
        if period == 0:
            continue
        low, high = known[0] - REACH * period, known[-1] + REACH * period
        here = axis[query if len(axis) > 1 else 0]
        for place in range(len(here)):
            at = here[place]
            if low <= at <= high and at % period == phase:
                rows[query, 6, place] = 1.0
                nearest = np.searchsorted(known, at)
                if nearest == len(known) or known[nearest] != at:
                    rows[query, 7, place] = 1.0


@njit(cache=True, nogil=True)
def _beats(start: Ints, begins: Ints, no_begin: int) -> tuple[Ints, Ints]:
    """All (query, instant in step with the rhythm of its slot)."""
    place, at = [np.int64(0) for _ in range(0)], [np.int64(0) for _ in range(0)]
    for query in range(len(start) - 1):
        known = begins[start[query] : start[query + 1]]
        known = np.unique(known[known != no_begin])
        period, phase = rhythm_of(known)
        if period == 0:
            continue
        low, high = known[0] - REACH * period, known[-1] + REACH * period
        for beat in range(low + (phase - low) % period, high + 1, period):
            place.append(np.int64(query))
            at.append(np.int64(beat))
    return np.array(place, np.int64), np.array(at, np.int64)


@register("slots")
class SlotPattern(Pattern):
    """What is taken, who comes before and after, and the rhythm, from subject and object."""

    year_features = tuple(f"{entity} slot {feature}" for entity in ("subject", "object") for feature in SLOT_FEATURES)

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        super().__init__(evidence, counted)
        self.slots = Slots(evidence)

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 16, instants); the same for begin and end, which weigh it differently."""
        evidence, per, axis = self.evidence, len(SLOT_FEATURES), queries.instants(self.evidence)
        rows = np.zeros((len(queries), len(self.year_features), axis.shape[1]), np.float32)
        for at, (x, r) in enumerate(((queries.s, queries.r), (queries.o, queries.r + evidence.relations))):
            start, row = self.slots.others(x, r, queries.own)
            part = rows[:, per * at : per * (at + 1)]
            begins, ends = evidence.begin[row], evidence.end[row]
            _occupied(start, begins, ends, axis, spans.OPEN_BEGIN, spans.OPEN_END, part)
            _rhythm(start, begins, axis, spans.OPEN_BEGIN, part)
        return rows

    def because(self, query: TimeQueries, side: Side, at: int) -> list[Because]:
        """Each fact of a slot has its share of what the slot says; a rhythm is that of all of them."""
        evidence, per = self.evidence, len(SLOT_FEATURES)
        said = self.years(query, side)[0, :, at].astype(float)
        axis, found = query.instants(evidence)[:, [at]], []
        instant = int(axis[0, 0])
        for which, (x, r) in enumerate(((query.s, query.r), (query.o, query.r + evidence.relations))):
            _, rows = self.slots.others(x, r, query.own)
            alone = np.zeros((len(rows), 6, 1), np.float32)
            for place, row in enumerate(rows):
                one, only = np.array([0, 1]), np.array([row])
                begin, end = evidence.begin[only], evidence.end[only]
                _occupied(one, begin, end, axis, spans.OPEN_BEGIN, spans.OPEN_END, alone[place][None])
            total = np.maximum(alone.sum(0), 1e-30)[:, 0]
            for place, row in enumerate(rows.tolist()):
                values = np.zeros(len(said))
                values[per * which : per * which + 6] = alone[place, :, 0] / total * said[per * which : per * which + 6]
                anchor: Side = "end" if evidence.end[row] == instant else "begin"
                gap = instant - int(evidence.end[row] if anchor == "end" else evidence.begin[row])
                found.append(Because(row, values, gap, anchor))
        values = said.copy()
        values[[place for place in range(len(said)) if place % per < 6]] = 0
        return [*found, Because(-1, values)] if values.any() else found

    def points(self, queries: TimeQueries, side: Side) -> tuple[Ints, Ints, Floats]:
        """The instants in step with the slots' rhythm; where they begin and end, gaps point at."""
        found = []
        for x, r in ((queries.s, queries.r), (queries.o, queries.r + self.evidence.relations)):
            start, row = self.slots.others(x, r, queries.own)
            found.append(_beats(start, self.evidence.begin[row], spans.OPEN_BEGIN))
        place, at = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return place, at, np.full(len(place), STEP_STRENGTH)
