"""The other end of a fact of which one is known, and whether it still goes on, with probabilities that come true.

Both are one distribution: with p_open, the probability that the KB leaves the end open, a missing end is about right
(the true and the predicted span share at least half of their hull) with (1 − p_open) · Pr(about right | it ended).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pydantic import BaseModel, ConfigDict

from timeplex.answers import calibration_maps
from timeplex.answers.calibration_maps import CalibrationMap
from timeplex.answers.dates import LEAST_CASES, Dates, reasons, with_dev
from timeplex.answers.kept import Keeper, Numbers
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.patterns.base import SIDES, Evidence, Side, TimeQueries
from timeplex.patterns.dating import DateModel, Fitted
from timeplex.patterns.gaps import habit
from timeplex.patterns.open_ends import Begun, OpenEnds
from timeplex.patterns.other_end import other_end, share_of_hull
from timeplex.text import Describer, length
from timeplex.typing import Floats, Ints

MOST_CASES = 500
"""So many dev facts are asked for one of their ends at most."""
WINDOW = 9
"""A reason for an end is compared at so many instants."""


class EndsState(BaseModel):
    """What dev says of raw probabilities: that an end, or a begin, is about right, and that a fact goes on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    end: CalibrationMap
    begin: CalibrationMap
    going_on: CalibrationMap


@dataclass(frozen=True, eq=False)
class Ends:
    """What is said of facts with one end. Everything is learned on first use, and then all facts are evidence."""

    kb: TemporalKB
    dates: Dates
    keeper: Keeper

    def other(self, queries: TimeQueries, side: Side, known: Ints) -> tuple[Ints, Floats]:
        """The missing side, (n,), and how likely it is about right, if the fact has ended: (n,)."""
        found = other_end(self.dates.model, queries, side, known)
        calibrated = self._maps.end if side == "end" else self._maps.begin
        return found.instant, calibrated(found.about_right, queries.r)

    def going_on(self, queries: TimeQueries, begin: Ints) -> Floats:
        """How likely the KB leaves the end open of facts that began: (n,)."""
        begun = Begun(queries.s, queries.r, queries.o, np.asarray(begin, np.int64), queries.own)
        return self._maps.going_on(self._open(begun), queries.r)

    def reasons(self, query: TimeQueries, begin: int, end: int, limit: int) -> list[str]:
        """Why one fact that began then ends then: who follows, whose dates speak for it, how long such facts last."""
        model, kb = self.dates.model, self.kb
        span = max(end - begin, 1)
        window = np.unique(np.linspace(max(begin, end - span), end + span, WINDOW).astype(int))
        told = [*self._successor(query, begin, end)]
        told += reasons(kb, model, query, end, window, limit, side="end")
        return list(dict.fromkeys([*told, *self.lasts(int(query.r[0]), end - begin)]))[:limit]

    def lasts(self, r: int, gap: int) -> list[str]:
        """How long facts of a relation last, if there are enough: in a sentence."""
        durations, unit = self.dates.model.fitted.durations, self.kb.granularity.value
        usual = habit(durations.counts[r].astype(np.int64), durations.buckets, gap)
        if usual.cases < 2:
            return []
        what, cases = self.kb.relations.label(r), f"{usual.cases:,} cases"
        if usual.holds >= max(2, usual.cases // 4):
            lasts = f"begins and ends the same {unit}" if gap == 0 else f"lasts {length(gap, unit)}"
            return [f"{what} {lasts} in {usual.holds:,} of {cases}"]
        low, high = (max(each, 0) for each in (usual.low, usual.high))
        between = length(low, unit) if low == high else f"{low:,} to {length(high, unit)}"
        return [f"{what} mostly lasts {between} ({cases})"]

    def _successor(self, query: TimeQueries, begin: int, end: int) -> list[str]:
        """The fact of either slot that begins where this one ends, or right after."""
        durations, evidence = self.dates.model.fitted.durations, self.dates.model.evidence
        following = durations.successors(query, np.array([[begin]]))[0, 0]
        describe, said = Describer(self.kb, evidence.facts), []
        for at, (x, r) in enumerate(((query.s, query.r), (query.o, query.r + evidence.relations))):
            if following[at] in (end, end + 1):
                _, rows = durations.slots.others(x, r, query.own)
                row = int(rows[evidence.begin[rows] == following[at]][0]) % len(evidence)
                said.append(f"{describe.triple(row)} began {describe.date(int(following[at]))}")
        return said

    # What dev says ----------------------------------------------------------------------------------------------

    @cached_property
    def _judged(self) -> TemporalKB:
        return with_dev(self.kb)

    @cached_property
    def _maps(self) -> EndsState:
        relations = len(self.kb.relations)

        def build(state: EndsState, numbers: Numbers) -> EndsState | None:
            numbers.of()
            fits = all(each.fits(relations) for each in (state.end, state.begin, state.going_on))
            return state if fits else None

        found: EndsState | None = self.keeper.restored("ends", EndsState, build)
        if found is None:
            right = self._right()
            found = EndsState(end=right["end"], begin=right["begin"], going_on=self._open_map())
            self.keeper.keep("ends", found, {})
        return found

    def _right(self) -> dict[Side, CalibrationMap]:
        """From raw to calibrated probabilities that an end is about right."""
        dev = self._judged.valid[self._judged.valid.closed]
        if len(dev) < LEAST_CASES:
            return dict.fromkeys(SIDES, CalibrationMap())
        dev = dev[np.sort(np.random.default_rng(0).permutation(len(dev))[:MOST_CASES])]
        evidence = Evidence.of(self._judged)
        model = DateModel(evidence, Fitted.of(evidence), self.dates.model.weights)
        return {side: _calibrated(model, dev, side) for side in SIDES}

    @cached_property
    def _open(self) -> OpenEnds:
        return OpenEnds.fit(Evidence.of(self.kb, self.kb.facts))

    def _open_map(self) -> CalibrationMap:
        dev = self._judged.valid[self._judged.valid.has_begin]
        is_open = ~dev.has_end
        if min(is_open.sum(), (~is_open).sum()) < LEAST_CASES:
            return CalibrationMap()
        raw = OpenEnds.fit(Evidence.of(self._judged))(Begun.of(dev))
        r, fold = np.asarray(dev.r, np.int64), calibration_maps.folds(len(dev))
        return calibration_maps.choose(raw, is_open, r, fold, len(self.kb.relations))[0]


def _calibrated(model: DateModel, dev: Facts, side: Side) -> CalibrationMap:
    begin, end = (np.asarray(each, np.int64) for each in dev.span)
    known = begin if side == "end" else end
    queries = TimeQueries.of(dev)
    found = other_end(model, queries, side, known)
    span = (begin, found.instant) if side == "end" else (found.instant, end)
    right = share_of_hull(span, (begin, end)) >= 0.5
    fold = calibration_maps.folds(len(dev))
    return calibration_maps.choose(found.about_right, right, queries.r, fold, model.evidence.relations)[0]


def own_facts(facts: Facts, s: Ints, r: Ints, o: Ints, begin: Ints, end: Ints) -> Ints:
    """The fact that says of each row just what the row says, or −1: (n,). It is no evidence for the row."""
    own = np.full(len(s), -1, np.int64)
    place, row = facts.of_triples(s, r, o)
    same = (facts.begin[row] == begin[place]) & (facts.end[row] == end[place])
    own[place[same]] = row[same]
    return own


def closes(facts: Facts, s: Ints, r: Ints, o: Ints, begin: Ints, end: Ints) -> Ints:
    """The first fact that states what a row lacks of its dates and agrees with what it has, or −1: (n,)."""
    stated = np.full(len(s), -1, np.int64)
    place, row = facts.of_triples(s, r, o)
    order = np.lexsort((facts.end[row], facts.begin[row], place))[::-1]
    place, row = place[order], row[order]
    agrees = np.ones(len(row), np.bool_)
    for mine, its, missing in ((begin, facts.begin, spans.OPEN_BEGIN), (end, facts.end, spans.OPEN_END)):
        agrees &= np.where(mine[place] == missing, its[row] != missing, its[row] == mine[place])
    stated[place[agrees]] = row[agrees]
    return stated
