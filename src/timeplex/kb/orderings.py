"""Which relation comes before which in the lives of entities: wasBornIn → diedIn. Mined from facts.

An ordering r₁ → r₂ is counted over all pairs of facts (s, r₁, ·, t₁), (s, r₂, ·, t₂) of the same subject, where t is
the begin of a fact: `cases` is how many pairs there are, `holds` how many have t₁ ≤ t₂, `entities` how many subjects
they come from. It is mined if holds / cases ≥ 99 %, with enough cases.

The paper (Jain et al., EMNLP 2020) states t₁ < t₂ and a support of 100 entities, but the lists in its appendix C do not
obey that: worksAt → diedIn of YAGO11k has 24 such entities, and isMarriedTo → diedIn holds in 98.97 % of its cases if
the same year does not count. The defaults here were found by trying many readings against those lists, so that they are
a guess at what was done, and no proof: t₁ ≤ t₂ over pairs of facts, at least 20 of them, gives the list of YAGO11k
exactly and 8 of the 11 orderings of WIKIDATA12k, and no other. Two things are ours: a begin that is not known says
nothing (it is not taken for an early one), and one subject alone, however many facts it has, makes no ordering.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from timeplex.kb import spans
from timeplex.kb.dates import Ints
from timeplex.kb.facts import Facts, expand, pair_key
from timeplex.kb.names import Names

CONFIDENCE, CASES, ENTITIES = 0.99, 20, 2

BLOCK = 1 << 22
"""The most comparisons that are held in memory at once."""


@dataclass(frozen=True)
class Ordering:
    """Relation `first` begins no later than `second`, in `holds` of `cases` pairs of facts of `entities` subjects."""

    first: int
    second: int
    holds: int
    cases: int
    entities: int

    @property
    def confidence(self) -> float:
        """holds / cases."""
        return self.holds / self.cases

    def text(self, relations: Names) -> str:
        """As a person reads it: `wasBornIn → diedIn`."""
        return f"{relations.label(self.first)} → {relations.label(self.second)}"


def mine(
    facts: Facts,
    *,
    confidence: float = CONFIDENCE,
    cases: int = CASES,
    entities: int = ENTITIES,
    strict: bool = False,
) -> list[Ordering]:
    """All orderings with at least this confidence, this many cases and this many entities, by relation numbers.

    `strict` counts t₁ < t₂ instead of t₁ ≤ t₂. A pair of relations with both orderings (they begin together) has both.
    """
    return [
        ordering
        for ordering in count(facts, strict=strict)
        # A hair less than asked for, since 0.99 · cases may come out a hair more than the whole number that it is.
        if ordering.holds >= confidence * ordering.cases - 1e-9
        and ordering.cases >= cases
        and ordering.entities >= entities
    ]


def count(facts: Facts, *, strict: bool = False) -> list[Ordering]:
    """The counts of every ordered pair of two relations that some subject has, whether they make an ordering or not."""
    known = facts.begin != spans.OPEN_BEGIN
    columns = np.stack([facts.s[known], facts.r[known], facts.begin[known]]).astype(np.int64)
    (s, r, begin), copies = np.unique(columns, axis=1, return_counts=True)
    if len(copies) == 0:
        return []
    groups = _Groups(s, r, begin, copies)
    first, second = groups.partners(np.arange(len(groups.s)))
    key = pair_key(groups.r[first], groups.r[second])
    pairs, where = np.unique(key, return_inverse=True)
    all_cases = _sums(where, groups.facts[first] * groups.facts[second], len(pairs))
    all_entities = np.bincount(where, minlength=len(pairs))
    all_holds = np.zeros(len(pairs), np.int64)
    for first, row in groups.comparisons():
        holds = groups.up_to(first, begin[row], strict) * copies[row]
        where = np.searchsorted(pairs, pair_key(groups.r[first], r[row]))
        all_holds += _sums(where, holds, len(pairs))
    counts = (pairs >> 32, pairs & 0xFFFFFFFF, all_holds, all_cases, all_entities)
    return [Ordering(*row) for row in zip(*(column.tolist() for column in counts), strict=True)]


def _sums(where: Ints, values: Ints, size: int) -> Ints:
    """The sum of the values at each place 0 … size − 1 (exact, as counts are far below 2⁵³)."""
    return np.bincount(where, weights=values, minlength=size).astype(np.int64)


class _Groups:
    """The begins of each (s, r), from columns s, r, begin that are sorted and distinct, and how many facts each row is.

    Group g has the rows starts[g] … starts[g + 1] − 1; the groups of one subject stand side by side.
    """

    def __init__(self, s: Ints, r: Ints, begin: Ints, copies: Ints) -> None:
        new = np.append(True, (s[1:] != s[:-1]) | (r[1:] != r[:-1]))
        starts = np.flatnonzero(new)
        self._group = np.cumsum(new) - 1
        self._facts_before = np.append(0, np.cumsum(copies))
        self._starts = np.append(starts, len(s))
        self.s, self.r = s[starts], r[starts]
        self.facts = np.diff(self._facts_before[self._starts])
        self._low = np.searchsorted(self.s, self.s, side="left")
        self._high = np.searchsorted(self.s, self.s, side="right")
        # One number for group and begin, so that one search finds a begin within its group.
        self._origin, self._width = int(begin.min()), int(begin.max() - begin.min()) + 2
        self._keys = self._group * self._width + begin - self._origin

    def partners(self, groups: Ints) -> tuple[Ints, Ints]:
        """All (other group of the same subject, position in `groups`)."""
        position, other = expand(self._low[groups], self._high[groups])
        apart = other != groups[position]
        return other[apart], position[apart]

    def comparisons(self) -> Iterator[tuple[Ints, Ints]]:
        """All (group, row) of the same subject and another relation, in blocks of at most about `BLOCK`."""
        total = np.cumsum((self._high - self._low)[self._group])
        cuts = np.searchsorted(total, np.arange(BLOCK, total[-1], BLOCK))
        for rows in np.split(np.arange(len(total)), cuts):
            group, position = self.partners(self._group[rows])
            yield group, rows[position]

    def up_to(self, group: Ints, begin: Ints, strict: bool) -> Ints:
        """How many facts of each group begin no later than (if strict: before) the given begin."""
        key = group * self._width + begin - self._origin
        stop = np.searchsorted(self._keys, key, side="left" if strict else "right")
        facts: Ints = self._facts_before[stop] - self._facts_before[self._starts[group]]
        return facts
