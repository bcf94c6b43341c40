"""The numbers of the paper, by table: `published.toml`."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def published() -> dict[str, Any]:
    """Everything: table → data set → model → number, or metric → number; percent, as printed."""
    return tomllib.loads(files("timeplex.reproduce").joinpath("published.toml").read_text(encoding="utf-8"))


def printed(table: str, *path: str) -> float | None:
    """The number at a path of a table; None if the paper has none."""
    values: Any = published()[table]
    for step in path:
        values = values.get(step, {})
    return None if values == {} else float(values)
