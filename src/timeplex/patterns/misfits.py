"""How well the two entities of a fact fit together, beside wrong ones; no fact vouches for itself.

A fact (s, r, o, T) is looked at from both ends, as (s, r, ?) with the answer o and as (?, r, o) with the answer s. So
are *wrong facts* that are made of it, with another object that has the role elsewhere: one drawn evenly, one as often
as it has the role. Facts are parted in folds, and all that is seen of a fold is seen in the evidence without it:

    walks        how likely a walk over three or five facts leads from one end to the other: Pr = W(c), as in `walks`,
                 over facts of any relation, or of r alone (who shares clubs with x, and where do they play?), and
                 the same if the last fact is of about that time
    links        facts between both: of r at another time, of others, and how often such a fact says who is right
    dates        gaps to the other facts of the answer against chance, for begin and end (see `candidate_dates`)
    types        lift of the answer's other roles (see `types`), how many facts it has
    popularity   its facts in this role, about then, and those that hold then

Trees (`boosting`) that were grown on other facts tell wrong facts from stated ones: the log odds.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from timeplex.kb import spans
from timeplex.kb.facts import Facts, pair_key
from timeplex.patterns.base import Evidence
from timeplex.patterns.boosting import Boosted, boost
from timeplex.patterns.candidate_dates import MOST, REACH, CandidateDates
from timeplex.patterns.graph import BUCKETS, NO_DATE, Graph, bucket, edges_of
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.patterns.rules import HUB, SHRINKAGE
from timeplex.patterns.types import PRIOR
from timeplex.typing import Bools, Codes, Features, Floats, Ints, Progress

FOLDS, PARTS = 8, 3
"""Folds of the evidence; parts of the facts, of which each is judged by trees that were grown on the others."""
REACHED, LIKELIER, BATCHES = 60, 3, 4
"""So many other answers of a fact are looked at, and named; facts are set aside in so many batches."""
MOST_RELATIONS, MOST_CELLS, MOST_INSTANTS = 200, 4 * 10**9, 10**7
"""Relations, entities × facts, and relations × instants: more would take too long, or too much memory."""
COLUMNS = 64
"""Walks of so many entities are followed at once."""
MOST_EDGES = 500
"""Of an answer with more facts in the role so many are read, spread evenly."""
FLOOR = 1e-4
KERNELS = (1.5, 6.0, 25.0)
NEAR_YEARS, UNDATED = 4.0, float(np.exp(-3.0))

FEATURES = (
    *("walk", "walk near in time", "long walk"),
    *("collaborative", "collaborative near in time", "long collaborative"),
    *("links: sum", "links: best", "known", "other links"),
    *(f"{kind}, {side}" for side in ("begin", "end") for kind in ("dates", "best date", "worst date")),
    *("type", "worst type", "facts", "facts in the role"),
    *(f"popular within {years:g} years" for years in KERNELS),
    "holds then",
)
_LINKS, _DATES, _TYPES, _POPULAR = 6, 10, 16, 20


Step = tuple[Ints, Ints, Features]
"""Edges that a step can take: from where, to where, with which probability."""


@dataclass(frozen=True, eq=False)
class Sides:
    """Questions with an answer each, (n,): does c answer (x, r, ?) at [begin, end]?"""

    x: Ints
    r: Ints
    c: Ints
    begin: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.x)


class Seen:
    """What is counted over some facts, and what they show of answers: `rows`."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.links = evidence, evidence.graph
        self.roles, links = max(2 * evidence.relations, 1), evidence.graph
        x = np.repeat(np.arange(evidence.entities), np.diff(links.start))
        self.from_, r = x, links.r.astype(np.int64)
        self.inverse = (r + evidence.relations) % self.roles
        self.hub = np.diff(links.start) > HUB
        keys, where, count = np.unique(pair_key(x, r), return_inverse=True, return_counts=True)
        self.fan = count[where]  # how many facts of r the entity has
        back = np.minimum(np.searchsorted(keys, pair_key(links.y, self.inverse)), max(len(keys) - 1, 0))
        self.fan_back = count[back] if len(keys) else count  # … the other entity has, the other way round
        self.by_relation = np.argsort(r, kind="stable")
        self.first_of = np.searchsorted(r[self.by_relation], np.arange(self.roles + 1))
        self.hits, self.cases = _links(links, self.roles, HUB)
        dates = CandidateDates(evidence)
        self.ratio, self.pair = dates.ratios, np.full((self.roles, self.roles), -1)
        self.pair[dates.role, dates.other] = np.arange(len(dates.role))
        facts = np.bincount(evidence.x * self.roles + evidence.r, minlength=evidence.entities * self.roles)
        self.facts = facts.reshape(evidence.entities, self.roles)
        self.lift = _lifts(self.facts > 0)

    def rows(self, asked: Sides) -> Features:
        """What is seen of each answer: (n, features)."""
        out = np.zeros((len(asked), len(FEATURES)), np.float32)
        date = np.where(asked.begin != spans.OPEN_BEGIN, asked.begin, asked.end)
        year = INSTANTS_A_YEAR[self.evidence.granularity]
        role = (asked.r + self.evidence.relations) % self.roles
        self._walk(asked, date, NEAR_YEARS * year, out)
        _linked(self.links, self.hits, self.cases, asked.x, asked.r, asked.c, date, out)
        begins, ends = self.ratio
        _dates(self.links, self.pair, begins, ends, role, asked.c, asked.begin, asked.end, out)
        _typed(self.facts, self.lift, role, asked.c, out)
        _popular(self.links, np.array(KERNELS) * year, role, asked.c, date, out)
        return out

    def both(self, facts: Facts, o: Ints) -> Features:
        """Facts with the objects o instead of their own, from both ends, and their relation: (n, 2 features + 1)."""
        s, r, o = (np.asarray(column, np.int64) for column in (facts.s, facts.r, o))
        dates = (np.asarray(facts.begin, np.int64), np.asarray(facts.end, np.int64))
        there, back = self.rows(Sides(s, r, o, *dates)), self.rows(Sides(o, r + self.evidence.relations, s, *dates))
        return np.concatenate([there, back, r[:, None].astype(np.float32)], axis=1)

    def reached(self, x: Ints, r: Ints) -> list[Ints]:
        """Who can be answers of (x, r, ?): those that walks of three facts lead to most, and who has a fact with x."""
        links, found = self.links, []
        size = np.maximum(np.diff(links.start), 1)
        step = (self.from_, links.y.astype(np.int64), (1 / size[self.from_]).astype(np.float32))
        for start in range(0, len(x), COLUMNS):
            sources = x[start : start + COLUMNS]
            mass = np.zeros((self.evidence.entities, COLUMNS), np.float32)
            mass[sources, np.arange(len(sources))] = 1
            two = _stepped(*step, _stepped(*step, mass, sources, self.hub, True), sources, self.hub, False)
            for column, (source, relation) in enumerate(zip(sources, r[start : start + COLUMNS], strict=True)):
                of, to, share = self._step(int(relation))
                weight = np.where(self.hub[of], 0, two[of, column]) * share
                arrived = np.bincount(to, weight, self.evidence.entities)
                best = np.argsort(-arrived, kind="stable")[:REACHED]
                direct = links.y[links.start[source] : links.start[source + 1]].astype(np.int64)
                role = (relation + self.evidence.relations) % self.roles
                direct = direct[self.facts[direct, role] > 0][:REACHED]
                both = np.union1d(best[arrived[best] > 0], direct)
                found.append(both[both != source])
        return found

    def _walk(self, asked: Sides, date: Ints, scale: float, out: Features) -> None:
        """The features of walks: from many x at once, over facts of any relation and over those of r alone."""
        links, size = self.links, np.maximum(np.diff(self.links.start), 1)
        some = np.arange(len(self.links.r))
        step = (self.from_, links.y.astype(np.int64), (1 / size[self.from_]).astype(np.float32))
        self._follow(asked, date, scale, some[:0], step, step, 0, out)
        for r in np.unique(asked.r).tolist():
            there, back = self._step(r), self._step((r + self.evidence.relations) % self.roles)
            self._follow(asked, date, scale, np.flatnonzero(asked.r == r), there, back, 3, out)

    def _step(self, r: int) -> Step:
        """The edges of a relation, and the probability of each among those of its entity."""
        at = self.by_relation[self.first_of[r] : self.first_of[r + 1]]
        return self.from_[at], self.links.y[at].astype(np.int64), (1 / self.fan[at]).astype(np.float32)

    def _follow(
        self, asked: Sides, date: Ints, scale: float, rows: Ints, there: Step, back: Step, place: int, out: Features
    ) -> None:
        """Two and four steps from every x, then the last one to the answers."""
        rows = np.arange(len(asked)) if place == 0 else rows
        order = rows[np.argsort(asked.x[rows], kind="stable")]
        who, first = np.unique(asked.x[order], return_index=True)
        first = np.append(first, len(order))
        for start in range(0, len(who), COLUMNS):
            sources = who[start : start + COLUMNS]
            at = order[first[start] : first[min(start + COLUMNS, len(who))]]
            column = np.searchsorted(sources, asked.x[at])
            mass = np.zeros((self.evidence.entities, COLUMNS), np.float32)
            mass[sources, np.arange(len(sources))] = 1
            two = _stepped(*back, _stepped(*there, mass, sources, self.hub, True), sources, self.hub, False)
            four = _stepped(*back, _stepped(*there, two, sources, self.hub, False), sources, self.hub, False)
            role = (asked.r[at] + self.evidence.relations) % self.roles
            _arrived(self.links, self.fan_back, two, four, column, role, asked.c[at], date[at], scale, at, place, out)


def _lifts(has: Bools) -> Floats:
    """lift(q → ρ), as in `types`, by role ρ and other role q: (2R, 2R)."""
    each = has.sum(0).astype(np.float64)
    both = (has.T.astype(np.float32) @ has.astype(np.float32)).astype(np.float64)  # whole numbers
    share = ((each + 1) / (has.any(1).sum() + 2))[:, None]
    lifts: Floats = np.log((both + PRIOR * share) / (each + PRIOR) / share)
    return lifts


@njit(cache=True)
def _stepped(
    start: Ints, stop: Ints, share: Features, mass: Features, sources: Ints, hub: Bools, first: bool
) -> Features:
    """A step over edges of the mass (entities, columns); none comes back to its source, nor through a hub."""
    out = np.zeros_like(mass)
    for i in range(len(start)):
        if hub[start[i]] and not first:
            continue
        row, to, p = mass[start[i]], out[stop[i]], share[i]
        for column in range(mass.shape[1]):
            to[column] += p * row[column]
    for column in range(len(sources)):
        out[sources[column], column] = 0
    return out


@njit(cache=True)
def _arrived(
    links: Graph,
    fan_back: Ints,
    two: Features,
    four: Features,
    column: Ints,
    role: Ints,
    c: Ints,
    date: Ints,
    scale: float,
    at: Ints,
    place: int,
    out: Features,
) -> None:
    """The last step, from whoever has the answer c in this relation."""
    hub = HUB
    for q in range(len(at)):
        low, high = edges_of(links, c[q], role[q])
        stride = max(1.0, (high - low) / MOST_EDGES)
        plain, near, far = 0.0, 0.0, 0.0
        for step in range(min(high - low, MOST_EDGES)):
            i = low + int(step * stride)
            w = links.y[i]
            if links.start[w + 1] - links.start[w] > hub:
                continue
            mass = two[w, column[q]] / fan_back[i]
            plain += mass
            far += four[w, column[q]] / fan_back[i]
            if date[q] == NO_DATE:
                near += mass
            elif links.date[i] == NO_DATE:
                near += mass * UNDATED
            else:
                near += mass * np.exp(-abs(date[q] - links.date[i]) / scale)
        out[at[q], place] = np.log1p(plain * stride / FLOOR)
        out[at[q], place + 1] = np.log1p(near * stride / FLOOR)
        out[at[q], place + 2] = np.log1p(far * stride / FLOOR)


@njit(cache=True)
def _links(links: Graph, roles: int, hub: int) -> tuple[Codes, Codes]:
    """How often x's fact of another relation, so long before, names who is right: hits and cases (2R, 2R, buckets)."""
    hits, cases = np.zeros((roles, roles, BUCKETS), np.int32), np.zeros((roles, roles, BUCKETS), np.int32)
    for x in range(len(links.start) - 1):
        low, high = links.start[x], links.start[x + 1]
        if high - low > hub:
            continue
        for i in range(low, high):
            for j in range(low, high):
                if links.r[i] != links.r[j] and links.fact[i] != links.fact[j]:
                    place = bucket(links.bounds, links.date[i], links.date[j])
                    cases[links.r[i], links.r[j], place] += 1
                    hits[links.r[i], links.r[j], place] += links.y[i] == links.y[j]
    return hits, cases


@njit(cache=True)
def _linked(links: Graph, hits: Codes, cases: Codes, x: Ints, r: Ints, c: Ints, date: Ints, out: Features) -> None:
    roles = len(hits)
    for q in range(len(x)):
        # The end with fewer facts is searched.
        turned = links.start[x[q] + 1] - links.start[x[q]] > links.start[c[q] + 1] - links.start[c[q]]
        one, other = (c[q], x[q]) if turned else (x[q], c[q])
        for i in range(links.start[one], links.start[one + 1]):
            if links.y[i] != other:
                continue
            relation = (links.r[i] + roles // 2) % roles if turned else links.r[i]
            if relation == r[q]:
                out[q, _LINKS + 2] += 1
                continue
            place = bucket(links.bounds, date[q], links.date[i])
            confidence = hits[r[q], relation, place] / (cases[r[q], relation, place] + SHRINKAGE)
            out[q, _LINKS] += confidence
            out[q, _LINKS + 1] = max(out[q, _LINKS + 1], confidence)
            out[q, _LINKS + 3] += 1


@njit(cache=True)
def _dates(
    links: Graph,
    pair: Ints,
    begins: Features,
    ends: Features,
    role: Ints,
    c: Ints,
    begin: Ints,
    end: Ints,
    out: Features,
) -> None:
    for q in range(len(role)):
        stride = max(1.0, (links.start[c[q] + 1] - links.start[c[q]]) / MOST_EDGES)
        for asked in range(2):
            date = end[q] if asked else begin[q]
            if date == spans.OPEN_BEGIN or date == spans.OPEN_END:
                continue
            n, total, best, worst = 0, 0.0, -np.inf, np.inf
            for step in range(min(links.start[c[q] + 1] - links.start[c[q]], MOST_EDGES)):
                i = links.start[c[q]] + int(step * stride)
                table = pair[role[q], links.r[i]]
                if table < 0:
                    continue
                for side in range(2):
                    other = links.end[i] if side else links.begin[i]
                    if other == spans.OPEN_BEGIN or other == spans.OPEN_END:
                        continue
                    gap = min(max(date - other, -REACH), REACH) + REACH
                    value = ends[table, side, gap] if asked else begins[table, side, gap]
                    n += 1
                    total += value
                    best, worst = max(best, value), min(worst, value)
            if n:
                out[q, _DATES + 3 * asked] = total * min(n, MOST) / n
                out[q, _DATES + 3 * asked + 1] = best
                out[q, _DATES + 3 * asked + 2] = worst


@njit(cache=True)
def _typed(facts: Ints, lift: Floats, role: Ints, c: Ints, out: Features) -> None:
    for q in range(len(role)):
        n, total, worst, every = 0, 0.0, np.inf, 0
        for other in range(facts.shape[1]):
            every += facts[c[q], other]
            if facts[c[q], other] > 0 and other != role[q]:
                n += 1
                total += lift[role[q], other]
                worst = min(worst, lift[role[q], other])
        if n:
            out[q, _TYPES] = total / n
            out[q, _TYPES + 1] = worst
        out[q, _TYPES + 2] = every
        out[q, _TYPES + 3] = facts[c[q], role[q]]


@njit(cache=True)
def _popular(links: Graph, scales: Floats, role: Ints, c: Ints, date: Ints, out: Features) -> None:
    for q in range(len(role)):
        if date[q] == NO_DATE:
            continue
        low, high = edges_of(links, c[q], role[q])
        stride = max(1.0, (high - low) / MOST_EDGES)
        for step in range(min(high - low, MOST_EDGES)):
            i = low + int(step * stride)
            if links.date[i] != NO_DATE:
                for k in range(len(scales)):
                    out[q, _POPULAR + k] += stride * np.exp(-abs(date[q] - links.date[i]) / scales[k])
            out[q, _POPULAR + len(scales)] += stride * (links.begin[i] <= date[q] <= links.end[i])


@dataclass(frozen=True, eq=False)
class Fits:
    """Of the n facts, how much each looks like one with a wrong object: log odds against a stated one, (n,).

    drawn    the same of wrong facts that were made of them, (DRAWN, n)
    seen     what was seen of the stated ones from both ends, (n, 2 features)
    trees    what tells it
    """

    odds: Floats
    drawn: Floats
    seen: Features
    trees: Boosted


def too_dear(evidence: Evidence) -> bool:
    """Whether so many facts, entities, relations or instants would take too long, or too much memory."""
    return (
        evidence.relations > MOST_RELATIONS
        or len(evidence) * evidence.entities > MOST_CELLS
        or evidence.relations * (evidence.last - evidence.first + 1) > MOST_INSTANTS
    )


def judge(evidence: Evidence, on_progress: Progress | None = None, seed: int = 0) -> Fits:
    """How well the entities of every fact fit. The facts are in an order that depends on nothing but themselves."""
    rng = np.random.default_rng(seed)
    n, facts = len(evidence), evidence.facts
    fold, part = (rng.permutation(np.arange(n) % number) for number in (FOLDS, PARTS))
    objects = np.stack([np.asarray(facts.o, np.int64), *(_drawn(evidence, evenly, rng) for evenly in (True, False))])
    rows = np.empty((len(objects), n, 2 * len(FEATURES) + 1), np.float32)
    for each in range(FOLDS):
        seen, at = Seen(evidence.without(fold == each)), np.flatnonzero(fold == each)
        asked = np.tile(at, len(objects))
        rows[:, at] = seen.both(facts[asked], objects[:, at].ravel()).reshape(len(objects), len(at), -1)
        if on_progress:
            on_progress(each + 1, FOLDS + PARTS)
    scores = np.empty((len(objects), n))
    for each in range(PARTS):
        learn, judged = np.flatnonzero(part != each), np.flatnonzero(part == each)
        flat = rows[:, learn].reshape(-1, rows.shape[2])
        trees = boost(flat, np.arange(len(flat)) >= len(learn))
        for kind in range(len(objects)):
            scores[kind, judged] = trees(rows[kind, judged])
        if on_progress:
            on_progress(FOLDS + each + 1, FOLDS + PARTS)
    return Fits(scores[0], scores[1:], rows[0], trees)


def _drawn(evidence: Evidence, evenly: bool, rng: np.random.Generator) -> Ints:
    """Another object for each fact: one of those of its relation, or that of one of the facts of it; (n,)."""
    o, r = np.asarray(evidence.facts.o, np.int64), evidence.facts.r
    drawn = o.copy()
    for relation in np.unique(r):
        at = np.flatnonzero(r == relation)
        role = np.unique(o[at]) if evenly else np.sort(o[at])
        for _ in range(3):  # seldom the same again
            same = at[drawn[at] == o[at]]
            drawn[same] = role[rng.integers(0, len(role), len(same))]
    return drawn


@dataclass(frozen=True, eq=False)
class Likelier:
    """Of some facts: who else could be the object, best first (at most `LIKELIER`), and the share of the first one."""

    names: list[list[int]]
    share: Floats


def likelier(evidence: Evidence, rows: Ints, fits: Fits) -> Likelier:
    """Who else could be the object of the facts in these rows, by what leads there without the fact itself.

    Facts are set aside together; of one subject only one at a time, since its other facts may be right.
    """
    found = Likelier([[] for _ in rows], np.zeros(len(rows)))
    batch = np.minimum(_nth(evidence.facts.s[rows]), BATCHES - 1)
    for each in np.unique(batch):
        at = np.flatnonzero(batch == each)
        some = _likelier(evidence, rows[at], fits.trees)
        found.share[at] = some.share
        for place, names in zip(at.tolist(), some.names, strict=True):
            found.names[place] = names
    return found


def _nth(values: Codes) -> Ints:
    """How many of the values before each one are equal to it: (n,)."""
    order = np.argsort(values, kind="stable")
    _, start, count = np.unique(values[order], return_index=True, return_counts=True)
    nth = np.empty(len(values), np.int64)
    nth[order] = np.arange(len(values)) - np.repeat(start, count)
    return nth


def _likelier(evidence: Evidence, rows: Ints, trees: Boosted) -> Likelier:
    aside = np.zeros(len(evidence), np.bool_)
    aside[rows] = True
    seen, facts = Seen(evidence.without(aside)), evidence.facts[rows]
    reached = seen.reached(np.asarray(facts.s, np.int64), np.asarray(facts.r, np.int64))
    fact = np.repeat(np.arange(len(rows)), [len(each) for each in reached])
    who = np.concatenate([np.zeros(0, np.int64), *reached])
    odds = trees(seen.both(facts[np.append(fact, np.arange(len(rows)))], np.append(who, facts.o)))
    odds, own = odds[: len(who)], odds[len(who) :]
    order = np.lexsort((who, odds, fact))
    fact, who, odds = fact[order], who[order], odds[order]
    others = who != facts.o[fact]
    weight = np.where(others, np.exp(-odds), 0.0)
    total = np.bincount(fact, weight, len(rows)) + np.exp(-own)
    names, share = [], np.zeros(len(rows))
    for row, (start, stop) in enumerate(
        zip(*(np.searchsorted(fact, np.arange(len(rows)), s) for s in ("left", "right")), strict=True)
    ):
        better = start + np.flatnonzero((odds[start:stop] < own[row]) & others[start:stop])[:LIKELIER]
        names.append(who[better].tolist())
        share[row] = weight[better[0]] / total[row] if len(better) else 0.0
    return Likelier(names, share)
