"""Events between two entities: what happened between them before and after, and what is going on at the time.

For (x, r, ?, t), the candidate c is judged by the events of the pair (x, c), with whatever relation and in whatever
direction, by how popular c is around t, and by rules: (x, r′, c) so many instants before or after vouches for
(x, r, c). Past and future count alike. The date of a fact is its begin, or its end where that is open; undated facts
and facts of an entity with itself are left out, and what a KB states twice counts once. Of x itself nothing is said.

With Δ = t′ − t of an event (x, r′, c, t′) and kernels k_τ(Δ) = exp(−|Δ| / τ) for τ = 1.5, 7, 40 and ∞ instants:

    same τ, any τ           log(1 + Σ k_τ(Δ)) over the events of the pair with r′ = r, or with any r′
    share                   log(1 + 1000 · n(x, r, c) / n(x, r))
    rule sum, rule best     log(1 + 1000 p) of p = 1 − Π (1 − confidence(r, r′, Δ)) over the events of the pair, and of
                            the best confidence among them
    before, after; same …   log((1 + n) / (1 + |Δ|)), but ≥ 0, of the nearest event of the pair with Δ ≤ 0, or Δ ≥ 0, of
                            any relation, and of r itself; n instants are on the axis
    role τ, active τ        log(1 + Σ k_τ(Δ)) over the events (·, r, c), or over all of c; kernels of finite τ are cut
                            off where |Δ| > 5 τ
    stranger …              some of the latter once more, for those c alone who have no event with x

A rule (r, r′, bucket of Δ) has as cases all pairs of a question (x, r, ?, t) that the evidence answers and an event
(x, r′, c, t′), and as hits those where c is an answer to it: confidence = hits / (cases + 5). An answer is no evidence
for its own question, so that the rule (r, r, 0) has no cases. Beyond `MOST_RELATIONS`, rare relations have no rules.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from timeplex.kb import spans
from timeplex.kb.facts import Facts
from timeplex.patterns.base import Evidence, LinkQueries, Pattern, register
from timeplex.patterns.relation_classes import MOST_LASTING
from timeplex.typing import Bools, Codes, Features, Floats, Ints

SCALES = (1.5, 7.0, 40.0)
"""The τ of the kernels, in instants, besides ∞."""
REACH = 5
"""How far popularity looks: so many times τ."""
GAPS = (0, 1, 2, 3, 7, 14, 30, 60, 120)
"""The last |Δ| of each bucket of a rule; one more bucket has all that are farther. Before and after are kept apart."""
BUCKETS = 2 * len(GAPS) + 1
MOST_RELATIONS = 300
"""Rules are learned of so many relations, the most frequent: memory grows with their square."""
PRIOR = 5.0
"""Cases without a hit that every rule starts with."""
SHARPNESS = 1000.0
"""Probabilities p are said as log(1 + 1000 p)."""


def has_events(facts: Facts) -> bool:
    """Whether a KB tells of events: hardly any dated fact, as in `relation_classes`, has another end than its begin."""
    dated = facts.dated
    return bool(dated.any()) and float((facts.begin != facts.end)[dated].mean()) <= MOST_LASTING


class Log(NamedTuple):
    """Events in the orders that they are read in, every fact from both its sides; m rows.

    start    (entities + 1,)  the rows of x are start[x] … start[x + 1] − 1 of
    y, r, t  (m,)             the other entity, the directed relation and the date, by (x, y, t, r)
    role_start, role_y, role_t          (2R + 1,), (m,), (m,)  the same by (r, t)
    ever_start, ever_y, ever            (2R + 1,), (k,), (k,)  how many events each (r, y) has, by r
    active_y, active_t                  (m,)                   by t
    active                              (entities,)            how many events each entity has
    """

    start: Ints
    y: Codes
    r: Codes
    t: Ints
    role_start: Ints
    role_y: Codes
    role_t: Ints
    ever_start: Ints
    ever_y: Codes
    ever: Features
    active_y: Codes
    active_t: Ints
    active: Features


class Rules(NamedTuple):
    """How often each rule had a case and a hit, and log(1 − confidence): (2K, buckets, 2K), by r, Δ and r′.

    `number`, (2R,), says which of the 2K a directed relation is; −1: a rare one, of which there are no rules.
    """

    number: Codes
    hits: Floats
    cases: Floats
    miss: Features


@register("events")
class Events(Pattern):
    """What the events of a pair, and those around the time, say of a candidate; see the module."""

    candidate_features = (
        *(f"{of} {scale}" for of in ("same", "any") for scale in ("1.5", "7", "40", "ever")),
        *("share", "rule sum", "rule best", "before", "after", "same before", "same after"),
        *(f"{of} {scale}" for of in ("role", "active") for scale in ("1.5", "7", "40", "ever")),
        *("stranger role 7", "stranger role ever", "stranger active 40", "stranger active ever"),
    )

    candidate_groups = (
        *("pair kernels",) * 8,
        *("share", "rules", "rules"),
        *("nearest",) * 4,
        *("popularity",) * 12,
    )

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        rows, self._place = event_rows(evidence)
        self._log = log_of(evidence, rows)
        self._rules = _rules(evidence, rows, self._log)

    def candidates(self, queries: LinkQueries) -> Features:
        """What speaks for each entity as an answer: (n, features, entities), float32."""
        found = np.zeros((len(queries), len(self.candidate_features), self.evidence.entities), np.float32)
        skip = self._places(queries)
        dated = queries.date != spans.OPEN_END
        asked = (queries.x, queries.r, queries.date, dated, skip)
        _answer(*asked, self.evidence.last - self.evidence.first + 1, _KERNELS, self._log, self._rules, found)
        for x, rows in zip(queries.x, found, strict=True):
            popularity = rows[ROLE:STRANGER]
            popularity += 1
            np.log(popularity, out=popularity)
            rows[:, x] = 0
            stranger = rows[ANY + 3] == 0
            for place, feature in enumerate(FOR_STRANGERS, STRANGER):
                np.copyto(rows[place], rows[feature], where=stranger)
        return found

    def _places(self, queries: LinkQueries) -> Ints:
        """Where the own fact of each question stands in the log, seen from x; −1: nowhere."""
        row = np.where(queries.r < self.evidence.relations, queries.own, queries.own + len(self.evidence))
        return self._place[np.where(queries.own >= 0, row, -1)]


_KERNELS: Features = np.exp(-np.arange(104 * SCALES[-1] + 1) / np.array(SCALES)[:, None]).astype(np.float32)
"""k_τ(|Δ|) of each τ, (scales, distances): so far that the last is 0 in single precision, as all beyond are."""


SAME, ANY, SHARE, RULES, NEAREST, ROLE, ACTIVE, STRANGER = 0, 4, 8, 9, 11, 15, 19, 23
"""Where the features start."""
FOR_STRANGERS = (ROLE + 1, ROLE + 3, ACTIVE + 2, ACTIVE + 3)


def event_rows(evidence: Evidence) -> tuple[Ints, Ints]:
    """The rows of the evidence that count, by (x, y, t, r); and the place of each row among them, (2n + 1,).

    A fact that is stated twice has no place, −1: without one of the two, all stays as it is. The last is for no fact.
    """
    date = np.where(evidence.begin != spans.OPEN_BEGIN, evidence.begin, evidence.end)
    keys = np.stack([evidence.r, date, evidence.y, evidence.x])
    counted = np.flatnonzero((evidence.x != evidence.y) & (date != spans.OPEN_END))
    order = counted[np.lexsort(keys[:, counted])]
    new = np.ones(len(order), np.bool_)
    new[1:] = (keys[:, order[1:]] != keys[:, order[:-1]]).any(0)
    rows = order[new]
    twice = np.diff(np.append(np.flatnonzero(new), len(order))) > 1
    place = np.full(2 * len(evidence) + 1, -1, np.int64)
    place[rows] = np.where(twice, -1, np.arange(len(rows)))
    return rows, place


def log_of(evidence: Evidence, rows: Ints) -> Log:
    """Those rows of the evidence, from `event_rows`, as a log."""
    x, y, r = (column[rows].astype(np.int32) for column in (evidence.x, evidence.y, evidence.r))
    t = np.where(evidence.begin != spans.OPEN_BEGIN, evidence.begin, evidence.end)[rows]
    role, time = np.lexsort([y, t, r]), np.lexsort([y, t])
    pairs, ever = np.unique(r.astype(np.int64) * evidence.entities + y, return_counts=True)
    return Log(
        _starts(x, evidence.entities),
        *(y, r, t),
        *(_starts(r, 2 * evidence.relations), y[role], t[role]),
        _starts(pairs // max(evidence.entities, 1), 2 * evidence.relations),
        (pairs % max(evidence.entities, 1)).astype(np.int32),
        ever.astype(np.float32),
        *(y[time], t[time]),
        np.bincount(y, minlength=evidence.entities).astype(np.float32),
    )


def _starts(groups: Ints | Codes, number: int) -> Ints:
    """Where each of so many groups starts in a column that is sorted by it, and where the last stops."""
    return np.append(0, np.cumsum(np.bincount(groups, minlength=number))).astype(np.int64)


def _rules(evidence: Evidence, rows: Ints, log: Log) -> Rules:
    number = _numbers(log.r, evidence.relations)
    # Counts beyond 2²⁴ need double precision.
    hits = np.zeros((number.max(initial=-1) + 1, BUCKETS, number.max(initial=-1) + 1))
    cases = np.zeros_like(hits)
    frequent = np.flatnonzero(number[log.r] >= 0)
    x, y, r, t = evidence.x[rows][frequent], log.y[frequent], number[log.r[frequent]], log.t[frequent]
    start, by_time = _starts(x, evidence.entities), np.lexsort((r, t, x))
    _count_hits(start, y, r, t, _EDGES, hits)
    _count_cases(start, r[by_time], t[by_time], _EDGES, cases)
    each = np.arange(len(cases))
    for counts in (hits, cases):  # an event with itself
        counts[each, len(GAPS), each] = 0
    return Rules(number, hits, cases, np.log1p(-hits / (cases + PRIOR)).astype(np.float32))


def _numbers(r: Codes, relations: int) -> Codes:
    """0 … 2K − 1 for the K most frequent relations and, in the same order, their inverses; −1 for the rest: (2R,)."""
    frequent = np.argsort(-np.bincount(r, minlength=2 * relations)[:relations], kind="stable")[:MOST_RELATIONS]
    number = np.full(2 * relations, -1, np.int32)
    number[frequent] = np.arange(len(frequent))
    number[frequent + relations] = np.arange(len(frequent)) + len(frequent)
    return number


_EDGES = np.array([*(-gap for gap in reversed(GAPS)), *(gap + 1 for gap in GAPS)], np.int64)
"""Where each bucket but the first starts: −120, −60, …, −1, 0, 1, 2, 3, 4, 8, … 121."""


@njit(cache=True)
def _bucket(gap: int) -> int:
    """The bucket of Δ: 0 … 18, 9 for Δ = 0."""
    distance = abs(gap)
    number = 0
    while number < len(GAPS) and distance > GAPS[number]:
        number += 1
    return len(GAPS) - number if gap < 0 else len(GAPS) + number


@njit(cache=True)
def _count_hits(start: Ints, y: Codes, r: Codes, t: Ints, edges: Ints, hits: Floats) -> None:
    """Count all ordered pairs of two events of the same pair of entities; rows by (x, y, t)."""
    inside = np.zeros(hits.shape[1:])
    for x in range(len(start) - 1):
        first = start[x]
        while first < start[x + 1]:
            stop = first
            while stop < start[x + 1] and y[stop] == y[first]:
                stop += 1
            if stop - first > inside.size:
                _slide(first, stop, r, t, edges, inside, hits)
            else:
                for i in range(first, stop):
                    for j in range(first, stop):
                        hits[r[i], _bucket(t[j] - t[i]), r[j]] += 1
            first = stop


@njit(cache=True)
def _count_cases(start: Ints, r: Codes, t: Ints, edges: Ints, cases: Floats) -> None:
    """Count, for every question (x, r, t), the events of x by relation and bucket; rows by (x, t, r)."""
    inside = np.zeros(cases.shape[1:])
    for x in range(len(start) - 1):
        _slide(start[x], start[x + 1], r, t, edges, inside, cases)


@njit(cache=True)
def _slide(first: int, stop: int, r: Codes, t: Ints, edges: Ints, inside: Floats, counts: Floats) -> None:
    """Add, for each distinct (r, t) of some rows in the order of time, all of the rows by relation and bucket.

    As questions come in the order of time, each bucket is a window that slides over the rows; `inside` is for them.
    """
    windows = len(edges) + 1
    inside[:] = 0
    reached = np.full(windows, first)
    for i in range(first, stop):
        if i > first and r[i] == r[i - 1] and t[i] == t[i - 1]:
            continue
        for b in range(windows):
            # An event enters bucket b and leaves bucket b + 1 where it passes the edge between them.
            while reached[b] < stop and (b == windows - 1 or t[reached[b]] - t[i] < edges[b]):
                inside[b, r[reached[b]]] += 1
                if b < windows - 1:
                    inside[b + 1, r[reached[b]]] -= 1
                reached[b] += 1
        counts[r[i]] += inside


@njit(cache=True)
def _answer(
    x: Ints,
    r: Ints,
    t: Ints,
    dated: Bools,
    skip: Ints,
    axis: int,
    kernels: Features,
    log: Log,
    rules: Rules,
    found: Features,
) -> None:
    """Fill (n, features, entities), which is 0 before; popularity as a plain sum, without its logarithm."""
    silent = np.zeros(rules.miss.shape[1:], np.float32)
    for q in range(len(x)):
        miss = silent
        if rules.number[r[q]] >= 0:
            miss = rules.miss[rules.number[r[q]]]
            if skip[q] >= 0:
                miss = _without(x[q], r[q], skip[q], log, rules)
        _pairs(x[q], r[q], t[q], dated[q], skip[q], axis, kernels, log, rules.number, miss, found[q])
        _popularity(r[q], t[q], dated[q], skip[q], kernels, log, found[q])


@njit(cache=True)
def _pairs(
    x: int,
    r: int,
    t: int,
    dated: bool,
    skip: int,
    axis: int,
    kernels: Features,
    log: Log,
    number: Codes,
    miss: Features,
    found: Features,
) -> None:
    """Fill what the events of x with each candidate say: same, any, share, rules, nearest."""
    first, stop = log.start[x], log.start[x + 1]
    asked = 0
    for i in range(first, stop):
        asked += log.r[i] == r and i != skip
    i = first
    sums = np.zeros(8)
    nearest = np.zeros(4, np.int64)
    while i < stop:
        c = log.y[i]
        sums[:] = 0
        nearest[:] = axis
        total, best = 0.0, 0.0
        while i < stop and log.y[i] == c:
            if i == skip:
                i += 1
                continue
            same = log.r[i] == r
            sums[ANY + 3] += 1
            sums[SAME + 3] += same
            if dated:
                gap = log.t[i] - t
                distance = abs(gap)
                for k in range(3):
                    weight = kernels[k, min(distance, kernels.shape[1] - 1)]
                    sums[ANY + k] += weight
                    if same:
                        sums[SAME + k] += weight
                if gap <= 0:
                    nearest[0] = min(nearest[0], distance)
                    if same:
                        nearest[2] = min(nearest[2], distance)
                if gap >= 0:
                    nearest[1] = min(nearest[1], distance)
                    if same:
                        nearest[3] = min(nearest[3], distance)
                if number[log.r[i]] >= 0:
                    log_miss = miss[_bucket(gap), number[log.r[i]]]
                    total += log_miss
                    best = min(best, log_miss)
            i += 1
        if sums[ANY + 3] == 0:
            continue
        for k in range(8):
            found[SAME + k, c] = np.log1p(sums[k])
        if asked > 0:
            found[SHARE, c] = np.log1p(SHARPNESS * sums[SAME + 3] / asked)
        found[RULES, c] = np.log1p(-SHARPNESS * np.expm1(total))
        found[RULES + 1, c] = np.log1p(-SHARPNESS * np.expm1(best))
        for k in range(4):
            found[NEAREST + k, c] = max(0.0, np.log((1 + axis) / (1 + nearest[k])))


@njit(cache=True)
def _popularity(r: int, t: int, dated: bool, skip: int, kernels: Features, log: Log, found: Features) -> None:
    """Add up how often each candidate has the role of the answer, and how active it is, around t and ever."""
    role, active = found[ROLE : ROLE + 4], found[ACTIVE : ACTIVE + 4]
    for i in range(log.ever_start[r], log.ever_start[r + 1]):
        role[3, log.ever_y[i]] = log.ever[i]
    active[3] = log.active
    if dated:
        _add_kernels(log.role_y, log.role_t, log.role_start[r], log.role_start[r + 1], t, kernels, role)
        _add_kernels(log.active_y, log.active_t, 0, len(log.active_t), t, kernels, active)
    if skip >= 0:
        distance = abs(log.t[skip] - t)
        for k in range(4):
            weight = np.float32(1)
            if k < 3:
                weight = kernels[k, distance] if dated and distance <= REACH * SCALES[k] else np.float32(0)
            for sums in (role, active):
                sums[k, log.y[skip]] = max(sums[k, log.y[skip]] - weight, np.float32(0))


@njit(cache=True)
def _add_kernels(y: Codes, t: Ints, first: int, stop: int, now: int, kernels: Features, sums: Features) -> None:
    """Add to each entity the kernels of its events; rows first … stop − 1, sorted by time."""
    for k in range(3):
        reach = int(REACH * SCALES[k])
        for i in range(first + np.searchsorted(t[first:stop], now - reach), stop):
            if t[i] > now + reach:
                break
            sums[k, y[i]] += kernels[k, abs(t[i] - now)]


@njit(cache=True)
def _without(x: int, r: int, skip: int, log: Log, rules: Rules) -> Features:
    """log(1 − confidence) of the rules for r as they would be without the fact at a place: (buckets, 2K)."""
    number, half = rules.number, len(rules.number) // 2
    hits, cases = rules.hits[number[r]].copy(), rules.cases[number[r]].copy()
    y, own = log.y[skip], log.t[skip]
    alone = True
    for i in range(log.start[x], log.start[x + 1]):
        alone &= i == skip or log.r[i] != r or log.t[i] != own
    # The fact as a question, or as one answer of it.
    for i in range(log.start[x], log.start[x + 1]):
        if i != skip and number[log.r[i]] >= 0 and (log.r[i] != r or log.t[i] != own):
            bucket = _bucket(log.t[i] - own)
            cases[bucket, number[log.r[i]]] -= alone
            hits[bucket, number[log.r[i]]] -= log.y[i] == y
    # As evidence for other questions of x, and, from its other side, for questions of y.
    inverse = r - half if r >= half else r + half
    _forget(x, y, r, r, own, log, number, hits, cases)
    _forget(y, x, r, inverse, own, log, number, hits, cases)
    miss: Features = np.log1p(-hits / (cases + PRIOR)).astype(np.float32)
    return miss


@njit(cache=True)
def _forget(x: int, y: int, r: int, other: int, own: int, log: Log, number: Codes, hits: Floats, cases: Floats) -> None:
    """Take away the cases and hits that (x, other, y) at `own` gives to questions (x, r, t)."""
    times = np.empty(log.start[x + 1] - log.start[x], np.int64)
    found = 0
    for i in range(log.start[x], log.start[x + 1]):
        if log.r[i] == r and (other != r or log.t[i] != own):
            times[found] = log.t[i]
            found += 1
            if log.y[i] == y:
                hits[_bucket(own - log.t[i]), number[other]] -= 1
    for t in np.unique(times[:found]):
        cases[_bucket(own - t), number[other]] -= 1
