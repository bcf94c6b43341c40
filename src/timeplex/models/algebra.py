"""Complex vectors stored real: the last axis holds d real parts, then d imaginary parts.

With this layout Re⟨q, ē⟩ = q_re·e_re + q_im·e_im is the ordinary dot product of the rows, so that a score against all
entities is one real matrix product.
"""

import torch
from torch import Tensor


def broadcast(*tensors: Tensor) -> list[Tensor]:
    """The tensors at their common shape."""
    return list(torch.broadcast_tensors(*tensors))  # type: ignore[no-untyped-call]


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The complex product, element by element; arguments broadcast."""
    a_re, a_im = a.chunk(2, dim=-1)
    b_re, b_im = b.chunk(2, dim=-1)
    re = torch.addcmul(a_re * b_re, a_im, b_im, value=-1)
    im = torch.addcmul(a_re * b_im, a_im, b_re)
    return torch.cat([re, im], dim=-1)


def conjugate(a: Tensor) -> Tensor:
    """The complex conjugate."""
    re, im = a.chunk(2, dim=-1)
    return torch.cat([re, -im], dim=-1)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Re⟨a, b̄⟩ = Σ a·b over the last axis."""
    return (a * b).sum(-1)
