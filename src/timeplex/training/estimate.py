"""About how long a training will take, from some batches and some looks at dev; nothing of the training is changed."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from timeplex.evaluation.ranking import rank
from timeplex.gadgets import Gadget
from timeplex.models.scorer import DIRECTIONS
from timeplex.training.batches import random
from timeplex.training.gadget_training import GadgetTrainer
from timeplex.training.loop import Trainer
from timeplex.training.objective import Objective

ENOUGH = 0.4
"""Seconds of work after which no more is measured."""

FEW = 32
"""Facts that a measurement begins with."""


class Estimate(NamedTuple):
    """Seconds that an epoch takes, and those that the gadgets take in all; each with the looks at dev."""

    epoch: float
    gadgets: float


def estimate(trainer: Trainer) -> Estimate:
    """About how long the training takes on this machine as busy as it is now."""
    with _unchanged(trainer):
        epoch = 0.0 if trainer.base is not None else _batches(trainer) + _look(trainer) / trainer.recipe.validate_every
        return Estimate(epoch, _gadgets(trainer) if trainer.recipe.gadgets else 0.0)


@contextmanager
def _unchanged(trainer: Trainer) -> Iterator[None]:
    """Leave the model, its buffers and the random numbers as they were."""
    model = trainer.model
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.random.fork_rng(devices=[trainer.device] if trainer.device.type == "cuda" else []):
        yield
    model.zero_grad(set_to_none=True)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(before[name])


def _batches(trainer: Trainer) -> float:
    """The loss and gradient of all batches of an epoch.

    The first batch is slower than others, and is left out. Where tables depend on the instant, so is a batch with
    the many instants of a distant past: that is why the median is taken.
    """
    objective = Objective(trainer.model, trainer.recipe, len(trainer.setup.kb.relations), trainer.precision.dtype)
    candidates = trainer.negatives.draw(random(trainer.recipe.seed), trainer.device)
    took: list[float] = []
    for number in range(min(4, len(trainer.batches))):
        if sum(took[1:]) > ENOUGH:
            break
        start = time.perf_counter()
        objective(trainer.batches.batch(0, number, trainer.device), candidates).backward()  # type: ignore[no-untyped-call]
        took.append(time.perf_counter() - start)
    return statistics.median(took[1:] or took) * len(trainer.batches)


def _gadgets(trainer: Trainer) -> float:
    """Phase 2: the gadgets are made, learn in groups, and are looked at on dev with each weight that is to be tried."""
    start = time.perf_counter()
    second, settings = GadgetTrainer(trainer.setup, trainer.model, trainer.device), trainer.recipe.phase2
    gadgets = second.new_gadgets()
    seconds, facts = time.perf_counter() - start, len(trainer.setup.train)
    for group in second.groups(gadgets):
        batch = min(settings.batch_size, facts)
        learning = _scaled(lambda rows, group=group: second.trial(group, rows), batch) * facts / batch  # type: ignore[misc]
        tried = [len({gadget.options.weight, *gadget.options.try_weights}) for gadget in group.values()]
        looks = settings.epochs + sum(number for number in tried if number > 1)
        seconds += settings.epochs * learning + looks * _look(trainer, group)
    return seconds + _look(trainer, gadgets)


def _look(trainer: Trainer, gadgets: dict[str, Gadget] | None = None) -> float:
    """A look at dev; not counted where a single question takes long, because every instant has its own table."""
    setup = trainer.setup
    if not len(setup.kb.valid) or trainer.model.by_instant:
        return 0.0
    queries, scorer = setup.dev_task.queries, setup.scorer(trainer.model, gadgets)

    def ranks(rows: int) -> None:
        for direction in DIRECTIONS:
            rank(scorer, queries.rows(0, rows), {}, direction, entities=len(setup.kb.entities), device=trainer.device)

    return _scaled(ranks, len(queries))


def _scaled(work: Callable[[int], object], whole: int) -> float:
    """About how long `work(whole)` takes, from less of it: some rows, and more, until that takes a while."""
    rows = FEW
    while True:
        rows = min(rows, whole)
        start = time.perf_counter()
        work(rows)
        took = time.perf_counter() - start
        if rows == whole or took > ENOUGH:
            return took * whole / rows
        rows *= 4
