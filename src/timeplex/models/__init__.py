"""What scores a fact: the contract every model keeps (`base`), the registry, and the models."""

from timeplex.models import de_simple, hyte, static, ta, timeplex, tnt_complex
from timeplex.models.base import MODELS, Model, Options, Space, register

__all__ = ["MODELS", "Model", "Options", "Space", "de_simple", "hyte", "register", "static", "ta", "timeplex"]
__all__ += ["tnt_complex"]

for name in sorted(MODELS):  # they are listed by name, whatever file they come from
    MODELS[name] = MODELS.pop(name)
