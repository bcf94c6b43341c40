"""Slow, literal versions of what `timeplex.auditing` computes with arrays."""

import math
from itertools import combinations

from timeplex.kb import spans
from timeplex.kb.facts import Facts


def density(group: list[int], value: list[int]) -> list[float]:
    """For each value, the densest of the windows that `density` looks at, one by one; the least of equal values."""
    result = []
    for mine, x in zip(group, value, strict=True):
        others = sorted(v for g, v in zip(group, value, strict=True) if g == mine)
        n = len(others)
        around = min(max(math.ceil(round(n ** (1 / 3), 9)), 4), n - 1)
        densities = []
        most = others[round(0.95 * (n - 1))] - others[round(0.05 * (n - 1))] + 1
        for at in (place for place, v in enumerate(others) if v == x):
            best = 0.0
            for place in range(5):
                low = min(max(at - around * place // 4, 0), n - 1 - around)
                first, last = others[low], others[low + around]
                inside = sum(first <= v <= last for v in others) - 1
                width = last - first + 1
                best = max(best, inside / (n * width) * min(1, most / width))
            densities.append(best)
        result.append(min(densities))
    return result


def nearer(group: list[int], distance: list[int]) -> list[int]:
    pairs = list(zip(group, distance, strict=True))
    return [sum(g == mine and d < x for g, d in pairs) for mine, x in pairs]


def pairs(facts: Facts) -> set[frozenset[int]]:
    """All pairs of dated facts that share an entity."""
    rows = list(facts)
    dated = [at for at, row in enumerate(rows) if row[3] != spans.OPEN_BEGIN or row[4] != spans.OPEN_END]
    return {
        frozenset(pair)
        for pair in combinations(dated, 2)
        if {rows[pair[0]][0], rows[pair[0]][2]} & {rows[pair[1]][0], rows[pair[1]][2]}
    }


def at_once(facts: Facts, relation: int, side: str) -> set[frozenset[int]]:
    """Pairs of facts of one entity and different partners, both ends known, with two instants or a span in common."""
    mine, partner = (0, 2) if side == "subject" else (2, 0)
    known = [
        (at, row)
        for at, row in enumerate(facts)
        if row[1] == relation and row[3] != spans.OPEN_BEGIN and row[4] != spans.OPEN_END
    ]
    return {
        frozenset((a, b))
        for (a, one), (b, two) in combinations(known, 2)
        if one[mine] == two[mine]
        and one[partner] != two[partner]
        and (min(one[4], two[4]) > max(one[3], two[3]) or one[3:] == two[3:])
    }


def blame(
    usual: list[float], pairs: list[tuple[int, int, int, float]], crowd: list[bool], errors: float, rounds: int
) -> list[float]:
    """1 − w, fact by fact and round by round; pairs are (first, second, kind, weight)."""
    right = [1 - errors] * len(usual)
    wrong = [errors] * len(usual)
    for _ in range(rounds):
        for fact in range(len(usual)):
            # The same kind seen from its other side is another kind.
            kinds: dict[tuple[int, bool], list[float]] = {}
            for first, second, kind, weight in pairs:
                if weight != 0 and fact in (first, second):
                    other = second if fact == first else first
                    kinds.setdefault((kind, fact == second), []).append(right[other] * weight)
            means = {key: sum(values) / len(values) for key, values in kinds.items()}
            near = [mean for (kind, _), mean in means.items() if not crowd[kind]]
            far = [mean for (kind, _), mean in means.items() if crowd[kind]]
            own = sum(near) * min(1, 6 / max(len(near), 1))
            strangers = sum(far) / max(len(far), 1)
            era = min(usual[fact], strangers) if strangers < 0 else usual[fact] + strangers
            wrong[fact] = 1 / (1 + math.exp(math.log((1 - errors) / errors) + era + own))
        right = [(before + 1 - now) / 2 for before, now in zip(right, wrong, strict=True)]
    return wrong
