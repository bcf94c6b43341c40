"""What every rule looks at: the facts in canonical order, what their dates say of each other, how to write them."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from timeplex.auditing.evidence import ERRORS, LEAST_CASES, DateEvidence, gather
from timeplex.auditing.own_rules import OwnRules
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, Facts, TemporalKB
from timeplex.kb.problems import FACT, Kind
from timeplex.patterns.orderings import ENTITIES, Ordering, survey
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.text import Describer
from timeplex.typing import Bools, Codes, Floats, Ints, Progress

LEAST_SEVERITY = 0.25
"""What is less likely an error than this is not reported."""
CERTAIN = 0.99
"""The severity of what breaks a rule that the user wrote."""


MOST_EXPECTED_YEARS = 50
"""A range for a date that is wider helps nobody."""


@dataclass(frozen=True)
class Repair:
    """What would mend a fact: how it would read instead or, if it `adds`, a further fact. Numbers and instants."""

    s: int
    r: int
    o: int
    begin: int
    end: int
    adds: bool = False


@dataclass(frozen=True, eq=False)
class AuditContext(Describer):
    """A KB under audit. `rows` are the places of the facts in `kb.facts`, `split` numbers their splits."""

    own: OwnRules
    rows: Ints
    split: Ints
    notes: list[str] = field(default_factory=list)
    on_progress: Progress | None = None

    @classmethod
    def of(cls, kb: TemporalKB, own: OwnRules, on_progress: Progress | None = None) -> "AuditContext":
        """The facts sorted by what they say, so that their order in the KB has no influence on anything."""
        facts = kb.facts
        split = np.repeat(np.arange(len(SPLITS)), [len(kb.splits.get(name, Facts.empty())) for name in SPLITS])
        rows = np.lexsort((split, facts.end, facts.begin, facts.o, facts.r, facts.s))
        return cls(kb, facts[rows], own, rows, split[rows], on_progress=on_progress)

    @cached_property
    def evidence(self) -> DateEvidence:
        """What the dates say about each other."""
        return gather(self.facts, self.kb.granularity)

    @cached_property
    def repaired(self) -> tuple[Ints, Facts]:
        """The facts that end before they begin in the source, where the reader set the end: rows, and as it has them.

        −1 for the rows of those that are not in the KB, or whose problem was stored without the fact (see `problems`).
        """
        told = self.kb.problems.of_facts(Kind.BEGIN_AFTER_END).select(FACT)
        source = Facts(*(told[name].fill_null(-1).to_numpy() for name in FACT))
        place, row = self.facts.of_triples(source.s, source.r, source.o)
        same = self.facts.begin[row] == source.begin[place]
        rows = np.full(len(source), -1)
        # Facts are in the order of their ends: of several, the one that lasts shortest is taken.
        rows[place[same][::-1]] = row[same][::-1]
        return rows, source

    @property
    def orderings(self) -> list[Ordering]:
        """How often relations begin before others, whether that makes a rule or not, if there are enough cases."""
        return self._survey[0]

    @property
    def precedence(self) -> Ints:
        """Of each relation beside all others: cases, how many of them it begins, and ends, (3, relations)."""
        return self._survey[1]

    @cached_property
    def _survey(self) -> tuple[list[Ordering], Ints]:
        return survey(self.facts, len(self.kb.relations), cases=LEAST_CASES, entities=ENTITIES)

    @property
    def year(self) -> float:
        """How many instants a year has."""
        return INSTANTS_A_YEAR[self.kb.granularity]

    def blame(self, fact: Ints, other: Ints) -> Floats:
        """Pr(the fact is wrong, given that it or the other one is). Shapes (n,)."""
        wrong = np.maximum(self.evidence.wrong, ERRORS / 10)
        one, two = wrong[fact], wrong[other]
        blame: Floats = one / (one + two - one * two)
        return blame

    @cached_property
    def _expected(self) -> tuple[Ints, Ints]:
        """From when to when each suspicious fact is expected, by the trusted fact that says it best.

        first > last: nobody says, or the fact is not suspicious.
        """
        of = self.evidence
        high = of.kinds.high
        low = np.where(of.even, -high, of.kinds.low)
        narrow = (of.kinds.size >= LEAST_CASES) & (high - low <= MOST_EXPECTED_YEARS * self.year)
        suspicious, trusted = of.wrong > ERRORS, of.wrong < ERRORS
        later, earlier = (
            np.flatnonzero(suspicious[fact] & trusted[other] & narrow[of.kind])
            for fact, other in ((of.second, of.first), (of.first, of.second))
        )
        fact = np.concatenate([of.second[later], of.first[earlier]])
        other = np.concatenate([of.first[later], of.second[earlier]])
        low, high = (
            np.concatenate([ends[of.kind[later]], -others[of.kind[earlier]]])
            for ends, others in ((low, high), (high, low))
        )
        order = np.lexsort((other, high - low, fact))
        facts, best = np.unique(fact[order], return_index=True)
        best = order[best]
        first, last = np.ones(len(self.facts), np.int64), np.zeros(len(self.facts), np.int64)
        first[facts] = of.date[other[best]] + low[best]
        last[facts] = of.date[other[best]] + high[best]
        return first, last

    def better_date(self, row: int) -> str:
        """A suggestion for the date of a fact: `begin 1823 → 1923?` if one slip of the pen explains it, or a range."""
        first, last = (int(ends[row]) for ends in self._expected)
        date = int(self.evidence.date[row])
        if first > last or first <= date <= last:
            return "check the date"
        what = f"{self.end_in_question(row)} {self.date(date)} → "
        if self.kb.granularity is Granularity.YEAR:
            slips = [year for year in range(first, last + 1) if _one_slip(str(date), str(year))]
            if len(slips) == 1:
                return f"{what}{slips[0]}?"
        if self.end_in_question(row) == "begin" and self.facts.has_end[row]:
            last = min(last, max(first, int(self.facts.end[row])))
        return self.instead(self.end_in_question(row), date, first, last)

    def better_dates(self, row: int) -> list[Repair]:
        """The repair that `better_date` suggests, where it is one date and not a range."""
        first, last = (int(ends[row]) for ends in self._expected)
        date, end = int(self.evidence.date[row]), self.end_in_question(row)
        if first > last or first <= date <= last:
            return []
        if self.kb.granularity is Granularity.YEAR:
            slips = [year for year in range(first, last + 1) if _one_slip(str(date), str(year))]
            if len(slips) == 1:
                return self.dated_otherwise(row, end, slips[0])
        if end == "begin" and self.facts.has_end[row]:
            last = min(last, max(first, int(self.facts.end[row])))
        last = min(last, self.latest)
        return self.dated_otherwise(row, end, first) if first == last else []

    def dated_otherwise(self, row: int, end: str, date: int) -> list[Repair]:
        """A fact with another begin, end or date; none if it would end before it begins."""
        begin, last = int(self.facts.begin[row]), int(self.facts.end[row])
        begin, last = (date if end in ("begin", "date") else begin), (date if end in ("end", "date") else last)
        return [self.otherwise(row, begin=begin, end=last)] if begin <= last else []

    def otherwise(self, row: int, **changed: int) -> Repair:
        """A fact with some of s, r, o, begin and end changed."""
        s, r, o, begin, end = (int(column[row]) for column in self.facts.columns)
        return replace(Repair(s, r, o, begin, end), **changed)  # type: ignore[arg-type]

    def instead(self, end: str, date: int, first: int, last: int) -> str:
        """A suggestion of other dates for an end of a fact, none of them later than any date of the KB."""
        last = min(last, self.latest)
        if first > last:
            return f"check the {end} {self.date(date)}"
        early, late = self.date(first), self.date(last)
        return f"{end} {self.date(date)} → {early if early == late else f'{early} to {late}'}?"

    @cached_property
    def latest(self) -> int:
        """The last date of the KB that some others stand beside: what comes later is still to come, or wrong."""
        dates = np.concatenate([self.facts.begin[self.facts.has_begin], self.facts.end[self.facts.has_end]])
        dates = np.sort(dates[dates <= self.evidence.plausible[1]])
        return int(dates[-1 - len(dates) // 2000]) if len(dates) else 0

    def end_in_question(self, row: int) -> str:
        """Which of its ends the date of a fact is."""
        begin, end = int(self.facts.begin[row]), int(self.facts.end[row])
        if begin == end:
            return "date"
        return "end" if begin == spans.OPEN_BEGIN else "begin"


def trust(broken: Ints | int, cases: Ints | int) -> Floats:
    """Pr(what breaks a rule is an error): π / (π + share of other exceptions), each exception leaving out itself.

    A rule with 2 exceptions in 2,216 cases is broken by errors alone; one with exceptions in one case of ten has them
    by nature. Half a case more is counted as an exception, so that few cases make no sure rule.
    """
    others = (np.maximum(np.asarray(broken, np.float64) - 1, 0) + 0.5) / np.maximum(np.asarray(cases, np.float64), 1)
    result: Floats = ERRORS / (ERRORS + others)
    return result


@dataclass(frozen=True)
class Tally:
    """Of a rule: Pr(what breaks it is an error), and in how many of how many cases it holds; 0 where none is counted.

    Numbers, or arrays of one shape.
    """

    sure: Floats | float
    holds: Ints | int = 0
    cases: Ints | int = 0


def tally(relation: Codes, broken: Ints, cases: Ints, usual: Bools, own: Bools | bool = False) -> Tally:
    """Of a rule with so many breaches in so many cases a relation, (relations,), for facts of `relation`, (n,).

    It holds for the relations where it is `usual`, and surely, without counting, for those of the user's `own` rules.
    """
    sure = np.where(own, CERTAIN, np.where(usual, trust(broken, cases), 0.0))
    cases = np.where(own, 0, cases)
    return Tally(sure[relation], (cases - np.minimum(broken, cases))[relation], cases[relation])


def _one_slip(written: str, meant: str) -> bool:
    """Whether one wrong digit, or two neighbours in the wrong order, make one of the other."""
    if len(written) != len(meant):
        return False
    wrong = [at for at in range(len(meant)) if written[at] != meant[at]]
    if len(wrong) == 2:
        one, two = wrong
        return two == one + 1 and written[one] == meant[two] and written[two] == meant[one]
    return len(wrong) == 1
