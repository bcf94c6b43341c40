"""Small random KBs with models that were never trained: what is asked of them can be computed by hand."""

import random
from pathlib import Path

import torch
from tests.builders import facts_of, kb_of

from timeplex.kb import spans
from timeplex.kb.facts import Facts
from timeplex.training.experiment import Experiment
from timeplex.training.recipe import Recipe
from timeplex.training.run import TrainedRun

MODELS = ("timeplex-base", "tnt-complex", "complex", "de-simple")
GADGETS = {"recurrence": {"weight": 2.0}, "pair": {"weight": 3.0, "form": "published-code"}}


def facts(draw: random.Random, count: int, entities: int, relations: int) -> Facts:
    """Facts with all kinds of spans, few names, so that questions have several answers."""
    rows = []
    for _ in range(count):
        begin, end = sorted(draw.sample(range(1990, 2004), 2))
        span = draw.choice([(begin, end), (begin, begin), (begin, spans.OPEN_END), (spans.OPEN_BEGIN, end)])
        rows.append((draw.randrange(entities), draw.randrange(relations), draw.randrange(entities), *span))
    return facts_of(rows)


def random_run(seed: int, *, entities: int = 7, relations: int = 2, count: int = 25) -> TrainedRun:
    """A run whose model has random values; the last entity is never in train."""
    draw = random.Random(seed)
    splits = {
        "train": facts(draw, count, entities - 1, relations),
        "valid": facts(draw, 6, entities - 1, relations),
        "test": facts(draw, 6, entities, relations),
    }
    kb = kb_of(splits, entities, relations, name="random")
    recipe = Recipe(
        model=draw.choice(MODELS),
        options={"dimension": 4, "spread": draw.choice([0.1, 0.7])},
        inverse=draw.random() < 0.5,
        gadgets=draw.choice([{}, GADGETS]),
        timeline=draw.choice(["observed", "calendar"]),
        seed=seed % 1000,
    )
    setup = Experiment(kb, recipe)
    model, gadgets = setup.new_model(), setup.new_gadgets()
    for each in (model, *gadgets.values()):
        each.train(False).requires_grad_(False)
    torch.manual_seed(seed)
    if gadgets:
        gadgets["pair"].weight.normal_()  # type: ignore[operator, union-attr]
    return TrainedRun(Path("nowhere"), setup, model, gadgets)
