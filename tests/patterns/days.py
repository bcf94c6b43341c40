"""A KB by day as people know it: offices that pass from one holder to the next, couples, births."""

import numpy as np

from timeplex.kb.facts import Facts

HOLDS, SPOUSE, BORN = range(3)
YEAR = 365


def careers(offices: int, couples: int, years: int, seed: int) -> tuple[Facts, Facts]:
    """(facts, hidden facts).

    Each office has holders one after the other, who go on the day that the next one comes; each couple is stated from
    both sides with one span; everyone is born somewhere. Hidden are one holder of every office, neither the first nor
    the last, and one side of a third of the couples.
    """
    chance = np.random.default_rng(seed)
    rows: list[tuple[int, int, int, int, int]] = []
    hidden: list[tuple[int, int, int, int, int]] = []
    person = offices + 1
    for office in range(1, offices + 1):
        day, terms = int(chance.integers(YEAR)), []
        while day < years * YEAR:
            length = int(chance.integers(200, 1200))
            terms.append((person, HOLDS, office, day, day + length))
            rows.append((person, BORN, 0, int(chance.integers(years * YEAR)), -1))
            day, person = day + length, person + 1
        gone = int(chance.integers(1, len(terms) - 1)) if len(terms) > 2 else -1
        for at, term in enumerate(terms):
            (hidden if at == gone else rows).append(term)
    for couple in range(couples):
        begin = int(chance.integers(years * YEAR))
        end = begin + int(chance.integers(100, 2000))
        rows.append((person, SPOUSE, person + 1, begin, end))
        (hidden if couple % 3 == 0 else rows).append((person + 1, SPOUSE, person, begin, end))
        person += 2
    rows = [(*row[:4], row[3] if row[4] < 0 else row[4]) for row in rows]
    return Facts(*np.array(rows).T), Facts(*np.array(hidden).T)
