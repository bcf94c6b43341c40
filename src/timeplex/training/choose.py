"""A recipe that suits a KB about which nothing is known but its size."""

from typing import Any

from timeplex.kb.facts import TemporalKB
from timeplex.training.recipe import Phase2, Recipe

FULL, BASE = "timeplex", "timeplex-base"
"""The full model is the base model with all gadgets."""

GADGETS: dict[str, dict[str, Any]] = {
    "recurrence": {"try_weights": (0.3, 1.0, 3.0, 5.0)},
    "pair": {"form": "published-code", "try_weights": (0.3, 1.0, 3.0)},
}
"""Their weights differ much from KB to KB, so that dev decides. The form of pair is the one that did better on YAGO11k,
and on the sample."""


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
