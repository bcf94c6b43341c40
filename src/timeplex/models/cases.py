"""Small random worlds to try a model in, and the option sets to try it with."""

from dataclasses import dataclass, replace
from itertools import product
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np
import torch
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from torch import Tensor

from timeplex.errors import InputError
from timeplex.models.base import Model, Options, Space, Span

DIMENSION = 4
"""Of the models that are tried: as small as formulas with halves and quarters of a vector allow."""

MOST_VARIANTS = 32
"""Up to so many combinations of options all are tried; above, each choice once beside the defaults."""


class Sizes(NamedTuple):
    """How large a world is."""

    entities: int
    relations: int
    instants: int
    facts: int


class Facts(NamedTuple):
    """Facts with spans, first and last inclusive: five tensors of shape (n,)."""

    s: Tensor
    r: Tensor
    o: Tensor
    first: Tensor
    last: Tensor

    @property
    def span(self) -> Span:
        """The spans."""
        return self.first, self.last

    def rows(self, which: Tensor) -> "Facts":
        """The facts with these numbers."""
        return Facts(*(column[which] for column in self))


@dataclass(frozen=True)
class Case:
    """A model class, its options and a world; everything random in it follows from the seed."""

    model_class: type[Model]
    options: Options
    sizes: Sizes
    seed: int

    @classmethod
    def random(cls, model_class: type[Model], options: Options, seed: int) -> "Case":
        """A case whose sizes, too, follow from the seed."""
        sizes = np.random.default_rng(seed).integers((1, 1, 1, 1), (8, 5, 9, 6)).tolist()
        return cls(model_class, options, Sizes(*sizes), seed)

    def __str__(self) -> str:
        sizes = ", ".join(f"{number} {name}" for name, number in self.sizes._asdict().items())
        options = ", ".join(f"{name}={value}" for name, value in self.options.model_dump().items())
        return f"with {options}; {sizes}; seed {self.seed}"

    def at_least(self, **sizes: int) -> "Case":
        """The same in a world that is large enough."""
        return replace(self, sizes=self.sizes._replace(**{k: max(v, getattr(self.sizes, k)) for k, v in sizes.items()}))

    def more(self, **sizes: int) -> "Case":
        """The same in a world that is larger by so many entities, relations or instants."""
        return replace(self, sizes=self.sizes._replace(**{k: v + getattr(self.sizes, k) for k, v in sizes.items()}))

    def space(self) -> Space:
        """A timeline by year, month or day with gaps, some of whose instants are never mentioned."""
        generator = np.random.default_rng(self.seed)
        instants = self.sizes.instants
        number = np.cumsum(generator.integers(1, 1500, instants))
        year, month, day = number // (12 * 28) - 20, number // 28 % 12 + 1, number % 28 + 1
        match generator.integers(3):
            case 0:
                columns = [number - 3000, 0 * month, 0 * day]
            case 1:
                columns = [number // 12 + 1000, number % 12 + 1, 0 * day]
            case _:
                columns = [year + 2000, month, day]
        mentions = generator.integers(0, 4, instants)
        return Space(
            self.sizes.entities,
            self.sizes.relations,
            torch.from_numpy(np.stack(columns, axis=1)),
            torch.from_numpy(mentions),
        )

    def facts(self) -> Facts:
        """Random facts; new tensors at every call."""
        generator = np.random.default_rng(self.seed + 1)
        entities, relations, instants, facts = self.sizes
        first, last = np.sort(generator.integers(0, instants, (2, facts)), axis=0)
        s, o = generator.integers(0, entities, (2, facts))
        r = generator.integers(0, relations, facts)
        return Facts(*(torch.from_numpy(column.copy()) for column in (s, r, o, first, last)))

    def model(self, dtype: torch.dtype = torch.float64, seed: int | None = None) -> Model:
        """A model for evaluation, as after a training step: tables that begin with zeros would hide errors."""
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed, which spends a millisecond to note who called it, for GPUs that may be found later.
            torch.default_generator.manual_seed(self.seed if seed is None else seed)
            model = self.model_class(self.space(), self.options)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter), alpha=0.5)
        model = model.to(dtype).train(False)
        model.after_step()
        return model


def variants(model_class: type[Model]) -> list[Options]:
    """The option sets to try a model with: all combinations of its choices, at a small dimension.

    A choice is a field that is a Literal or a bool; a whole number with a least value is tried at that value, too.
    """
    fields = model_class.options_type.model_fields
    choices = {name: _choices(field) for name, field in fields.items() if name != "dimension"}
    choices = {name: values for name, values in choices.items() if len(values) > 1}
    sets: list[dict[str, Any]] = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    if len(sets) > MOST_VARIANTS:
        sets = [{}, *({name: value} for name, values in choices.items() for value in values[1:])]
    dimension = max(DIMENSION, _least(fields["dimension"]) or 1)
    valid, refused = [], ""
    for values in sets:
        try:
            valid.append(model_class.options_type(**{"dimension": dimension, **values}))
        except ValidationError as error:  # a model may say that two of its options do not go together
            first = error.errors()[0]
            refused = f"{'.'.join(map(str, first['loc'])) or 'all'}: {first['msg']}"
    if not valid:
        raise InputError(f"The options of {model_class.__name__} cannot be had ({refused}).", "Give each a default.")
    return valid


def _choices(field: FieldInfo) -> list[Any]:
    """The values of a field to try, its default first."""
    values = _values(field.annotation)
    if field.annotation is int and (least := _least(field)) is not None:
        values = [least]
    if field.is_required():
        return values
    return [field.default, *(value for value in values if value != field.default)]


def _values(annotation: Any) -> list[Any]:
    """All values of a Literal, a bool or a union of such; nothing for other types."""
    if annotation is bool:
        return [False, True]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        return [value for part in get_args(annotation) for value in _values(part)]
    return []


def _least(field: FieldInfo) -> int | None:
    """The least value that a field allows, if it says so."""
    bounds = [bound for rule in field.metadata if (bound := getattr(rule, "ge", None)) is not None]
    return max(bounds, default=None)
