"""Many questions in one call: those that cannot be asked do not stop the others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from timeplex.answers.resolve import columns, is_column
from timeplex.errors import InputError, UnknownNameError

Columns = dict[str, list[Any]]


def of_all(
    answer: Callable[..., pl.DataFrame],
    resolve: Callable[..., Any],
    given: dict[str, Any],
    said: Callable[[Columns, list[int]], Columns],
) -> pl.DataFrame:
    """The answers to all questions; of several, those that cannot be asked have a row with what was `said`, and why.

    answer and resolve take the columns of `given`; what `resolve` does not understand is an `InputError`. A single
    question that cannot be asked is that error; of several, the answers have the column `error`.
    """
    if not any(is_column(value) for value in given.values()):
        return answer(**given)
    try:
        return answer(**given).with_columns(pl.lit(None, pl.String).alias("error"))
    except (InputError, UnknownNameError):
        table = columns(**given)
        good, errors = _apart(resolve, table)
        if not errors:
            raise
    answers = answer(**{name: [column[row] for row in good] for name, column in table.items()})
    place = np.array(good, np.int64)
    if "query" in answers.columns:
        place = place[answers["query"].to_numpy()]
        answers = answers.with_columns(pl.Series("query", place))
    wrong = pl.DataFrame({**said(table, list(errors)), "error": list(errors.values())})
    order = np.argsort(np.concatenate([place, np.array(list(errors), np.int64)]), kind="stable")
    return pl.concat([answers, wrong], how="diagonal")[order]


def _apart(resolve: Callable[..., Any], table: Columns) -> tuple[list[int], dict[int, str]]:
    """Which rows can be asked, and why the others cannot."""
    good, errors = list[int](), dict[int, str]()
    for row in range(len(next(iter(table.values())))):
        try:
            resolve(**{name: column[row] for name, column in table.items()})
        except (InputError, UnknownNameError) as error:
            errors[row] = str(error)
        else:
            good.append(row)
    return good, errors
