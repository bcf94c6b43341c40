"""Models whose tables are set by hand, for tests that a person can check."""

from typing import Any

import torch
from torch import Tensor

from timeplex.models import MODELS, Model, Space


def by_hand(name: str, space: Space, tables: dict[str, list[list[float]]], **options: Any) -> Model:
    """The model of that name with these rows in its tables; a table that is not given, or of another shape, fails."""
    model_class = MODELS[name]
    model = model_class(space, model_class.options_type(**options))
    assert set(tables) == set(dict(model.named_parameters())), "each table is given"
    with torch.no_grad():
        for table, rows in tables.items():
            values = torch.tensor(rows)
            parameter = model.get_parameter(table)
            assert values.shape == parameter.shape, f"{table} has {tuple(parameter.shape)}"
            parameter.copy_(values)
    return model.eval()


def facts(*rows: tuple[int, ...]) -> list[Tensor]:
    """Rows of numbers as columns: [(s, r, o, t), …] → s, r, o, t."""
    return list(torch.tensor(rows).T)


def near(values: Tensor, expected: Any) -> bool:
    """Equal up to rounding in single precision; shapes must be equal, too."""
    wanted = torch.tensor(expected, dtype=values.dtype)
    return values.shape == wanted.shape and torch.allclose(values, wanted, atol=1e-5)
