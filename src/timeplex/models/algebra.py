"""Complex vectors stored real: the last axis holds d real parts, then d imaginary parts.

With this layout Re⟨q, ē⟩ = q_re·e_re + q_im·e_im is the ordinary dot product of the rows, so that a score against all
entities is one real matrix product.
"""

from typing import Any

import torch
from torch import Tensor


def broadcast(*tensors: Tensor) -> list[Tensor]:
    """The tensors at their common shape."""
    return list(torch.broadcast_tensors(*tensors))  # type: ignore[no-untyped-call]


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a ∘ b, the complex product, element by element; arguments broadcast."""
    product: Tensor = _Product.apply(a, b, False)  # type: ignore[no-untyped-call]
    return product


def multiply_conjugate(a: Tensor, b: Tensor) -> Tensor:
    """ā ∘ b."""
    product: Tensor = _Product.apply(a, b, True)  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    """a ∘ b, or ā ∘ b if `conjugated`. The gradients are such products, too; autograd would take more passes.

    With g the gradient of the product: of a ∘ b they are b̄ ∘ g and ā ∘ g, of ā ∘ b they are ḡ ∘ b and a ∘ g.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, conjugated: bool) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.conjugated = conjugated
        return _product(a, b, conjugated)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (a, b), gradient = ctx.saved_tensors, gradients[0]
        of_a = of_b = None
        if ctx.needs_input_grad[0]:
            of_a = (_product(gradient, b, True) if ctx.conjugated else _product(b, gradient, True)).sum_to_size(a.shape)
        if ctx.needs_input_grad[1]:
            of_b = _product(a, gradient, not ctx.conjugated).sum_to_size(b.shape)
        return of_a, of_b, None


def _product(a: Tensor, b: Tensor, conjugated: bool) -> Tensor:
    (a_re, a_im), (b_re, b_im) = a.chunk(2, dim=-1), b.chunk(2, dim=-1)
    # The common shape takes longer to find than one query's product to compute.
    shape = a.shape if a.shape == b.shape else torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    product = a.new_empty(shape)
    re, im = product.chunk(2, dim=-1)
    sign = -1 if conjugated else 1
    torch.mul(a_re, b_re, out=re).addcmul_(a_im, b_im, value=-sign)
    torch.mul(a_re, b_im, out=im).addcmul_(a_im, b_re, value=sign)
    return product


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Re⟨a, b̄⟩ = Σ a·b over the last axis."""
    return (a * b).sum(-1)
