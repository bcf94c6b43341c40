"""A recipe that suits a KB about which nothing is known but its size."""

from timeplex.kb.facts import TemporalKB
from timeplex.training.recipe import Recipe


def suitable(kb: TemporalKB, model: str = "timeplex-base") -> Recipe:
    """Small KBs get short embeddings, small batches and many epochs; large ones the paper's settings.

    The batch is a fifteenth of the facts (64 to 1500), so that an epoch has enough steps to learn from.
    """
    facts = len(kb.train)
    dimension = 50 if facts < 2_000 else 100 if facts < 15_000 else 200
    batch_size = min(1500, max(64, facts // 15))
    return Recipe(
        model=model,
        options={"dimension": dimension},
        batch_size=batch_size,
        epochs=100,
        l2=0.02 if facts < 15_000 else 0.01,
        time_weight=0.5,
    )
