"""What is asked of the service."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from timeplex.answers.rank import EntityQueries
from timeplex.answers.resolve import ANY_TIME
from timeplex.models.scorer import Direction


@dataclass(frozen=True)
class Question:
    """Who or what stands in a relation at a time: one of subject and object is given."""

    relation: str
    subject: str | None = None
    object: str | None = None
    at: str = ANY_TIME


@dataclass(frozen=True)
class Triple:
    """A fact without its dates."""

    subject: str
    relation: str
    object: str


def joined(direction: Direction, questions: Sequence[EntityQueries]) -> EntityQueries:
    """Questions of one direction as one."""
    names = [each.name for each in fields(EntityQueries) if each.name != "direction"]
    return EntityQueries(
        direction, **{name: np.concatenate([getattr(each, name) for each in questions]) for name in names}
    )
