"""No test here leaves a model behind in the registry."""

from tests.registry import registry

__all__ = ["registry"]
