"""Facts that began after they ended in the source, traced from the reader's problems back to the facts.

The readers repair such a row (the end is set to the begin) and keep a problem with the row as it stood. The fact that
it became lasts as long as the begin that is told (a year, say), and its names are among the fields of the row.
"""

import csv
import json
import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from timeplex.kb import date_spellings, dates
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.problems import Kind
from timeplex.typing import Ints

SEPARATORS = "\t,;|"
TOLD = re.compile(r"it begins (.*) and ends (.*); the end was set to the begin", re.DOTALL)


@dataclass(frozen=True)
class Repaired:
    """Rows of repaired facts, and the begin and end that the source gives them, (n,); how many rows were not found."""

    rows: Ints
    begin: Ints
    end: Ints
    not_found: int


def trace(kb: TemporalKB, facts: Facts) -> Repaired:
    """The repaired facts among the given facts of a KB."""
    problems = kb.problems.of_facts(Kind.BEGIN_AFTER_END)
    told = [TOLD.fullmatch(reason) for reason in problems["reason"]]
    texts = [match.groups() for match in told if match]
    lines = [row for row, match in zip(problems["row"], told, strict=True) if match]
    (begin, last), (end, _) = (_instants([pair[side] for pair in texts], kb.granularity) for side in (0, 1))
    rows = np.array(
        [_fact(kb, facts, line, int(begin[at]), int(last[at])) for at, line in enumerate(lines)], dtype=np.int64
    )
    found = rows >= 0
    return Repaired(rows[found], begin[found], end[found], len(problems) - int(found.sum()))


def _instants(texts: list[str], granularity: Granularity) -> tuple[Ints, Ints]:
    return dates.place(date_spellings.parse(pl.Series(texts, dtype=pl.String)), granularity)


def _fact(kb: TemporalKB, facts: Facts, row: str, begin: int, end: int) -> int:
    """The fact that a row of the source became; −1 if it cannot be told."""
    fields = _fields(row)
    numbers = sorted(kb.entities.id(text) for text in fields if text in kb.entities)
    relations = {kb.relations.id(text) for text in fields if text in kb.relations}
    rows = [of for one in numbers for two in numbers if one <= two for of in facts.of_pair(one, two).tolist()]
    rows = [of for of in rows if facts.begin[of] == begin and facts.end[of] == end]
    # A table that holds one relation may not name it.
    named = [of for of in rows if int(facts.r[of]) in relations]
    return min(named or rows, default=-1)


def _fields(row: str) -> set[str]:
    """All texts that may be a field of the row, however its source separates them."""
    if row.startswith("{"):
        try:
            return {str(value) for value in json.loads(row).values()}
        except ValueError:
            return set()
    fields: set[str] = set()
    for separator in SEPARATORS:
        fields.update(row.split(separator))
        try:
            for parts in csv.reader([row], delimiter=separator):
                fields.update(parts)
        except csv.Error:
            continue
    return fields
