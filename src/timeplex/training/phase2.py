"""Phase 2: the gadgets learn what to add to the scores of a trained model, which stays as it is.

The loss is that of phase 1 with φ = φ_model + Σ strength · φ_gadget: −log Pr(o | s, r, t) − log Pr(s | r, o, t), at the
begin of each fact, and −w log Pr(t | s, r, o) at an instant drawn from its span. Every fact is left out of the evidence
for itself. A gadget is trained alone with the model, or all of them together; the epoch that is best on dev stays, and
with `try_weights` the weight that is best on dev.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from timeplex.evaluation.queries import Answers, Direction
from timeplex.gadgets import Gadget
from timeplex.kb.dates import Ints
from timeplex.models.base import Model
from timeplex.training.batches import random
from timeplex.training.negatives import ALL_ENTITIES, draw
from timeplex.training.setup import Setup
from timeplex.training.validation import dev_metrics

NEGATIVES = 100
"""Drawn negatives for KBs with very many entities."""

STREAM = 2
"""Keeps the random choices of phase 2 apart from those of phase 1."""

Listener = Callable[[str, int, int, int, float, float | None], None]
"""Hears the gadgets, the epoch, the batch, the number of batches, the mean loss, and dev MRR after an epoch."""


@dataclass(frozen=True)
class GadgetTrainer:
    """Trains the recipe's gadgets on top of a model."""

    setup: Setup
    model: Model
    device: torch.device

    def fit(self, listener: Listener | None = None) -> tuple[dict[str, Gadget], list[dict[str, Any]]]:
        """The trained gadgets, and a line for each epoch and each weight that was tried."""
        gadgets = {name: gadget.to(self.device) for name, gadget in self.setup.new_gadgets().items()}
        together = self.setup.recipe.phase2.together
        groups = [gadgets] if together else [{name: gadget} for name, gadget in gadgets.items()]
        trace = []
        for group in groups:
            trace += self._train(group, listener)
            trace += [line for name in group for line in self._weigh(name, group)]
        return {name: gadget.train(False) for name, gadget in gadgets.items()}, trace

    def _train(self, gadgets: dict[str, Gadget], listener: Listener | None) -> list[dict[str, Any]]:
        settings, names = self.setup.recipe.phase2, " + ".join(gadgets)
        groups = [
            {"params": [each for each in gadget.parameters() if each.requires_grad], "lr": gadget.options.learning_rate}
            for gadget in gadgets.values()
        ]
        optimizer = torch.optim.Adagrad(groups)
        facts = len(self.setup.train)
        batches = -(-facts // settings.batch_size)
        best, trace, start = (-1.0, self._tables(gadgets)), [], time.monotonic()
        for epoch in range(settings.epochs):
            order = random(self.setup.recipe.seed, STREAM, epoch).permutation(facts)
            total = 0.0
            for number in range(batches):
                rows = order[number * settings.batch_size : (number + 1) * settings.batch_size]
                optimizer.zero_grad(set_to_none=True)
                loss = self._loss(gadgets, rows, (epoch, number))
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += float(loss.detach())
                if listener is not None:
                    listener(names, epoch + 1, number + 1, batches, total / (number + 1), None)
            dev = self._dev(gadgets)
            value = dev.get("mrr", -total)
            if value > best[0] or epoch == 0:
                best = (value, self._tables(gadgets))
            seconds = round(time.monotonic() - start, 1)
            trace.append(
                {"gadgets": names, "epoch": epoch + 1, "loss": total / batches, "dev": dev, "seconds": seconds}
            )
            if listener is not None:
                listener(names, epoch + 1, batches, batches, total / batches, dev.get("mrr"))
        for name, gadget in gadgets.items():
            gadget.load_state_dict(best[1][name])
        return trace

    def _weigh(self, name: str, gadgets: dict[str, Gadget]) -> list[dict[str, Any]]:
        """Try other weights of a gadget on dev, and keep the best."""
        gadget, tried = gadgets[name], []
        weights = sorted({float(gadget.strength), *gadget.options.try_weights})
        if len(weights) == 1:
            return []
        for weight in weights:
            gadget.strength.fill_(weight)
            tried.append({"gadgets": name, "weight": weight, "dev": self._dev(gadgets)})
        gadget.strength.fill_(max(tried, key=lambda line: line["dev"].get("mrr", 0.0))["weight"])
        return tried

    def _loss(self, gadgets: dict[str, Gadget], rows: Ints, key: tuple[int, int]) -> Tensor:
        """The loss of a batch of training facts."""
        settings, train = self.setup.recipe.phase2, self.setup.train
        generator = random(self.setup.recipe.seed, STREAM, *key)
        columns = (train.s[rows], train.r[rows], train.o[rows], train.first[rows], self.setup.evidence.places(rows))
        s, r, o, t, own = (torch.from_numpy(np.ascontiguousarray(column)).to(self.device) for column in columns)
        entities = len(self.setup.kb.entities)
        drawn = settings.negatives
        if drawn is None:
            drawn = 0 if entities <= ALL_ENTITIES else NEGATIVES
        if drawn:
            loss = self._among(gadgets, s, r, o, t, own, draw(generator, entities, drawn, self.device))
        else:
            loss = self._among_all(gadgets, s, r, o, t, own)
        if settings.time_weight:
            instant = train.first[rows] + generator.integers(0, train.lengths[rows])
            scores = self._times(gadgets, s, r, o, own)
            loss = loss + settings.time_weight * cross_entropy(scores, torch.from_numpy(instant).to(self.device))
        for gadget in gadgets.values():
            loss = loss + gadget.penalty()
        return loss

    def _among_all(self, gadgets: dict[str, Gadget], s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor) -> Tensor:
        """−log Pr(o | s, r, t) − log Pr(s | r, o, t) among all entities."""
        with torch.no_grad():
            objects, subjects = self._answers.objects(s, r, (t, t)), self._answers.subjects(r, o, (t, t))
        for gadget in gadgets.values():
            objects = objects + gadget.strength * gadget.objects_at(s, r, t, own)
            subjects = subjects + gadget.strength * gadget.subjects_at(r, o, t, own)
        return cross_entropy(objects, o) + cross_entropy(subjects, s)

    def _among(
        self, gadgets: dict[str, Gadget], s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor, drawn: Tensor
    ) -> Tensor:
        """The same among the gold, in column 0, and drawn entities."""
        width = 1 + len(drawn)
        subject, relation, target, when, itself = (column.repeat_interleave(width) for column in (s, r, o, t, own))
        objects, subjects = (torch.cat([gold[:, None], drawn.expand(len(s), -1)], 1).flatten() for gold in (o, s))
        loss = torch.zeros((), device=self.device)
        asked: dict[Direction, tuple[Tensor, Tensor, Tensor, Tensor]] = {
            "object": (subject, relation, objects, when),
            "subject": (subjects, relation, target, when),
        }
        for direction, fact in asked.items():
            with torch.no_grad():
                scores = self._answers.score_at(*fact, direction)
            for gadget in gadgets.values():
                scores = scores + gadget.strength * gadget.score_at(*fact, itself)
            loss = loss + cross_entropy(scores.reshape(len(s), width), torch.zeros_like(s))
        return loss

    def _times(self, gadgets: dict[str, Gadget], s: Tensor, r: Tensor, o: Tensor, own: Tensor) -> Tensor:
        """Scores of all instants: (n, instants)."""
        with torch.no_grad():
            scores = self._answers.times(s, r, o)
        for gadget in gadgets.values():
            scores = scores + gadget.strength * gadget.times(s, r, o, own)
        return scores

    @property
    def _answers(self) -> Answers:
        """What the model says alone; it learns nothing."""
        return Answers(self.model, self.setup.recipe.inverse)

    @torch.no_grad()
    def _dev(self, gadgets: dict[str, Gadget]) -> dict[str, float]:
        return dev_metrics(self.setup, self.model, self.device, gadgets) if len(self.setup.kb.valid) else {}

    @staticmethod
    def _tables(gadgets: dict[str, Gadget]) -> dict[str, dict[str, Tensor]]:
        return {
            name: {key: table.detach().clone() for key, table in gadget.state_dict().items()}
            for name, gadget in gadgets.items()
        }
