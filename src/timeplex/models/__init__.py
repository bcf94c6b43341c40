"""What scores a fact: the contract every model keeps (`base`), the registry, and one file a model."""

from timeplex.models import complex, de_simple, distmult, hyte, simple, ta, timeplex, tnt_complex, transe
from timeplex.models.base import MODELS, Model, Options, Space, register

__all__ = [
    "MODELS",
    "Model",
    "Options",
    "Space",
    "complex",
    "de_simple",
    "distmult",
    "hyte",
    "register",
    "simple",
    "ta",
    "timeplex",
    "tnt_complex",
    "transe",
]
