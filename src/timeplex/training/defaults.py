"""What is trained if little is said: dev facts for a KB without any, and a recipe that suits its size."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from timeplex.errors import InputError
from timeplex.kb.facts import TemporalKB
from timeplex.kb.split import split_randomly
from timeplex.models.loading import names_file, own_model
from timeplex.training import recipe as recipes
from timeplex.training.recipe import Phase2, Recipe

FULL, BASE = "timeplex", "timeplex-base"
"""The full model is the base model with all gadgets."""

GADGETS: dict[str, dict[str, Any]] = {
    "recurrence": {"try_weights": (0.3, 1.0, 3.0, 5.0)},
    "pair": {"form": "published-code", "try_weights": (0.3, 1.0, 3.0)},
}
"""Their weights differ much from KB to KB, so that dev decides. The form of pair is the one that did better on YAGO11k,
and on the sample."""


LEAST_FACTS = 20
"""A KB with fewer facts is not split."""


def with_dev(kb: TemporalKB) -> TemporalKB:
    """The KB itself if it has dev facts or hardly any facts; else split at random, 8 : 1 : 1, with seed 0."""
    if len(kb.valid) or len(kb) < LEAST_FACTS:
        return kb
    return split_randomly(kb, valid=0.1, test=0.1, seed=0)


def recipe_for(
    kb: TemporalKB,
    model: str | None = None,
    recipe: Recipe | str | Path | None = None,
    settings: Iterable[str] | Mapping[str, Any] = (),
) -> Recipe:
    """A recipe, one by its name or path, or one that suits the KB (for a model, if it is named); with some settings.

    `model` may be `path/to/file.py:name`, also beside a file: no recipe can name one.
    """
    own = own_model(model) if model is not None and names_file(model) else None
    if own is not None and own.name == FULL:
        raise InputError(f"The name {FULL!r} means {BASE} with all gadgets.", "Register your model by another name.")
    if recipe is not None and model is not None and own is None:
        raise InputError("Both a recipe and a model are given.", "A recipe names its model: leave out --model.")
    name = own.name if own is not None else model or FULL
    if recipe is None:
        recipe = suitable(kb, name)
    elif not isinstance(recipe, Recipe):
        recipe = recipes.read(recipe, own)
    return recipe.with_settings(settings)


def suitable(kb: TemporalKB, model: str = FULL) -> Recipe:
    """Small KBs get short embeddings, small batches and many epochs; large ones the paper's settings.

    The batch is a fifteenth of the facts (64 to 1500), so that an epoch has enough steps to learn from.
    """
    facts, full = len(kb.train), model == FULL
    dimension = 50 if facts < 2_000 else 100 if facts < 15_000 else 200
    batch_size = min(1500, max(64, facts // 15))
    return Recipe(
        model=BASE if full else model,
        options={"dimension": dimension},
        batch_size=batch_size,
        epochs=100,
        l2=0.02 if facts < 15_000 else 0.01,
        time_weight=0.5,
        gadgets=GADGETS if full else {},
        phase2=Phase2(together=True, epochs=3) if full else Phase2(),
    )
