"""What keeps embeddings small and time smooth."""

import torch
from torch import Tensor
from torch.linalg import vector_norm


def squared(factors: list[Tensor]) -> Tensor:
    """Mean over the facts of Σ x² over all embeddings of a fact: each (n, width)."""
    return torch.stack([vector_norm(factor) for factor in factors]).square().sum() / len(factors[0])


def cubed(factors: list[Tensor]) -> Tensor:
    """Mean over the facts of Σ |x|³, with |x| the modulus of (re, im) as the tables store it (N3)."""
    total = factors[0].new_zeros(())
    for factor in factors:
        re, im = factor.chunk(2, dim=-1)
        # A little is added because the root has no gradient at 0.
        total = total + (re.square() + im.square() + 1e-12).sqrt().pow(3).sum()
    return total / len(factors[0])


def roughness(time: Tensor, power: int) -> Tensor:
    """Λ_p: mean over consecutive instants of Σ |t' − t|ᵖ with complex moduli (Lacroix et al. 2020)."""
    if len(time) < 2:
        return time.new_zeros(())
    re, im = (time[1:] - time[:-1]).chunk(2, dim=-1)
    return (re.square() + im.square() + 1e-12).sqrt().pow(power).sum() / (len(time) - 1)
