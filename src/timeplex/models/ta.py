"""TA (García-Durán et al. 2018): the relation and the digits of the date are read by an LSTM."""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from timeplex.models import base
from timeplex.models.algebra import broadcast
from timeplex.models.base import Space, register
from timeplex.models.scorers import ScorerName, scorer
from timeplex.models.vector import VectorModel

# Tokens of a date: the ten digits of a year at four places each, its sign, twelve months, the ten digits of a day.
SIGN, MONTH, DAY, TOKENS = 40, 42, 54, 74


class Options(base.Options):
    """Settings of the TA family."""

    scorer: ScorerName = Field("distmult", description="What the encoded relation is used in.")
    norm: Literal[1, 2] = Field(1, description="The norm of TransE's distance: 1 or 2.")


@register("ta")
class TA(VectorModel):
    """φ(s, r, o, t) = scorer(s, LSTM([r, tokens of t]), o).

    A year is read as its sign and four digits, a month as one token, a day as two digits, as far as the granularity has
    them; so the model sees which years are near each other by their digits, and can read years it never met.
    """

    options_type = Options
    tokens: Tensor

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options, scorer(options.scorer, options.norm))
        width = self.relation.shape[1]
        self.register_buffer("tokens", date_tokens(space.dates), persistent=False)
        self.token = self.table(TOKENS, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)

    def relation_vectors(self, r: Tensor, t: Tensor) -> Tensor:
        """The last state of the LSTM; each pair of relation and instant is read once."""
        return self.remembered(lambda: self._read(r, t), self.relation, r, t)

    def _read(self, r: Tensor, t: Tensor) -> Tensor:
        r, t = broadcast(r, t)
        pairs, where = torch.unique(r * self.space.instants + t, return_inverse=True)
        first = self.relation[pairs // self.space.instants]
        rest = self.token[self.tokens[pairs % self.space.instants]]
        states: Any = self.lstm(torch.cat([first[:, None], rest], dim=1))[0]
        encoded: Tensor = states[:, -1]
        return encoded[where]


def date_tokens(dates: Tensor) -> Tensor:
    """The tokens of each date, (instants, 3) → (instants, length)."""
    year, month, day = dates.unbind(1)
    columns = [SIGN + (year < 0).long()]
    columns += [10 * place + year.abs() // 10 ** (3 - place) % 10 for place in range(4)]
    if (month > 0).any():
        columns.append(MONTH + month - 1)
    if (day > 0).any():
        columns += [DAY + day // 10, DAY + 10 + day % 10]
    return torch.stack(columns, dim=1)
