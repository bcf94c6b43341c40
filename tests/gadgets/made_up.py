"""The synthetic KB as evidence."""

from functools import lru_cache

from timeplex.datasets.synthetic import SyntheticSpec, generate
from timeplex.gadgets import Evidence


@lru_cache(maxsize=4)
def synthetic_evidence(facts: int, world: SyntheticSpec, seed: int = 5) -> tuple[Evidence, dict[str, int]]:
    """The evidence of a made-up KB, and the numbers of its relations."""
    kb = generate(facts, seed, world=world)
    evidence = Evidence.of(kb.train, len(kb.entities), len(kb.relations), kb.timeline().instants)
    return evidence, {name: kb.relations.id(name) for name in kb.relations}
