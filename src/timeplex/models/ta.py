"""TA (García-Durán et al. 2018): the relation and the digits of the date are read by an LSTM."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from timeplex.models import base
from timeplex.models.base import Space, register
from timeplex.models.query_vector import broadcast
from timeplex.models.static import ScorerName, VectorModel

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
    uses_time = True
    tokens: Tensor
    prefixes: Tensor

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        width = self.relation.shape[1]
        self.register_buffer("tokens", date_tokens(space.dates), persistent=False)
        self.register_buffer("prefixes", first_alike(self.tokens), persistent=False)
        self.token = self.table(TOKENS, width)
        self.lstm = nn.LSTMCell(width, width)

    def relation_vectors(self, r: Tensor, t: Tensor) -> Tensor:
        """The last state of the LSTM."""
        return self.remembered(lambda: self._read(r, t), self.relation, r, t)

    def _read(self, r: Tensor, t: Tensor) -> Tensor:
        """The last states, (…) and (…) → (…, width).

        Each beginning of a sequence is read once, however many sequences share it: 2,000 rows of ICEWS14, whose dates
        are all of one year, have about 1,800 sequences, but fewer than 200 beginnings up to the year. Likewise the
        gates' part of a word is computed once a word, and that of a state before it is copied to what follows.
        """
        r, t = broadcast(r, t)
        pairs, where = torch.unique(r * self.space.instants + t, return_inverse=True)
        r, t = pairs // self.space.instants, pairs % self.space.instants
        relations, here = torch.unique(r, return_inverse=True)
        state, cell = self._step(self._of_words(self.relation[relations]), None)
        of_tokens = self._of_words(self.token)
        for place, alike in enumerate(self.prefixes):
            nodes, there = torch.unique(r * self.space.instants + alike[t], return_inverse=True)
            before = torch.empty_like(nodes)
            before[there] = here
            words = self.tokens[nodes % self.space.instants, place]
            gates = embedding(words, of_tokens) + embedding(before, state @ self.lstm.weight_hh.T)
            state, cell = self._step(gates, embedding(before, cell))
            here = there
        return embedding(here[where], state)

    def _of_words(self, words: Tensor) -> Tensor:
        """What words add to the gates: (n, width) → (n, 4 width)."""
        return linear(words, self.lstm.weight_ih, self.lstm.bias_ih + self.lstm.bias_hh)

    @staticmethod
    def _step(gates: Tensor, cell: Tensor | None) -> tuple[Tensor, Tensor]:
        """h and c after a word: c ← σ(f) c + σ(i) tanh(g), h ← σ(o) tanh(c); a cell that is None is 0."""
        i, f, g, o = gates.chunk(4, dim=1)
        new = i.sigmoid() * g.tanh()
        cell = new if cell is None else f.sigmoid() * cell + new
        return o.sigmoid() * cell.tanh(), cell


def first_alike(tokens: Tensor) -> Tensor:
    """For each length from 1, the first instant whose tokens begin alike: (instants, length) → (length, instants)."""
    instants, rows = torch.arange(len(tokens)), []
    for length in range(1, tokens.shape[1] + 1):
        _, group = torch.unique(tokens[:, :length], dim=0, return_inverse=True)
        rows.append(torch.zeros_like(instants).scatter_reduce(0, group, instants, "amin", include_self=False)[group])
    return torch.stack(rows)


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
