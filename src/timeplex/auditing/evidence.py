"""Which dates are hard to believe: what the facts of an entity say about each other's dates, and whom to blame.

Every fact f has one date t_f: its begin, or its end where the begin is open. Two facts that share an entity make a
*pair*, whose *kind* is both relations, and whether the entity is subject or object of each (facts between the same two
entities are kinds of their own). The gap d = t_g − t_f of a pair is judged against all gaps of its kind,

    ℓ_fg = log((1 − π) p(d) + π q(d)) − log q(d)        > 0: they vouch for each other; < 0: one of them is wrong

where p is the density of the gaps of this kind (`density`), and q a wide Cauchy distribution around their median, which
is what wrong dates would give: its spread is that of all dates of the KB. A kind that is as wide as q says nothing, as
it should. In the same way ℓ_f says how usual the date t_f is in its relation (only if it is unusual).

Whom to blame is the question. Each fact is right with probability w_f, and a pair counts as far as the other fact is
right, with the mean over the pairs of one kind, since they are not independent:

    logit w_f = logit(1 − π) + e_f + min(1, 6 / K) Σ_kinds mean_g (w_g ℓ_fg)        over K kinds, in some rounds

Pairs that only have their object in common (two people born in one town) are a *crowd*, and say little more than that
the date is unusual: of the mean c_f over crowds and ℓ_f the lower counts, e_f = min(ℓ_f, c_f), or their sum if c_f > 0.

So a birth in 1823 among ten facts of the 1990s is contradicted by all of them and loses its say; each of the ten is
contradicted by one that nobody believes. But a footballer of 1890, whose facts vouch for each other, is just old.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timeplex.kb.assemble import plausible_range
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.typing import Bools, Codes, Floats, Ints

LEAST_NEIGHBOURS = 4
PLACES = 5
"""In how many places a value may stand among its neighbours: the densest window counts."""
NORMAL_95 = 1.645
"""The 95 % quantile of the normal distribution: (q₉₅ − q₅) / 2 is so many standard deviations."""
BLOCK = 1 << 20
"""Of many values so many are worked on at a time: what is only needed on the way takes no more memory than they do."""


@dataclass(frozen=True)
class Habits:
    """What is usual in each group 0 … k − 1: the number of values and their 5 %, 50 % and 95 % quantiles, (k,) each."""

    size: Ints
    low: Ints
    median: Ints
    high: Ints

    @property
    def spread(self) -> Floats:
        """A robust standard deviation: half the distance of the outer quantiles, over 1.645."""
        return (self.high - self.low) / (2 * NORMAL_95)


def blocks(size: int) -> Iterator[slice]:
    """0 … size − 1 in parts of at most `BLOCK`."""
    return (slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK))


def sort_by(group: Ints | Codes, value: Ints) -> Ints:
    """The order by group, then value; what is equal in both keeps its order, on any processor. Shapes (n,)."""
    low = int(value.min(initial=0))
    width = int(value.max(initial=0)) - low + 1
    if (int(group.max(initial=0)) + 1) * width < 1 << 62:  # one key is sorted several times as fast as two
        key = np.multiply(group, width, dtype=np.int64)
        key += value
        return np.argsort(key, kind="stable")
    return np.lexsort((value, group))


def numbered(*columns: ArrayLike) -> tuple[Ints, int]:
    """A number 0 … k − 1 for each row of the columns, the same for equal rows, in their order: (n,), and k.

    The first column may hold anything, the others numbers from 0 to 2³² − 1.
    """
    first, *others = (np.asarray(column, np.int64) for column in columns)
    distinct, number = np.unique(first, return_inverse=True)
    for column in others:
        distinct, number = np.unique((number << 32) | column, return_inverse=True)
    return number, len(distinct)


def habits(group: Ints | Codes, value: Ints, groups: int, order: Ints | None = None) -> Habits:
    """The habits of the groups 0 … groups − 1, given each value's group (and `sort_by` of both, if it is known).

    A group without values has zeros.
    """
    order = sort_by(group, value) if order is None else order
    size = count(group, groups)
    start = np.cumsum(size) - size
    some = size > 0

    def quantile(share: float) -> Ints:
        found = np.zeros(groups, np.int64)
        found[some] = value[order[(start + np.round(share * (size - 1)).astype(np.int64))[some]]]
        return found

    return Habits(size, quantile(0.05), quantile(0.5), quantile(0.95))


def count(group: Ints | Codes, groups: int) -> Ints:
    """How many values each of the groups 0 … groups − 1 has, given each value's group."""
    size = np.zeros(groups, np.int64)
    for part in blocks(len(group)):
        size += np.bincount(group[part], minlength=groups)
    return size


def density(group: Ints | Codes, value: Ints, order: Ints | None = None) -> Floats:
    """The share of the other values of the group near each value, an instant wide. Shapes (n,) in and out.

    A window of at least k + 1 values holds the value itself and reaches from a to b: density = (values in it − 1) / (n
    · (b − a + 1)), for the densest of `PLACES` windows. k is the cube root of the group's size n, and at least 4: so
    few values that lie far off cannot make each other look usual. The value itself does not count. Equal values stand
    in different places among their neighbours, and all get the least density of these, so that it does not matter in
    which order they are sorted. A window that is wider than nine tenths of the group reaches over a void: it counts
    less, by the share of it that those take, so that the density goes down with the square of the distance.
    """
    order = sort_by(group, value) if order is None else order
    value, group = value[order], group[order]
    size = count(group, int(group[-1]) + 1 if len(group) else 0)
    begin = np.cumsum(size) - size
    around = np.minimum(np.maximum(np.ceil(np.cbrt(size)), LEAST_NEIGHBOURS), size - 1).astype(np.int64)
    most = np.ones(len(size))
    some = size > 0
    bounds = ((begin + np.round(share * (size - 1)).astype(np.int64))[some] for share in (0.95, 0.05))
    most[some] += np.subtract(*(value[place] for place in bounds))
    number, first = _runs(group, value)
    density = np.full(len(first), np.inf)
    for part in blocks(len(value)):
        of, run = group[part], number[part]
        low_end, high_end = begin[of], (begin + size - 1 - around)[of]
        best = np.zeros(len(of))
        for place in range(PLACES):
            low = np.clip(np.arange(part.start, part.stop) - (around * place // (PLACES - 1))[of], low_end, high_end)
            high = low + around[of]
            others = first[number[high] + 1] - first[number[low]] - 1
            width = value[high] - value[low] + 1.0
            best = np.maximum(best, others / (size[of] * width) * np.minimum(1, most[of] / width))
        np.minimum.at(density, run, best)
    result = np.empty(len(value))
    result[order] = density[number]
    return result


def _runs(group: Ints | Codes, value: Ints) -> tuple[Codes | Ints, Ints]:
    """Of n sorted values: the run of equal ones that each is in, (n,); where the runs begin, and n at last."""
    new = np.append(True, (group[1:] != group[:-1]) | (value[1:] != value[:-1]))[: len(group)]
    number = np.cumsum(new, dtype=_small(len(group)))
    number -= 1
    return number, np.append(np.flatnonzero(new), len(group))


def _small(limit: int) -> type[np.signedinteger]:
    """The type that numbers up to a limit need: half the memory for all but the largest KBs."""
    return np.int32 if limit < 1 << 31 else np.int64


def cauchy(value: Ints, middle: Ints, spread: Floats) -> Floats:
    """The density of the Cauchy distribution, moved to the middle and stretched: 1 / (π σ (1 + z²))."""
    distance: Floats = (value - middle) / spread
    return 1 / (np.pi * spread * (1 + distance * distance))


def nearer(group: Ints | Codes, distance: Ints) -> Ints:
    """How many values of the same group have a smaller distance than each value. Shapes (n,)."""
    groups = int(group.max(initial=-1)) + 1
    result, size = np.zeros(len(group), np.int64), count(group, groups)
    # Where what is unusual is asked for, most distances are 0: the least ones are counted, and not sorted.
    some = np.flatnonzero(distance != distance.min(initial=0))
    group, distance = group[some], distance[some]
    order = sort_by(group, distance)
    number, first = _runs(group[order], distance[order])
    result[some[order]] = first[number] + (size - np.cumsum(count(group, groups)))[group[order]]
    return result


ERRORS = 0.04
"""π, the share of wrong dates that is expected before looking at a KB."""
LEAST_CASES = 20
"""A habit is made of at least so many cases."""
NEIGHBOURS = 8
"""An entity's facts are all compared if they are at most nine; else each with so many on either side (`_mixed`)."""
MOST_KINDS = 6
"""More kinds of pairs than this say no more than this many: a mean of theirs counts so many times."""
ROUNDS = 12
MOST_COUNTED = 1 << 22
LEAST_SPREAD_YEARS = 5.0


@dataclass(frozen=True, eq=False)
class DateEvidence:
    """What is known of n dates and m pairs.

    date, known, usual, wrong    (n,): t_f (without meaning where not known), ℓ_f, 1 − w_f
    first, second, gap, weight   (m,): rows of the pair, t_second − t_first (without sign if the kind is even), ℓ
    kind                         (m,): the pair's kind, a place in `kinds` and `even`; pairs are up to 16 times as many
                                 as dates, so that their numbers are small ones where these suffice
    kinds, even                  habits of the gaps of each kind; whether both facts have the same part in it
    plausible                    from when to when a date of this KB can be at all (`kb.assemble.plausible_range`)
    """

    date: Ints
    known: Bools
    usual: Floats
    wrong: Floats
    first: Codes | Ints
    second: Codes | Ints
    gap: Ints
    weight: Floats
    kind: Codes | Ints
    kinds: Habits
    even: Bools
    plausible: tuple[int, int]


def gather(facts: Facts, granularity: Granularity) -> DateEvidence:
    """Compare all dates with each other; the facts in canonical order (see `case`), so that the result is one."""
    date, known = facts.date, facts.dated
    wide = _spread(date[known], LEAST_SPREAD_YEARS * INSTANTS_A_YEAR[granularity])
    first, second, kind, even, crowd = _pairs(facts, known)
    gap = date[second]
    for part in blocks(len(gap)):
        apart = gap[part] - date[first[part]]
        gap[part] = np.where(even[kind[part]], np.abs(apart), apart)
    order = sort_by(kind, gap)
    kinds = habits(kind, gap, len(even), order)
    weight = _surprise(kind, gap, order, kinds, np.maximum(kinds.spread, wide))
    plausible = plausible_range(date[known], np.ones(int(known.sum()), np.int64), granularity)
    usual = _usual(facts, date, known, wide, plausible)
    wrong = _blame(usual, first, second, kind, crowd, weight)
    return DateEvidence(
        date, known, usual, np.where(known, wrong, 0.0), first, second, gap, weight, kind, kinds, even, plausible
    )


def _spread(dates: Ints, least: float) -> float:
    """A robust standard deviation of all dates of the KB."""
    nobody = np.zeros(len(dates), np.int64)
    return max(float(habits(nobody, dates, 1).spread[0]), least)


def _surprise(group: Ints | Codes, value: Ints, order: Ints, of: Habits, wide: Floats) -> Floats:
    """ℓ of each value, given its group's habits and the spread of wrong ones; 0 in groups with too few cases."""
    weight = density(group, value, order)
    for part in blocks(len(value)):
        mine = group[part]
        wrong = cauchy(value[part], of.median[mine], wide[mine])
        surprise = np.log((1 - ERRORS) * weight[part] / wrong + ERRORS)
        weight[part] = np.where(of.size[mine] >= LEAST_CASES, surprise, 0.0)
    return weight


def _usual(facts: Facts, date: Ints, known: Bools, wide: float, plausible: tuple[int, int]) -> Floats:
    """ℓ_f: at most 0. A date far outside of all others gets the least value, however many others are there with it."""
    rows = np.flatnonzero(known)
    relation = facts.r[rows].astype(np.int64)
    order = sort_by(relation, date[rows])
    of = habits(relation, date[rows], int(relation.max(initial=-1)) + 1, order)
    everywhere = np.median(date[rows]) if len(rows) else 0.0
    same = Habits(of.size, of.low, np.full_like(of.median, everywhere), of.high)
    usual = np.zeros(len(facts))
    usual[rows] = np.minimum(_surprise(relation, date[rows], order, same, np.full(len(of.size), wide)), 0)
    usual[known & ((date < plausible[0]) | (date > plausible[1]))] = np.log(ERRORS)
    return usual


def _mixed(facts: Facts) -> NDArray[np.uint64]:
    """A number for each fact that looks like chance, but is always the same: whom it meets of a large crowd."""
    number = np.zeros(len(facts), np.uint64)
    for column in (facts.s, facts.r, facts.o, facts.begin, facts.end):
        number = (number ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        number ^= number >> np.uint64(29)
    return number


def _pairs(facts: Facts, known: Bools) -> tuple[Codes | Ints, Codes | Ints, Codes | Ints, Bools, Bools]:
    """Pairs of facts that share an entity, each once: first, second, kind; whether a kind is even, and of a crowd."""
    rows = np.flatnonzero(known)
    others = rows[facts.s[rows] != facts.o[rows]]  # an entity meets a fact with itself once
    entity = np.concatenate([facts.s[rows], facts.o[others]])
    fact = np.concatenate([rows, others])
    part = 2 * facts.r[fact].astype(np.int64) + np.repeat([0, 1], [len(rows), len(others)])  # relation, and which side
    order = np.lexsort((part, _mixed(facts)[fact], entity))
    entity, fact, part = entity[order], fact[order].astype(_small(len(facts))), part[order]
    parts = 2 * (int(facts.r.max(initial=0)) + 1)
    found = [
        _pairs_at(facts, entity, fact, part, parts, within, step)
        for step in range(1, NEIGHBOURS + 1)
        for within in blocks(len(fact) - step)
    ]
    first, second, code = (np.concatenate(column) for column in zip(*found, strict=True)) if found else 3 * [rows[:0]]
    first, second, code = _each_once(first, second, code, len(facts))
    codes, kind = _numbered(code, parts * parts * 3)
    left, right = codes // 3 // parts, codes // 3 % parts
    return first, second, kind, left == right, (left % 2 == 1) & (right % 2 == 1)


def _pairs_at(
    facts: Facts, entity: Codes, fact: Codes | Ints, part: Ints, parts: int, within: slice, step: int
) -> tuple[Codes | Ints, Codes | Ints, Ints]:
    """The pairs of places in a sorted list that are so many steps apart: both facts, and a number for their kind.

    That is 3 · (part of the first · parts + part of the second), and 1 or 2 more if they share both entities.
    """
    one = np.arange(within.start, within.stop)
    other = one + step
    met = (entity[one] == entity[other]) & (fact[one] != fact[other])
    one, other = one[met], other[met]
    turned = part[one] > part[other]
    one, other = np.where(turned, other, one), np.where(turned, one, other)
    first, second = fact[one], fact[other]
    same = (facts.s[first] == facts.s[second]) & (facts.o[first] == facts.o[second])
    mirrored = (facts.s[first] == facts.o[second]) & (facts.o[first] == facts.s[second]) & ~same
    left, right = part[one], part[other]
    # By which of both entities they meet says nothing.
    left[same | mirrored] &= ~1
    right[same | mirrored] &= ~1
    return first, second, (left * parts + right) * 3 + same + 2 * mirrored


def _each_once(
    first: Codes | Ints, second: Codes | Ints, code: Ints, size: int
) -> tuple[Codes | Ints, Codes | Ints, Ints]:
    """Pairs without the second copy of those that share both entities, which come up by each of them."""
    both = np.flatnonzero(code % 3)
    low, high = np.minimum(first[both], second[both]), np.maximum(first[both], second[both])
    _, once = np.unique(np.multiply(low, size, dtype=np.int64) + high, return_index=True)
    if len(once) == len(both):
        return first, second, code
    kept = np.ones(len(first), bool)
    kept[both] = False
    kept[both[once]] = True
    return first[kept], second[kept], code[kept]


def _numbered(code: Ints, limit: int) -> tuple[Ints, Codes | Ints]:
    """The distinct codes in order and the place of each code among them; by counting if there are not too many."""
    small = _small(len(code))
    if limit > MOST_COUNTED:
        codes, place = np.unique(code, return_inverse=True)
        return codes, place.astype(small)
    used = np.bincount(code, minlength=limit) > 0
    return np.flatnonzero(used), (np.cumsum(used) - 1).astype(small)[code]


def _blame(
    usual: Floats, first: Codes | Ints, second: Codes | Ints, kind: Codes | Ints, crowd: Bools, weight: Floats
) -> Floats:
    """1 − w of each fact, shape (n,), as `usual`."""
    witnesses = list(_witnesses(len(usual), first, second, kind, crowd, weight))
    right = np.full(len(usual), 1 - ERRORS)
    prior = np.log((1 - ERRORS) / ERRORS)
    wrong = 1 - right
    for _ in range(ROUNDS):
        for of in witnesses:
            facts, size = slice(of.start, of.stop), of.stop - of.start
            said = right[of.other] * of.share
            era = np.bincount(of.fact, np.where(of.far, said, 0.0), size)
            era = np.where(era < 0, np.minimum(era, usual[facts]), era + usual[facts])
            total = prior + era + np.bincount(of.fact, np.where(of.far, 0.0, said), size)
            wrong[facts] = 1 / (1 + np.exp(np.clip(total, -50, 50)))
        right = (right + 1 - wrong) / 2  # half a step, so that two facts do not swap their parts for ever
    return wrong


@dataclass(frozen=True, eq=False)
class _Witnesses:
    """What others say of the facts start … stop − 1, sorted by fact: arrays (k,).

    fact    counted from `start`
    other   who says it, a row
    share   ℓ by the number of pairs of the same fact and kind, and of its kinds
    far     whether it is of a crowd
    """

    start: int
    stop: int
    fact: Codes
    other: Codes | Ints
    share: Floats
    far: Bools


def _witnesses(
    size: int, first: Codes | Ints, second: Codes | Ints, kind: Codes | Ints, crowd: Bools, weight: Floats
) -> Iterator[_Witnesses]:
    """All facts 0 … size − 1 in parts, each with about so many pairs as a block has; all pairs are read for each."""
    telling = weight != 0
    met = np.cumsum(count(first[telling], size) + count(second[telling], size))
    part = max(BLOCK, len(first) // 16)  # at most 32 of them
    bounds = np.flatnonzero(np.diff(met // part, prepend=0)).tolist()
    for start, stop in itertools.pairwise(dict.fromkeys([0, *bounds, size])):
        at_first, at_second = (np.flatnonzero((rows >= start) & (rows < stop) & telling) for rows in (first, second))
        fact = np.concatenate([first[at_first], second[at_second]]) - start
        other = np.concatenate([second[at_first], first[at_second]])
        at = np.concatenate([at_first, at_second])
        side = 2 * kind[at].astype(np.int64) + np.repeat([0, 1], [len(at_first), len(at_second)])
        # All pairs of one fact and kind side by side, to know how many they are.
        order = sort_by(fact, side)
        fact, other, side, at = fact[order], other[order], side[order], at[order]
        new = np.append(True, (fact[1:] != fact[:-1]) | (side[1:] != side[:-1]))[: len(fact)]
        run = np.cumsum(new) - 1
        share = weight[at] / np.maximum(np.bincount(run, minlength=1), 1)[run]
        far = crowd[side // 2]
        for chosen, most in ((far, 1), (~far, MOST_KINDS)):
            kinds = np.bincount(fact[new & chosen], minlength=stop - start)[fact]
            share[chosen] /= np.maximum(kinds[chosen] / most, 1)
        yield _Witnesses(start, stop, fact, other, share, far)
