"""Clean KBs of made-up lives, and an error to plant for every rule; tables, read as a user's would be."""

from collections.abc import Callable

import polars as pl

import timeplex
from timeplex.kb.facts import TemporalKB

Row = tuple[str, str, str, int | None, int | None]
"""subject, relation, object, begin, end."""

COUNTRIES = 3


def clean(people: int = 60) -> list[Row]:
    """Lives without fault: born, married (both ways), a job of 8 to 12 years, died at 70 to 79; games; heads."""
    rows: list[Row] = []
    for person in range(people):
        me, birth = f"person {person:03}", 1900 + person
        spouse = f"person {person ^ 1:03}"
        wedding = 1900 + (person & ~1) + 25
        rows += [
            (me, "bornIn", f"town {person % 7}", birth, birth),
            (me, "marriedTo", spouse, wedding, wedding + 30),
            (me, "worksFor", f"firm {person % 5}", birth + 22 + person % 4, birth + 30 + person % 9),
            (me, "diedIn", f"town {person % 5}", birth + 70 + person % 10, birth + 70 + person % 10),
        ]
    rows += [
        ("games", "heldIn", f"town {edition % 7}", 1900 + 4 * edition, 1900 + 4 * edition) for edition in range(25)
    ]
    rows += [
        (f"head {country} {term}", "headOf", f"country {country}", 1900 + 6 * term, 1906 + 6 * term)
        for country in range(COUNTRIES)
        for term in range(12)
    ]
    return rows


def read(rows: list[Row]) -> TemporalKB:
    """The rows as a KB."""
    return timeplex.read(pl.DataFrame(rows, orient="row", schema=["subject", "relation", "object", "begin", "end"]))


def changed(rows: list[Row], which: Row, to: Row) -> list[Row]:
    assert rows.count(which) == 1, which
    return [to if row == which else row for row in rows]


def _row(rows: list[Row], subject: str, relation: str) -> Row:
    (row,) = [row for row in rows if row[:2] == (subject, relation)]
    return row


def _dated(subject: str, relation: str, begin: int, end: int) -> Callable[[list[Row]], tuple[list[Row], Row]]:
    def plant(rows: list[Row]) -> tuple[list[Row], Row]:
        row = _row(rows, subject, relation)
        wrong = (*row[:3], begin, end)
        return changed(rows, row, wrong), wrong

    return plant


def _reversed(rows: list[Row]) -> tuple[list[Row], Row]:
    row = _row(rows, "person 007", "worksFor")
    assert row[3] is not None
    # The readers set the end to the begin.
    return changed(rows, row, (*row[:3], row[3], row[3] - 3)), (*row[:3], row[3], row[3])


def _added(row: Row) -> Callable[[list[Row]], tuple[list[Row], Row]]:
    return lambda rows: ([*rows, row], row)


def _unmirrored(rows: list[Row]) -> tuple[list[Row], Row]:
    gone, left = _row(rows, "person 010", "marriedTo"), _row(rows, "person 011", "marriedTo")
    return [row for row in rows if row != gone], left


PLANTS: dict[str, Callable[[list[Row]], tuple[list[Row], Row]]] = {
    "begin-after-end": _reversed,
    "implausible-date": _dated("person 020", "bornIn", 2844, 2844),
    "duration": _dated("person 020", "worksFor", 1942, 2005),
    "gap": _dated("person 020", "diedIn", 2150, 2150),
    "ordering": _dated("person 020", "diedIn", 1921, 1921),
    "one-at-a-time": _added(("usurper", "headOf", "country 1", 1937, 1941)),
    "lifespan": _dated("person 040", "worksFor", 1964, 2031),
    "rhythm": _dated("games", "heldIn", 0, 0),  # replaced below: the games have many rows
    "contradiction": _added(("person 030", "bornIn", "town 6", 1938, 1938)),
    "missing-mirror": _unmirrored,
}


def _off_beat(rows: list[Row]) -> tuple[list[Row], Row]:
    edition: Row = ("games", "heldIn", "town 3", 1940, 1940)
    wrong: Row = ("games", "heldIn", "town 3", 1941, 1941)
    return changed(rows, edition, wrong), wrong


PLANTS["rhythm"] = _off_beat
