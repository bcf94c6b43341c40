"""The paper's formulas for gadgets, word by word: loops over all facts, plain numbers, nothing shared with the code.

Learned numbers, and the means and deviations inside a score, are read from the gadget; which facts count, how many
pairs recur, and what the statistics are, is found here by counting.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from timeplex.kb import spans
from timeplex.kb.facts import Facts

LEAST_SIGMA = 0.1

Role = Literal["s", "o"]
ROLES: tuple[Role, Role] = ("s", "o")


class Fact(NamedTuple):
    """A fact at its one time; `row` is where it stands among the training facts."""

    row: int
    s: int
    r: int
    o: int
    t: int


def dated(facts: Facts) -> list[Fact]:
    """Each fact at its begin, or at its end where the begin is open; those without any date are left out."""
    found = []
    for row, (s, r, o, begin, end) in enumerate(facts):
        if begin != spans.OPEN_BEGIN:
            found.append(Fact(row, s, r, o, begin))
        elif end != spans.OPEN_END:
            found.append(Fact(row, s, r, o, end))
    return found


# Statistics


def mean_and_sd(gaps: list[int]) -> tuple[float, float]:
    """Mean and population standard deviation."""
    mean = sum(gaps) / len(gaps)
    return mean, math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))


def times_of_triple(facts: list[Fact], s: int, r: int, o: int) -> list[int]:
    """The distinct times of a triple, in order."""
    return sorted({fact.t for fact in facts if (fact.s, fact.r, fact.o) == (s, r, o)})


def recurring_pairs(facts: list[Fact], r: int) -> int:
    """How many pairs (s, o) have the relation at two or more times."""
    pairs = {(fact.s, fact.o) for fact in facts if fact.r == r}
    return sum(len(times_of_triple(facts, s, r, o)) >= 2 for s, o in pairs)


def recurring_gaps(facts: list[Fact], r: int) -> list[int]:
    """From each time of a triple with this relation to the next."""
    gaps = []
    for s, o in {(fact.s, fact.o) for fact in facts if fact.r == r}:
        times = times_of_triple(facts, s, r, o)
        gaps += [times[place] - times[place - 1] for place in range(1, len(times))]
    return gaps


def pair_gaps(facts: list[Fact], role: Role, r: int, other: int) -> list[int]:
    """t − t′ for all distinct times t of (entity, r) and t′ of (entity, r′), over all entities in that role."""
    gaps = []
    for entity in {getattr(fact, role) for fact in facts}:
        mine = [fact for fact in facts if getattr(fact, role) == entity]
        for t in {fact.t for fact in mine if fact.r == r}:
            gaps += [t - earlier for earlier in {fact.t for fact in mine if fact.r == other}]
    return gaps


# Scores


def gaussian(x: float, mean: float, sigma: float, form: str) -> float:
    """N(x | μ, σ); the published code does not divide by σ √2π."""
    height = math.exp(-((x - mean) ** 2) / (2 * sigma**2))
    return height / (sigma * math.sqrt(2 * math.pi)) if form == "paper" else height


def recurrence(gadget: Any, facts: list[Fact], s: int, r: int, o: int, when: int, own: int | None = None) -> float:
    """φ^Rec of (s, r, o, when)."""
    gaps = []
    for place, fact in enumerate(facts):
        if (fact.s, fact.r, fact.o) == (s, r, o) and fact.t != when and place != own:
            gaps.append(abs(when - fact.t))
    if not gaps:
        return 0.0
    bias = gadget.bias[r].item()
    if recurring_pairs(facts, r) < gadget.options.minimum:
        return bias
    sigma = max(math.exp(gadget.log_sigma[r].item()), LEAST_SIGMA)
    return gadget.weight[r].item() * gaussian(min(gaps), gadget.mean[r].item(), sigma, gadget.options.form) + bias


def pair(gadget: Any, facts: list[Fact], s: int, r: int, o: int, when: int, own: int | None = None) -> float:
    """φ^Pair of (s, r, o, when): the mean for the subject and that for the object."""
    return sum(pair_of(gadget, facts, role, s, r, o, when, own) for role in ROLES)


def pair_of(
    gadget: Any, facts: list[Fact], role: Role, s: int, r: int, o: int, when: int, own: int | None = None
) -> float:
    """φ^Pair of one side."""
    entity, side, form = (s if role == "s" else o), ROLES.index(role), gadget.options.form
    top = bottom = 0.0
    for place, fact in enumerate(facts):
        if getattr(fact, role) != entity:
            continue
        if form == "paper" and fact.r == r:
            continue
        asked = (fact.s, fact.r, fact.o, fact.t) == (s, r, o, when) if own is None else place == own
        if form == "published-code" and asked:
            continue
        score = gadget.bias[side, r, fact.r].item()
        if pair_gaps(facts, role, r, fact.r):
            mean, sigma = gadget.mean[side, r, fact.r].item(), gadget.sigma[side, r, fact.r].item()
            score += gaussian(when - fact.t, mean, sigma, form)
        weight = math.exp(gadget.weight[side, r, fact.r].item())
        top += score * weight
        bottom += weight
    return top / bottom if bottom else 0.0


Oracle = Callable[..., float]
ORACLES: dict[str, Oracle] = {"recurrence": recurrence, "pair": pair}
