"""DE-SimplE (Goel et al. 2020): SimplE with entities part of whose features come and go with time."""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import dropout

from timeplex.models import base
from timeplex.models.base import Model, Space, by_group, register
from timeplex.models.query_vector import dot


class Options(base.Options):
    """Settings of DE-SimplE."""

    diachronic: float = Field(0.64, gt=0, lt=1, description="Share of the features that depend on time.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of the query's features left out in training.")


@register("de-simple")
class DESimplE(Model):
    """φ(s, r, o, t) = ½ (⟨head_s(t), r, tail_o(t)⟩ + ⟨head_o(t), r⁻¹, tail_s(t)⟩) with real vectors.

    A diachronic feature is Σ_p a[p] · sin(f[p] · p(t) + b[p]) over the parts p of a date (year, month, day as far as
    they vary), with amplitude a, frequency f and phase b of its own; the other features are constant. As the entities'
    vectors depend on the instant, all-entity scores are one matrix product an instant.
    """

    options_type = Options
    by_instant = True
    entity_tables = ("entity", "amplitude", "frequency", "phase")
    clock: Tensor

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        self.register_buffer("clock", clock(space.dates), persistent=False)
        moving = max(1, round(options.diachronic * options.dimension))
        still = options.dimension - moving
        parts = self.clock.shape[1]
        self.entity = self.table(space.entities, 2 * still)
        self.amplitude = self.table(space.entities, 2 * moving * parts)
        self.frequency = self.table(space.entities, 2 * moving * parts, spread=1.0)
        self.phase = self.table(space.entities, 2 * moving * parts, spread=1.0)
        self.relation = self.table(space.relations, 2 * options.dimension)

    def entity_at(self, e: Tensor, t: Tensor) -> Tensor:
        """[head | tail] of entities at instants: (…) → (…, 2 · dimension)."""
        return self.remembered(lambda: self._moved(self._rows(e), t), self.phase, e, t)

    def _rows(self, e: Tensor) -> tuple[Tensor, ...]:
        """What the tables have of entities: constant features, amplitude, frequency, phase; (…, width) each."""
        return tuple(self.rows(table, e) for table in (self.entity, self.amplitude, self.frequency, self.phase))

    def _moved(self, rows: tuple[Tensor, ...], t: Tensor) -> Tensor:
        """[head | tail] at instants of the entities whose rows these are."""
        still, *waves = rows
        parts = self.clock.shape[1]
        amplitude, frequency, phase = (of.view(*of.shape[:-1], parts, of.shape[-1] // parts) for of in waves)
        moving = (amplitude * torch.sin(frequency * self.clock[t][..., None] + phase)).sum(-2)
        still_head, still_tail = still.expand(*moving.shape[:-1], -1).chunk(2, -1)
        head, tail = moving.chunk(2, -1)
        return torch.cat([still_head, head, still_tail, tail], -1)

    def object_query(self, s: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """½ [r⁻¹ ∘ tail_s | head_s ∘ r], to meet [head_o | tail_o]."""
        head, tail = self.entity_at(s, t).chunk(2, -1)
        forward, backward = self.rows(self.relation, r).chunk(2, -1)
        return self._dropped(torch.cat([backward * tail, head * forward], -1) / 2)

    def subject_query(self, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        """½ [r ∘ tail_o | head_o ∘ r⁻¹], to meet [head_s | tail_s]."""
        head, tail = self.entity_at(o, t).chunk(2, -1)
        forward, backward = self.rows(self.relation, r).chunk(2, -1)
        return self._dropped(torch.cat([forward * tail, head * backward], -1) / 2)

    def _dropped(self, query: Tensor) -> Tensor:
        return dropout(query, self.options.dropout, self.training)

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        return dot(self.object_query(s, r, t), self.entity_at(o, t))

    def objects_at(self, s: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return self._of(self._everyone(t), self.object_query(s, r, t), t)

    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        return self._of(self._everyone(t), self.subject_query(r, o, t), t)

    def objects_among(self, s: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        return self._of(candidates, self.object_query(s, r, t), t)

    def subjects_among(self, r: Tensor, o: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        return self._of(candidates, self.subject_query(r, o, t), t)

    def _everyone(self, like: Tensor) -> Tensor:
        return torch.arange(self.space.entities, device=like.device)

    def _of(self, entities: Tensor, query: Tensor, t: Tensor) -> Tensor:
        """The scores of the entities: one matrix product for each distinct instant.

        Their rows are read once for all instants: the gradient of a reading is as large as the table.
        """
        rows = self._rows(entities)
        return by_group(query, t, lambda instant, queries: queries @ self._moved(rows, instant).T)

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        return [self.entity_at(s, t), self.rows(self.relation, r), self.entity_at(o, t)]


def clock(dates: Tensor) -> Tensor:
    """The parts of each date that the granularity has, each with mean 0 and deviation 1 over the timeline."""
    parts = [part.float() for part in dates.unbind(1) if len(torch.unique(part)) > 1]
    parts = parts or [dates[:, 0].float()]
    columns = [(part - part.mean()) / part.std(correction=0).clamp_min(1e-6) for part in parts]
    return torch.stack(columns, dim=1)
