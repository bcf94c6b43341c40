"""Rules with gaps of time: who is born in a town lives there then; team mates go to the same clubs in the same years.

A rule of relation r leads from x to an answer c over one, two or three facts,

    1   x –r₁– c
    2   x –r₁– z –r₂– c
    3   x –r₁– z –r₂– w –r– c         (the last step is the relation that is asked for)

through entities that all differ, and its *cell* is r, the relations of the path, and for each step the bucket of the
gap between the date of the question and that of the step's fact. r₁ = r is no rule of length 1 (see `recurrence`). The
confidence of a cell is

    hits / (cases + 5)

over all paths that start at the entity of a known fact (x, r, g, t), without that fact itself: a hit leads to g; a case
is a hit or leads to an entity that is not known as an answer of (x, r, ?) at any time. Entities with more than 200
facts are not walked through.

What takes too long is thinned out evenly: facts as questions, if all together have more than `MOST_WORK` paths, and the
first steps of longer paths from an entity with more than `MOST_PATHS`. Cells beyond `MOST_CELLS` have no confidence.

For an entity c the features are log(1 + Σ confidence / ε) and log(1 + max confidence / ε) over the paths that lead to
it, a pair for each length. The fact that a question was made of is no step of a path, nor a case of a cell.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.patterns import hashing
from timeplex.patterns.base import Evidence, LinkQueries, Pattern, register
from timeplex.patterns.graph import BUCKETS, Graph, bucket, edges_of
from timeplex.typing import Bools, Features, Floats, Ints

SHRINKAGE = 5.0
HUB = 200
"""Entities with more facts than this are not walked through."""
FLOOR = 1e-3
"""ε: what a confidence is measured against."""
LENGTHS = 3
MOST_WORK, MOST_PATHS, MOST_CELLS = 10**9, 2**21, 2**22


@register("rules")
class Rules(Pattern):
    """Confidences of all cells that occur in the evidence; see the module."""

    candidate_features = tuple(
        f"{kind} of rules of length {n}" for n in range(1, LENGTHS + 1) for kind in ("sum", "best")
    )
    counts_own = True

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self.relations = 2 * evidence.relations
        paths = paths_from(evidence.x, evidence.y, evidence.entities)
        self.stride = np.maximum(np.ceil(paths / MOST_PATHS), 1).astype(np.int64)
        every = max(int(np.ceil(paths[evidence.x].sum() / MOST_WORK)), 1)
        self.asked = np.zeros(2 * len(evidence), np.bool_)
        self.asked[evidence.by_date[::every]] = True
        columns = evidence.x, evidence.r, evidence.date, evidence.y
        self.cells = _count(evidence.graph, self.relations, self.stride, evidence.by_date[::every], *columns)

    def candidates(self, queries: LinkQueries) -> Features:
        """log(1 + Σ/ε) and log(1 + max/ε) of the confidences of paths to each entity: (n, 6, entities)."""
        evidence = self.evidence
        row = np.where(queries.r < evidence.relations, queries.own, queries.own + len(evidence))
        was_asked = np.append(self.asked, False)[np.where(queries.own >= 0, row, -1)]
        columns = queries.x, queries.r, queries.date, queries.own, evidence.answers(queries)
        found: Features = _scores(evidence.graph, self.relations, self.stride, *self.cells, *columns, was_asked)
        return found

    def paths(self, query: LinkQueries, answer: int, most: int) -> list[tuple[list[int], int, int]]:
        """The paths of one question to an answer, the most convincing first: their facts, hits and cases.

        Of paths with the same facts the best is taken; those without a hit lead nowhere.
        """
        x, r, date, own = (int(each[0]) for each in (query.x, query.r, query.date, query.own))
        ways = _ways(self.evidence.graph, self.relations, x, r, date, own, answer)
        keys, counts = self.cells
        told: dict[tuple[int, ...], tuple[float, int, int]] = {}
        for cell, *facts in ways.tolist():
            case, hit = (int(count) for count in counts[hashing.slot_of(keys, cell)])
            rows = tuple(row for row in facts if row >= 0)
            if hit and hit / (case + SHRINKAGE) > told.get(rows, (0.0, 0, 0))[0]:
                told[rows] = hit / (case + SHRINKAGE), hit, case
        best = sorted(told.items(), key=lambda each: (-each[1][0], len(each[0]), each[0]))
        return [(list(rows), hit, case) for rows, (_, hit, case) in best[:most]]


@njit(cache=True)
def _ways(links: Graph, relations: int, x: int, r: int, date: int, own: int, answer: int) -> NDArray[np.int64]:
    """The paths of `_paths` that lead to one answer: rows (cell, facts of its steps, −1: none)."""
    found, count = np.empty((1 << 8, 4), np.int64), 0
    for i in range(links.start[x], links.start[x + 1]):
        z = links.y[i]
        if links.fact[i] == own or z == x:
            continue
        first = (r * relations + links.r[i]) * BUCKETS + bucket(links.bounds, date, links.date[i])
        if z == answer:
            if links.r[i] != r:
                found, count = _add_way(found, count, 4 * first + 1, links.fact[i], -1, -1)
            continue
        if links.start[z + 1] - links.start[z] > HUB:
            continue
        for j in range(links.start[z], links.start[z + 1]):
            w = links.y[j]
            if links.fact[j] == own or w == x or w == z:  # noqa: SIM109
                continue
            second = (first * relations + links.r[j]) * BUCKETS + bucket(links.bounds, date, links.date[j])
            if w == answer:
                found, count = _add_way(found, count, 4 * second + 2, links.fact[i], links.fact[j], -1)
                continue
            if links.start[w + 1] - links.start[w] > HUB:
                continue
            low, high = edges_of(links, w, r)
            for k in range(low, high):
                if links.y[k] == answer and links.fact[k] != own:
                    third = second * BUCKETS + bucket(links.bounds, date, links.date[k])
                    found, count = _add_way(found, count, 4 * third + 3, links.fact[i], links.fact[j], links.fact[k])
    return found[:count]


@njit(cache=True)
def _add_way(
    found: NDArray[np.int64], count: int, cell: int, first: int, second: int, third: int
) -> tuple[NDArray[np.int64], int]:
    if count == len(found):
        found = np.concatenate((found, np.empty_like(found)))
    found[count, 0], found[count, 1], found[count, 2], found[count, 3] = cell, first, second, third
    return found, count + 1


def paths_from(x: Ints, y: Ints, entities: int) -> Floats:
    """At most so many paths of one to three facts start at each entity, by edges x – y, each in both directions."""
    degree = np.bincount(x, minlength=entities).astype(np.float64)
    one = 1 + np.where(degree > HUB, 0, degree)
    two = 1 + np.where(degree > HUB, 0, np.bincount(x, one[y], entities))
    three = np.bincount(x, two[y], entities)
    return three.astype(np.float64)


@njit(cache=True)
def _paths(
    links: Graph, relations: int, stride: int, x: int, r: int, date: int, own: int, found: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """All paths from x: rows (cell, entity it leads to) in `found`, which grows as needed, and how many there are.

    Of the first steps, every one of so many leads on.
    """
    count = 0
    for i in range(links.start[x], links.start[x + 1]):
        z = links.y[i]
        if links.fact[i] == own or z == x:
            continue
        first = (r * relations + links.r[i]) * BUCKETS + bucket(links.bounds, date, links.date[i])
        if links.r[i] != r:
            found, count = _add(found, count, 4 * first + 1, z)
        if (i - links.start[x]) % stride or links.start[z + 1] - links.start[z] > HUB:
            continue
        for j in range(links.start[z], links.start[z + 1]):
            w = links.y[j]
            if links.fact[j] == own or w == x or w == z:  # noqa: SIM109 compiled code has no mixed tuples
                continue
            second = (first * relations + links.r[j]) * BUCKETS + bucket(links.bounds, date, links.date[j])
            found, count = _add(found, count, 4 * second + 2, w)
            if links.start[w + 1] - links.start[w] > HUB:
                continue
            low, high = edges_of(links, w, r)
            for k in range(low, high):
                c = links.y[k]
                if links.fact[k] == own or c == x or c == z or c == w:  # noqa: SIM109
                    continue
                third = second * BUCKETS + bucket(links.bounds, date, links.date[k])
                found, count = _add(found, count, 4 * third + 3, c)
    return found, count


@njit(cache=True)
def _add(found: NDArray[np.int64], count: int, cell: int, entity: int) -> tuple[NDArray[np.int64], int]:
    if count == len(found):
        found = np.concatenate((found, np.empty_like(found)))
    found[count, 0] = cell
    found[count, 1] = entity
    return found, count + 1


@njit(cache=True)
def _know(links: Graph, x: int, r: int, known: Ints, stamp: int) -> None:
    """Mark the known answers of (x, r, ?) by a stamp."""
    low, high = edges_of(links, x, r)
    for i in range(low, high):
        known[links.y[i]] = stamp


@njit(cache=True)
def _count(
    links: Graph, relations: int, stride: Ints, cases: Ints, x: Ints, r: Ints, date: Ints, gold: Ints
) -> hashing.Table:
    """(cases, hits) of every cell, over some of the 2n directed rows as questions."""
    (keys, counts), used = hashing.empty(2), 0
    known = np.full(len(links.start) - 1, -1)
    found, facts = np.empty((1 << 12, 2), np.int64), len(x) // 2
    for case in cases:
        _know(links, x[case], r[case], known, case)
        found, count = _paths(links, relations, stride[x[case]], x[case], r[case], date[case], case % facts, found)
        for path in range(count):
            cell, c = found[path, 0], found[path, 1]
            if c != gold[case] and known[c] == case:
                continue
            slot = hashing.slot_of(keys, cell)
            if keys[slot] == -1:
                if used == MOST_CELLS:
                    continue
                keys, counts = hashing.with_room(keys, counts, used)
                slot = hashing.slot_of(keys, cell)
                keys[slot] = cell
                used += 1
            counts[slot, 0] += 1
            counts[slot, 1] += c == gold[case]
    return keys, counts


@njit(cache=True)
def _scores(
    links: Graph,
    relations: int,
    stride: Ints,
    keys: Ints,
    counts: Ints,
    x: Ints,
    r: Ints,
    date: Ints,
    own: Ints,
    gold: Ints,
    was_asked: Bools,
) -> Features:
    """The features of all entities for each question."""
    entities = len(links.start) - 1
    out = np.zeros((len(x), 2 * LENGTHS, entities), np.float32)
    known, totals = np.full(entities, -1), np.zeros((LENGTHS, entities))
    found = np.empty((1 << 12, 2), np.int64)
    for q in range(len(x)):
        found, count = _paths(links, relations, stride[x[q]], x[q], r[q], date[q], own[q], found)
        mine, of_mine = hashing.empty(2)
        if was_asked[q]:
            mine, of_mine = _own_cases(links, found[:count], x[q], r[q], gold[q], known, q)
        for path in range(count):
            slot, own_slot = hashing.slot_of(keys, found[path, 0]), hashing.slot_of(mine, found[path, 0])
            case, hit = counts[slot, 0], counts[slot, 1]
            if keys[slot] != -1:
                case, hit = case - of_mine[own_slot, 0], hit - of_mine[own_slot, 1]
            c, kind = found[path, 1], (found[path, 0] & 3) - 1
            confidence = hit / (case + SHRINKAGE)
            totals[kind, c] += confidence
            out[q, 2 * kind + 1, c] = max(out[q, 2 * kind + 1, c], confidence)
        for path in range(count):
            kind, c = (found[path, 0] & 3) - 1, found[path, 1]
            if totals[kind, c] > 0:
                out[q, 2 * kind, c] = np.log1p(totals[kind, c] / FLOOR)
                out[q, 2 * kind + 1, c] = np.log1p(out[q, 2 * kind + 1, c] / FLOOR)
                totals[kind, c] = 0
    return out


@njit(cache=True)
def _own_cases(
    links: Graph, found: NDArray[np.int64], x: int, r: int, gold: int, known: Ints, stamp: int
) -> hashing.Table:
    """What the own fact of a question added to the (cases, hits) of the cells of its paths."""
    _know(links, x, r, known, stamp)
    (keys, counts), used = hashing.empty(2), 0
    for path in range(len(found)):
        cell, c = found[path, 0], found[path, 1]
        keys, counts = hashing.with_room(keys, counts, used)
        slot = hashing.slot_of(keys, cell)
        used += keys[slot] == -1
        keys[slot] = cell
        counts[slot, 0] += c == gold or known[c] != stamp
        counts[slot, 1] += c == gold
    return keys, counts
