"""Names for things that recipes, options and users call by name: models, gadgets, rules of the audit."""

from collections.abc import Callable
from typing import ClassVar, Protocol, TypeVar


class Named(Protocol):
    """What has a name once it is registered."""

    name: ClassVar[str]


Kind = TypeVar("Kind", bound=Named)


def register_in(registry: dict[str, type[Kind]], name: str) -> Callable[[type[Kind]], type[Kind]]:
    """A decorator that puts a class into a registry under a name.

    A user's file may be run again, and so replace its own; but what comes with timeplex keeps its names, so that no
    recipe means something else than it says.
    """

    def add(kind: type[Kind]) -> type[Kind]:
        taken = registry.get(name)
        if taken is not None and taken.__module__.startswith("timeplex.") and taken.__module__ != kind.__module__:
            raise ValueError(f"the name {name!r} belongs to {taken.__module__}, choose another")
        kind.name = name
        registry[name] = kind
        return kind

    return add
