"""rhythm: an event out of the step of its series, such as games in a year between the usual ones.

A series is the dates of an entity in a relation (its facts as subject, or as object). It has a rhythm if the most
frequent distance P between neighbours is at least two instants and makes half of them, and at least four in five dates
leave the same remainder by P. What leaves another remainder breaks the rhythm; an edition that is left out does not.
What lasts for half of P or longer is no event of a series but follows another (terms of office), and has no rhythm.
"""

import numpy as np

from timeplex.auditing.base import Block, Found, Rule, block, register
from timeplex.auditing.case import AuditContext, Repair, trust
from timeplex.auditing.evidence import numbered, sort_by
from timeplex.typing import Floats, Ints

LEAST_DATES = 6
LEAST_EVEN = 0.5
LEAST_IN_STEP = 0.8


@register("rhythm")
class Rhythm(Rule):
    """What happens every P instants goes on so."""

    family, says = "rhythm", "it is out of step with its series"

    def find(self, case: AuditContext) -> Found:
        """Facts out of step; how sure, by all series of the relation that have a rhythm."""
        return self.accuse(*(_out_of_step(case, side) for side in ("subject", "object")))


def most_frequent(group: Ints, value: Ints, groups: int) -> tuple[Ints, Ints]:
    """The most frequent value of each group (the least of several) and how often it occurs; 0 times if it has none."""
    order = sort_by(group, value)
    group, value = group[order], value[order]
    first = np.flatnonzero(np.append(True, (group[1:] != group[:-1]) | (value[1:] != value[:-1]))[: len(group)])
    counts = np.diff(np.append(first, len(group)))
    group, value = group[first], value[first]
    order = np.lexsort((value, -counts, group))
    found, at = np.unique(group[order], return_index=True)
    values, times = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    values[found], times[found] = value[order][at], counts[order][at]
    return values, times


def _out_of_step(case: AuditContext, side: str) -> Block:
    facts, date = case.facts, case.evidence.date
    rows = np.flatnonzero(case.evidence.known)
    entity = (facts.s if side == "subject" else facts.o)[rows]
    where, series = numbered(entity, facts.r[rows])
    # Each date of a series once, in order.
    order = sort_by(where, date[rows])
    of, dates = where[order], date[rows][order]
    new = np.append(True, (of[1:] != of[:-1]) | (dates[1:] != dates[:-1]))[: len(of)]
    of, dates = of[new], dates[new]
    size = np.bincount(of, minlength=series)
    same = of[1:] == of[:-1]
    period, times = most_frequent(of[1:][same], np.diff(dates)[same], series)
    step = np.maximum(period, 1)
    phase, in_step = most_frequent(of, dates % step[of], series)
    rhythmic = (
        (size >= LEAST_DATES) & (period >= 2) & (times >= LEAST_EVEN * (size - 1)) & (in_step >= LEAST_IN_STEP * size)
    )
    length = np.where(facts.closed, facts.end.astype(np.int64) - facts.begin, 0)[rows]
    lasting = np.bincount(where, 2 * length >= step[where], series)
    rhythmic &= 2 * lasting <= np.bincount(where, minlength=series)
    relation = np.zeros(series, np.int64)
    relation[where] = facts.r[rows]
    cases = np.bincount(relation[rhythmic], size[rhythmic], len(case.kb.relations)).astype(np.int64)
    broken = np.bincount(relation[rhythmic], (size - in_step)[rhythmic], len(case.kb.relations)).astype(np.int64)
    sure: Floats = trust(broken, cases)
    wrong = np.flatnonzero(rhythmic[where] & (date[rows] % step[where] != phase[where]))
    accused, which = rows[wrong], where[wrong]

    def message(place: int) -> str:
        row, at = int(accused[place]), which[place]
        who = case.entity((facts.s if side == "subject" else facts.o)[row])
        every = f"every {case.length(period[at])}"
        return f"{case.relation(facts.r[row])} of {who} happens {every}, but {case.date(date[row])} is out of step."

    def suggestion(place: int) -> str:
        row, at = int(accused[place]), which[place]
        before = int(date[row] - (date[row] - phase[at]) % step[at])
        after = f" or {case.date(before + step[at])}" if before + step[at] <= case.latest else ""
        return f"{case.date(date[row])} → {case.date(before)}{after}?"

    def repairs(place: int) -> list[Repair]:
        row, at = int(accused[place]), which[place]
        before, step_of = int(date[row] - (date[row] - phase[at]) % step[at]), int(step[at])
        near = sorted((before, before + step_of), key=lambda each: abs(each - int(date[row])))
        end = case.end_in_question(row)
        return [each for when in near if when <= case.latest for each in case.dated_otherwise(row, end, when)]

    holds, cases = in_step[which], size[which]
    return block(accused, sure[relation[which]], message, suggestion, holds=holds, cases=cases, repairs=repairs)
