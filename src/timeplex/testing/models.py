"""The laws that every model keeps, as functions: the tests run them, and `timeplex check-model` runs them for anyone.

A law takes a `Case` (a model class, its options, a small random world) and raises `Broken` with a sentence that says
what differs and by how much. The scores are compared in double precision, where a wrong formula cannot pass for
rounding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np
import torch
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from safetensors.torch import load, save
from torch import Tensor, nn

from timeplex.errors import InputError
from timeplex.models.base import Model, Options, Space, Span

DIMENSION = 4
"""Of the models that are tried: as small as formulas with halves and quarters of a vector allow."""

MOST_VARIANTS = 32
"""Up to this number of combinations of options all are tried; above, each choice once beside the defaults."""


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


TOLERANCE = 1e-8
"""How far two double-precision ways to one score may differ, relative to the largest score or 1."""


class Broken(AssertionError):  # noqa: N818 - it reads as what it says: a law is broken
    """A law does not hold; the message says what differs and by how much."""


Law = Callable[[Case], None]


def require(holds: bool, what: str) -> None:
    """Raise `Broken` with what is wrong unless it holds."""
    if not holds:
        raise Broken(what)


def agreement(case: Case) -> None:
    """score = objects[o] = subjects[s], at instants = times[t]; and so for every other candidate."""
    model, facts = case.model(), case.facts()
    s, r, o, t = facts.s, facts.r, facts.o, facts.first
    everyone, instants = torch.arange(case.sizes.entities), torch.arange(case.sizes.instants)
    rows = torch.arange(len(s))
    with torch.no_grad():
        at = model.score_at(s, r, o, t)
        _same("score at an instant and score_at", model.score(s, r, o, (t, t)), at)
        _same("times[t] and score_at", model.times(s, r, o)[rows, t], at)
        _same(
            "times and score_at of all instants",
            model.times(s, r, o),
            model.score_at(s[:, None], r[:, None], o[:, None], instants[None]),
        )
        objects = model.score_at(s[:, None], r[:, None], everyone[None], t[:, None])
        _same("objects_at and score_at of all objects", model.objects_at(s, r, t), objects)
        subjects = model.score_at(everyone[None], r[:, None], o[:, None], t[:, None])
        _same("subjects_at and score_at of all subjects", model.subjects_at(r, o, t), subjects)
        some = everyone.flip(0)[: 1 + case.sizes.entities // 2].repeat(2)  # in another order, and twice
        _same("objects_among and score_at", model.objects_among(s, r, t, some), objects[:, some])
        _same("subjects_among and score_at", model.subjects_among(r, o, t, some), subjects[:, some])
        score = model.score(s, r, o, facts.span)
        _same("objects[o] and score of a span", model.objects(s, r, facts.span)[rows, o], score)
        _same("subjects[s] and score of a span", model.subjects(r, o, facts.span)[rows, s], score)


def terms(case: Case) -> None:
    """The named parts that terms() gives have the shape of the score and sum to it."""
    model, (s, r, o, first, _) = case.model(), case.facts()
    with torch.no_grad():
        score = model.score_at(s[:, None], r[:, None], o[None], first[:, None])
        parts = model.terms(s[:, None], r[:, None], o[None], first[:, None])
    alike = all(part.shape == score.shape for part in parts.values())
    require(alike, f"a term does not have the shape {tuple(score.shape)} of the score")
    _same("the sum of the terms and score_at", sum(parts.values(), torch.zeros_like(score)), score)


def spans(case: Case) -> None:
    """The score of a span is the sum over its instants: φ(s, r, o, T) = Σ_{t ∈ T} φ(s, r, o, t)."""
    model, facts = case.model(), case.facts()
    s, r, o = facts.s, facts.r, facts.o
    answers = _answers(model, facts)
    for row in range(len(s)):
        # An instant at a time: the plainest way to say it, and none that a model could share.
        sums = {name: torch.zeros_like(answers[name][[row]]) for name in ("score", "objects", "subjects")}
        for instant in range(int(facts.first[row]), int(facts.last[row]) + 1):
            one = (s[[row]], r[[row]], o[[row]], torch.tensor([instant]))
            with torch.no_grad():
                sums["score"] += model.score_at(*one)
                sums["objects"] += model.objects_at(one[0], one[1], one[3])
                sums["subjects"] += model.subjects_at(*one[1:])
        for name, total in sums.items():
            _same(f"{name} of a span and its sum over the instants", answers[name][[row]], total)


def repetition(case: Case) -> None:
    """Evaluating twice gives the same numbers, and changes no parameter, buffer or argument."""
    model, facts = case.model(), case.facts()
    before = {name: tensor.clone() for name, tensor in _tensors(model)}
    first = _answers(model, facts)
    for name, argument, fresh in zip(Facts._fields, facts, case.facts(), strict=True):
        _equal(f"the argument {name} before and after an evaluation", fresh, argument)
    second = _answers(model, facts)
    for name, value in first.items():
        _equal(f"{name} evaluated twice", value, second[name])
    after = dict(_tensors(model))
    changed = sorted(set(after) ^ set(before))
    require(not changed, f"evaluating adds or removes {', '.join(changed)}")
    for name, tensor in before.items():
        _equal(f"{name} before and after an evaluation", tensor, after[name])


def batches(case: Case) -> None:
    """A row of an answer depends neither on the rest of the batch nor on how arguments are broadcast."""
    model, facts = case.model(), case.facts()
    together = _answers(model, facts)
    order = torch.randperm(len(facts.s), generator=torch.Generator().manual_seed(case.seed))
    shuffled = _answers(model, facts.rows(order))
    for name, value in together.items():
        _same(f"{name} of a batch and of the same batch in another order", value[order], shuffled[name])
    for row in range(len(facts.s)):
        for name, value in _answers(model, facts.rows(torch.tensor([row]))).items():
            _same(f"{name} of a row alone and in a batch", value, together[name][[row]])
    s, r, o, t = facts.s, facts.r, facts.o, facts.first
    n = len(s)
    table = [torch.arange(n).repeat_interleave(n), torch.arange(n).repeat(n)]  # every row with every column
    with torch.no_grad():
        for name, across in (("s", (1, 0, 0, 0)), ("r", (0, 1, 0, 0)), ("o", (0, 0, 1, 0)), ("t", (0, 0, 0, 1))):
            columns = list(zip((s, r, o, t), across, strict=True))
            broadcast = model.score_at(
                *(column[None] if is_across else column[:, None] for column, is_across in columns)
            )
            flat = model.score_at(*(column[table[is_across]] for column, is_across in columns))
            _same(f"score_at with {name} of shape (1, n) and the rest (n, 1), and flat", broadcast, flat.view(n, n))


def gradients(case: Case) -> None:
    """Gradients reach every parameter, and of entities and relations only the rows of the facts."""
    case = case.at_least(entities=5, relations=3, instants=2)
    model, facts = case.model(), case.facts()
    # One fact at all times and between two entities: what is read at a single time or in a loop may cancel.
    facts.s[0], facts.o[0], facts.first[0], facts.last[0] = 0, 1, 0, case.sizes.instants - 1
    weights = torch.rand(len(facts.s), generator=torch.Generator().manual_seed(case.seed), dtype=torch.double) + 0.5
    (model.score(facts.s, facts.r, facts.o, facts.span) * weights).sum().backward()  # type: ignore[no-untyped-call]
    by_relation = _growing(case, relations=1)
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        if parameter.numel() == 0:
            continue
        if gradient is None or not gradient.any():
            raise Broken(f"no gradient reaches {name}")
        require(bool(gradient.isfinite().all()), f"the gradient of {name} is not finite")
        if name in model.entity_tables:
            _only(name, gradient, torch.cat([facts.s, facts.o]))
        elif name in by_relation:
            _only(name, gradient, facts.r)


def saving(case: Case) -> None:
    """A new model with the saved tables of another gives bit by bit its scores."""
    model, facts = case.model(torch.float32), case.facts()
    other = case.model(torch.float32, seed=case.seed + 1)
    stored = save({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
    other.load_state_dict(load(stored))
    restored = _answers(other, facts)
    for name, value in _answers(model, facts).items():
        _equal(f"{name} before saving and after loading", value, restored[name])


def regularisers(case: Case) -> None:
    """factors() has a row for each fact, time_table() one for each instant; both can be penalised."""
    model, facts = case.model(), case.facts()
    factors = model.factors(facts.s, facts.r, facts.o, facts.first)
    for number, factor in enumerate(factors):
        fits = factor.shape[:1] == facts.s.shape
        require(fits, f"factor {number} has {len(factor)} rows for {len(facts.s)} facts")
    table = model.time_table()
    if table is not None and len(table) != case.sizes.instants:
        raise Broken(f"time_table() has {len(table)} rows for {case.sizes.instants} instants")
    steps = [] if table is None or len(table) < 2 else [table[1:] - table[:-1]]
    for penalised in (*factors, *steps):
        model.zero_grad()
        attached = penalised.requires_grad
        require(attached, "a regulariser has no gradient, because factors() or time_table() is detached")
        (penalised.square().sum() + penalised.abs().pow(3).sum()).backward(retain_graph=True)  # type: ignore[no-untyped-call]
        reached = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        finite = all(gradient.isfinite().all() for gradient in reached)
        require(finite, "the gradient of a regulariser is not finite")
        changes = not penalised.numel() or any(gradient.any() for gradient in reached)
        require(changes, "the gradient of a regulariser is zero everywhere")


def steps(case: Case) -> None:
    """after_step() twice is after_step() once, and the scores stay finite."""
    once, twice = case.model(), case.model()
    twice.after_step()
    after = dict(_tensors(twice))
    for name, tensor in _tensors(once):
        _same(f"{name} after after_step() once and twice", tensor, after[name], tolerance=1e-6)
    for name, value in _answers(twice, case.facts()).items():
        require(bool(value.isfinite().all()), f"{name} after after_step() is not finite")


def shapes(case: Case) -> None:
    """Answers are finite and of shape (n,), (n, entities) or (n, instants), also for n = 0."""
    facts, sizes = case.facts(), case.sizes
    for dtype in (torch.float32, torch.float64):
        model = case.model(dtype)
        for few in (facts, facts.rows(torch.empty(0, dtype=torch.long))):
            n = len(few.s)
            rows = {"score": (n,), "objects": (n, sizes.entities), "subjects": (n, sizes.entities)}
            rows |= {"times": (n, sizes.instants), "score_at": (n,), "objects_at": rows["objects"]}
            rows |= {"subjects_at": rows["subjects"]}
            for name, value in _answers(model, few).items():
                shape = tuple(value.shape)
                require(shape == rows[name], f"{name} of {n} queries has shape {shape}, not {rows[name]}")
                require(value.dtype == dtype, f"{name} is {value.dtype} for tables of {dtype}")
                require(bool(value.isfinite().all()), f"{name} is not finite")


def declarations(case: Case) -> None:
    """What the class declares is so: entity_tables, uses_time and instant_groups()."""
    case = case.at_least(instants=2)
    model, facts = case.model(), case.facts()
    growing = _growing(case, entities=1)
    said = set(model.entity_tables)
    require(growing == said, f"entity_tables is {sorted(said)}, but rows for entities have {sorted(growing)}")
    for name, rows in ((name, len(model.get_parameter(name))) for name in model.entity_tables):
        require(rows == case.sizes.entities, f"{name} has {rows} rows for {case.sizes.entities} entities")
    with torch.no_grad():
        times = model.times(facts.s, facts.r, facts.o)
    groups = model.instant_groups()
    if groups is None:
        groups = torch.arange(case.sizes.instants) if model.uses_time else torch.zeros(case.sizes.instants).long()
    if groups.shape != (case.sizes.instants,) or (groups.diff() < 0).any():
        raise Broken(f"instant_groups() is not one rising number for each of {case.sizes.instants} instants")
    first = torch.searchsorted(groups, groups)
    _same("scores at two instants that the model says it cannot tell apart", times, times[:, first])
    differs = groups[0] == groups[-1] or bool((times != times[:, :1]).any())
    require(bool(differs), "the score is the same at all times, though uses_time is true")
    _keeps_scores_with_fewer_rows(model, facts)


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        *(agreement, terms, spans, repetition, batches, gradients),
        *(saving, regularisers, steps, shapes, declarations),
    )
}
"""Every law by its name, in the order in which they are told."""


@dataclass(frozen=True)
class Result:
    """Whether a law held in all examples; if not, what was wrong in the first that broke it."""

    law: str
    passed: bool
    message: str = ""


def check_model(
    model: type[Model], options: Sequence[Options] | None = None, examples: int = 25, seed: int = 0
) -> list[Result]:
    """Try every law on random examples; a result a law, with what was wrong if it was broken.

    The examples take the sets of options (all `variants` if none are given) in turn and each at least once.

    >>> from timeplex.models import MODELS
    >>> all(result.passed for result in check_model(MODELS["complex"], examples=4))
    True
    """
    options = options or variants(model)
    cases = [
        Case.random(model, options[number % len(options)], seed + number)
        for number in range(max(examples, len(options)))
    ]
    return [result_of(name, law, cases) for name, law in LAWS.items()]


def result_of(name: str, law: Callable[[Any], None], cases: Sequence[object]) -> Result:
    """Whether a law holds in all cases."""
    for case in cases:
        try:
            law(case)
        except Exception as error:  # what a stranger's model raises can be anything
            what = str(error) if isinstance(error, Broken) else f"it raises {type(error).__name__}: {error}"
            return Result(name, False, f"{what} ({case})")
    return Result(name, True)


# What the laws are written in ---------------------------------------------------------------------------------


def _answers(model: Model, facts: Facts) -> dict[str, Tensor]:
    """All that a model can be asked about facts, by the name of the method."""
    s, r, o, t, span = facts.s, facts.r, facts.o, facts.first, facts.span
    with torch.no_grad():
        return {
            "score": model.score(s, r, o, span),
            "objects": model.objects(s, r, span),
            "subjects": model.subjects(r, o, span),
            "times": model.times(s, r, o),
            "score_at": model.score_at(s, r, o, t),
            "objects_at": model.objects_at(s, r, t),
            "subjects_at": model.subjects_at(r, o, t),
        }


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Parameters and buffers, those that are not saved too."""
    return [*model.named_parameters(), *model.named_buffers()]


def _growing(case: Case, **more: int) -> set[str]:
    """The parameters that get longer with one more entity, relation or instant: their tables, whatever their names."""
    small = dict(case.model().named_parameters())
    large = dict(case.more(**more).model().named_parameters())
    return {name for name, table in small.items() if len(large[name]) != len(table)}


def _keeps_scores_with_fewer_rows(model: Model, facts: Facts) -> None:
    """Training by rows cuts the entity tables down to the rows in use; score_at must not notice."""
    with torch.no_grad():
        whole = model.score_at(facts.s, facts.r, facts.o, facts.first)
        used, where = torch.unique(torch.cat([facts.s, facts.o]), return_inverse=True)
        for name in model.entity_tables:
            setattr(model, name, nn.Parameter(getattr(model, name)[used]))
        s, o = where.chunk(2)
        _same("score_at with and without the rows of other entities", whole, model.score_at(s, facts.r, o, facts.first))


def _same(what: str, one: Tensor, other: Tensor, tolerance: float = TOLERANCE) -> None:
    """Two ways to the same numbers."""
    if one.shape != other.shape:
        raise Broken(f"{what} have shapes {tuple(one.shape)} and {tuple(other.shape)}")
    if one.numel() == 0:
        return
    one, other = one.detach(), other.detach()
    scale = max(1.0, float(one.abs().max()), float(other.abs().max()))
    difference = float((one - other).abs().max())
    if not difference <= tolerance * scale:  # so that nan is a difference, too
        raise Broken(f"{what} differ by {difference:.3g}, with values up to {scale:.3g}")


def _equal(what: str, one: Tensor, other: Tensor) -> None:
    """The same numbers, bit by bit."""
    if not torch.equal(one, other):
        _same(what, one, other, tolerance=0.0)
        raise Broken(f"{what} differ")


def _only(name: str, gradient: Tensor, used: Tensor) -> None:
    """Rows of a table that no fact uses have no gradient."""
    others = torch.ones(len(gradient), dtype=torch.bool)
    others[used] = False
    if gradient[others].any():
        row = int(torch.nonzero(others & gradient.flatten(1).any(1))[0])
        raise Broken(f"a gradient reaches row {row} of {name}, which no fact uses")
