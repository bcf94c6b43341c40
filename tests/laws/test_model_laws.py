"""The laws themselves: each is broken by a model with the mistake that it is for."""

from typing import Any, ClassVar, Literal

import pytest
import torch
from pydantic import model_validator
from torch import Tensor, nn

from timeplex.errors import InputError
from timeplex.models import Model, Options, Space
from timeplex.models.base import Span
from timeplex.models.static import ComplEx
from timeplex.models.timeplex import TimePlex
from timeplex.testing.models import LAWS, Broken, Case, Sizes, variants


class MeanOfSpan(TimePlex):
    def score(self, s: Tensor, r: Tensor, o: Tensor, span: Span) -> Tensor:
        return super().score(s, r, o, span) / (span[1] - span[0] + 1)


class BeginOfSpan(TimePlex):
    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        return super().subjects(r, o, (span[0], span[0]))


class OtherGold(TimePlex):
    """The gold is scored by another function than the candidates."""

    def score(self, s: Tensor, r: Tensor, o: Tensor, span: Span) -> Tensor:
        return super().score(s, r, o, span) + 1e-6


class Counting(ComplEx):
    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        self.register_buffer("calls", torch.zeros(()))

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        self.get_buffer("calls").add_(1)
        return super().times(s, r, o)


class Restless(ComplEx):
    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        return super().times(s, r, o) + torch.rand(())


class SpoilsArgument(ComplEx):
    def objects_at(self, s: Tensor, r: Tensor, t: Tensor) -> Tensor:
        scores = super().objects_at(s, r, t)
        s.zero_()
        return scores


class SeesBatch(ComplEx):
    def objects_at(self, s: Tensor, r: Tensor, t: Tensor) -> Tensor:
        scores = super().objects_at(s, r, t)
        return scores - scores.mean()


class Transposed(ComplEx):
    """Takes a square of scores for its mirror image."""

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        scores = super().score_at(s, r, o, t)
        return scores.T if scores.shape == (3, 3) else scores


class Unused(ComplEx):
    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        self.forgotten = nn.Parameter(torch.zeros(3))


class AllRows(ComplEx):
    def score(self, s: Tensor, r: Tensor, o: Tensor, span: Span) -> Tensor:
        return super().score(s, r, o, span) - self.entity.logsumexp(0).sum()


class AllRelations(ComplEx):
    def score(self, s: Tensor, r: Tensor, o: Tensor, span: Span) -> Tensor:
        return super().score(s, r, o, span) - self.relation.sum()


class NotSaved(ComplEx):
    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        self.register_buffer("offset", torch.rand(space.entities), persistent=False)

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        return super().objects(s, r, span) + self.get_buffer("offset")


class DetachedFactors(ComplEx):
    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        return [factor.detach() for factor in super().factors(s, r, o, t)]


class WholeTableAsFactor(ComplEx):
    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        return [torch.cat([self.entity, self.entity])]


class PartOfTimeTable(TimePlex):
    def time_table(self) -> Tensor:
        return self.time[1:]


class ShrinkingStep(ComplEx):
    def after_step(self) -> None:
        with torch.no_grad():
            self.relation.mul_(0.9)


class ExplodingStep(ComplEx):
    def after_step(self) -> None:
        with torch.no_grad():
            self.relation.fill_(torch.inf)


class WrongShape(ComplEx):
    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        return super().times(s, r, o)[:, :1].expand(-1, self.space.instants + 1)


class NoEmptyBatch(ComplEx):
    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        return torch.stack([super(NoEmptyBatch, self).subjects(*row)[0] for row in self._rows(r, o, span)])

    def _rows(self, r: Tensor, o: Tensor, span: Span) -> list[Any]:
        return [(r[[i]], o[[i]], (span[0][[i]], span[1][[i]])) for i in range(len(r))]


class SinglePrecision(ComplEx):
    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        return super().objects(s, r, span).float()


class UndeclaredTable(TimePlex):
    def __init__(self, space: Space, options: Any) -> None:
        super().__init__(space, options)
        self.second = self.table(space.entities, 2)


class NoSuchTable(ComplEx):
    entity_tables = ("entity", "relation")


class TimelessButTimed(TimePlex):
    uses_time: ClassVar[bool] = False


class TimedButTimeless(ComplEx):
    uses_time: ClassVar[bool] = True


class GroupsThatDiffer(TimePlex):
    def instant_groups(self) -> Tensor:
        return torch.zeros(self.space.instants, dtype=torch.long)


class ForgetsATerm(TimePlex):
    def terms(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> dict[str, Tensor]:
        parts = super().terms(s, r, o, t)
        del parts["object, relation, time"]
        return parts


class NarrowTerm(ComplEx):
    def terms(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> dict[str, Tensor]:
        return super().terms(s, r, o, t) | {"nothing": torch.zeros(())}


class KnowsAllEntities(ComplEx):
    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        return super().score_at(s, r, o, t) - self.entity.sum()


MISTAKES: list[tuple[str, type[Model], str]] = [
    ("agreement", MeanOfSpan, "objects[o] and score of a span differ by"),
    ("agreement", OtherGold, "score at an instant and score_at differ by 1e-06"),
    ("terms", ForgetsATerm, "the sum of the terms and score_at differ by"),
    ("terms", NarrowTerm, "a term does not have the shape (3, 3) of the score"),
    ("spans", MeanOfSpan, "score of a span and its sum over the instants differ by"),
    ("spans", BeginOfSpan, "subjects of a span and its sum over the instants differ by"),
    ("repetition", Counting, "calls before and after an evaluation differ by 2"),
    ("repetition", Restless, "times evaluated twice differ by"),
    ("repetition", SpoilsArgument, "the argument s before and after an evaluation differ"),
    ("batches", SeesBatch, "objects_at of a row alone and in a batch differ by"),
    ("batches", Transposed, "score_at with s of shape (1, n)"),
    ("gradients", Unused, "no gradient reaches forgotten"),
    ("gradients", AllRows, "of entity, which no fact uses"),
    ("gradients", AllRelations, "of relation, which no fact uses"),
    ("saving", NotSaved, "objects before saving and after loading differ by"),
    ("regularisers", DetachedFactors, "is detached"),
    ("regularisers", WholeTableAsFactor, "factor 0 has 12 rows for 3 facts"),
    ("regularisers", PartOfTimeTable, "time_table() has 4 rows for 5 instants"),
    ("steps", ShrinkingStep, "relation after after_step() once and twice differ by"),
    ("steps", ExplodingStep, "relation after after_step() once and twice differ by nan"),
    ("shapes", WrongShape, "times of 3 queries has shape (3, 6), not (3, 5)"),
    ("shapes", SinglePrecision, "objects is torch.float32 for tables of torch.float64"),
    ("declarations", UndeclaredTable, "but rows for entities have ['entity', 'second']"),
    ("declarations", NoSuchTable, "entity_tables is ['entity', 'relation']"),
    ("declarations", TimelessButTimed, "that the model says it cannot tell apart differ by"),
    ("declarations", TimedButTimeless, "the score is the same at all times"),
    ("declarations", GroupsThatDiffer, "that the model says it cannot tell apart differ by"),
    ("declarations", KnowsAllEntities, "with and without the rows of other entities differ by"),
]


def case_of(model: type[Model]) -> Case:
    return Case(model, variants(model)[0], Sizes(entities=6, relations=4, instants=5, facts=3), seed=3)


@pytest.mark.parametrize(("law", "model", "message"), MISTAKES, ids=lambda value: getattr(value, "__name__", None))
def test_a_mistake_breaks_its_law(law: str, model: type[Model], message: str) -> None:
    with pytest.raises(Broken) as broken:
        LAWS[law](case_of(model))
    assert message in str(broken.value)


def test_a_batch_of_none_must_work() -> None:
    with pytest.raises(RuntimeError, match="non-empty"):
        LAWS["shapes"](case_of(NoEmptyBatch))


@pytest.mark.parametrize("model", [ComplEx, TimePlex])
def test_without_a_mistake_no_law_is_broken(model: type[Model]) -> None:
    for law in LAWS.values():
        law(case_of(model))


def test_every_law_has_its_mistake() -> None:
    assert {law for law, _, _ in MISTAKES} == set(LAWS)


# Option sets


class Many(Options):
    """More switches than can be tried together."""

    a: bool = False
    b: bool = False
    c: bool = True
    d: bool = False
    e: bool = False
    f: bool | None = None


class Picky(Options):
    """Two switches that do not go together, and a dimension that is not small."""

    a: bool = False
    b: bool = False

    @model_validator(mode="after")
    def _not_both(self) -> "Picky":
        if self.a and self.b:
            raise ValueError("not both")
        return self


class Demanding(Options):
    """A field without a default."""

    needed: str


class Asking(Options):
    """A choice without a default."""

    kind: Literal["a", "b"]


def with_options(options: type[Options]) -> type[Model]:
    return type("Mine", (ComplEx,), {"options_type": options})


def test_of_many_switches_each_is_tried_once() -> None:
    tried = [each.model_dump(exclude={"dimension", "spread"}) for each in variants(with_options(Many))]
    changed = [{name for name, value in each.items() if value != Many.model_fields[name].default} for each in tried]
    assert changed == [set(), {"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"f"}, {"f"}]


def test_options_that_do_not_go_together_are_left_out() -> None:
    tried = [(each.a, each.b) for each in variants(with_options(Picky)) if isinstance(each, Picky)]
    assert tried == [(False, False), (False, True), (True, False)]


def test_options_without_defaults_are_an_error() -> None:
    with pytest.raises(InputError, match=r"options of Mine .*needed: Field required\)\. Give each a default\."):
        variants(with_options(Demanding))


def test_a_choice_needs_no_default() -> None:
    assert [each.model_dump()["kind"] for each in variants(with_options(Asking))] == ["a", "b"]
