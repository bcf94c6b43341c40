"""Dates that stand for "no date": 9999-12-31 for an end that is open, 1900-01-01 or 1970-01-01 for one not known.

Any of them may be meant. One is taken for a placeholder only where it stands far too often at one end:

- the year 9999 even once, if no other date of the KB is within `NEAR_YEARS` of it;
- a far year (`YEARS`) at least `LEAST` times and in one of a hundred dates of that end, if hardly any other date of the
  KB is near it (fewer than a twentieth as many within `NEAR_YEARS`);
- a usual day (`DAYS`), which may well be real, at least twice as often as that, and ten times as often as any other day
  within ten years.
"""

import numpy as np

from timeplex.kb import dates
from timeplex.kb.dates import Bools, Dates, Ints, State

YEARS = (-9999, -1, 0, 2099, 2100, 2199, 2200, 2999, 3000, 4000, 8888, 9000, 9998, 9999)
DAYS = (
    *((1, 1, 1), (1000, 1, 1), (1582, 10, 15), (1601, 1, 1), (1753, 1, 1), (1800, 1, 1)),
    *((1899, 12, 30), (1899, 12, 31), (1900, 1, 1), (1901, 1, 1), (1970, 1, 1)),
)
CERTAIN = 9999
"""The year that nobody means."""

LEAST = 5
NEAR_YEARS = 30
SPIKE = 10
"""How many times as often as its neighbours a usual day must stand."""


def placeholders(columns: list[tuple[Dates, Ints]]) -> list[Bools]:
    """Which of the distinct dates of each column (begins, ends) are placeholders, given how often each stands there."""
    every = np.concatenate([_single(read) * counts for read, counts in columns])
    days = np.concatenate([read.first for read, _ in columns])
    return [_far(read, counts, days, every) | _usual(read, counts) for read, counts in columns]


def _single(read: Dates) -> Bools:
    """Which dates are known, and no range of years."""
    one_year = dates.civil(read.first)[0] == dates.civil(read.last)[0]
    single: Bools = (read.state == State.KNOWN) & one_year
    return single


def _far(read: Dates, counts: Ints, days: Ints, every: Ints) -> Bools:
    found = np.zeros(len(counts), bool)
    single = _single(read)
    stated = int(counts[single].sum())
    own, all_years = dates.civil(read.first)[0], dates.civil(days)[0]
    for year in YEARS:
        mine = single & (own == year)
        number = int(counts[mine].sum())
        if number < (1 if year == CERTAIN else max(LEAST, stated / 100)):
            continue
        apart = np.abs(all_years - year)
        near = int(every[(apart <= NEAR_YEARS) & (apart > 0)].sum())
        others = int(every[apart > NEAR_YEARS].sum())
        if others > 0 and near < number / 20:
            found |= mine
    return found


def _usual(read: Dates, counts: Ints) -> Bools:
    found = np.zeros(len(counts), bool)
    exact = _single(read) & (read.precision == 3) & (read.first == read.last)
    stated = int(counts[_single(read)].sum())
    distinct, group = np.unique(read.first[exact], return_inverse=True)
    often = np.bincount(group, weights=counts[exact], minlength=len(distinct))
    for day in (int(dates.day_number(*parts)) for parts in DAYS):
        number = int(often[distinct == day].sum())
        if number < max(2 * LEAST, stated / 50) or number == stated:
            continue
        near = (np.abs(distinct - day) <= 3653) & (distinct != day)
        if number >= SPIKE * often[near].max(initial=0):
            found |= exact & (read.first == day)
    return found
