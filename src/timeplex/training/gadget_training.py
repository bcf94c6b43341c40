"""Phase 2: the gadgets learn what to add to the scores of a trained model, which stays as it is.

The loss is that of phase 1 with φ = φ_model + Σ strength · φ_gadget: −log Pr(o | s, r, t) − log Pr(s | r, o, t), at the
begin of each fact, and −w log Pr(t | s, r, o) at an instant drawn from its span. Every fact is left out of the evidence
for itself. A gadget is trained alone with the model, or all of them together; the epoch that is best on dev stays, and
with `try_weights` the weight that is best on dev. Where learning diverges it stops, and the best epoch before stays; if
there is none, the gadgets add nothing (strength 0).
"""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from timeplex.gadgets import Gadget
from timeplex.kb.dates import Ints
from timeplex.models.base import Model
from timeplex.models.scorer import Direction, Scorer
from timeplex.training.batches import ALL_ENTITIES, draw, random
from timeplex.training.checkpoint import Listener, Progress
from timeplex.training.experiment import Experiment, dev_metrics
from timeplex.training.objective import Diverged, check_tables, finite_loss

NEGATIVES = 100
"""Drawn negatives for KBs with very many entities."""

STREAM = 2
"""Keeps the random choices of phase 2 apart from those of phase 1."""

LARGEST = 1e9
"""What gadgets learn stays below: they learn lengths of time, of which there are millions of days."""

Tables = dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class GadgetTrainer:
    """Trains the recipe's gadgets on top of a model."""

    setup: Experiment
    model: Model
    device: torch.device

    def fit(self, listener: Listener | None = None) -> tuple[dict[str, Gadget], list[dict[str, Any]]]:
        """The trained gadgets, and a line for each epoch and each weight that was tried."""
        if listener is not None:
            epochs, names = self.setup.recipe.phase2.epochs, " + ".join(self.setup.recipe.gadgets)
            listener(Progress(1, epochs, 0, 1, 0.0, None, None, 0.0, False, names, "counting the training facts"))
        gadgets = self.new_gadgets()
        trace = []
        for group in self.groups(gadgets):
            learning = _Learning(self, group, listener)
            trace += learning.epochs()
            if learning.learned:
                trace += [line for name in group for line in learning.weigh(name)]
        return {name: gadget.train(False) for name, gadget in gadgets.items()}, trace

    def new_gadgets(self) -> dict[str, Gadget]:
        """The recipe's gadgets, which have not learned yet."""
        return {name: gadget.to(self.device) for name, gadget in self.setup.new_gadgets().items()}

    def groups(self, gadgets: dict[str, Gadget]) -> list[dict[str, Gadget]]:
        """Those that learn at the same time."""
        if self.setup.recipe.phase2.together:
            return [gadgets]
        return [{name: gadget} for name, gadget in gadgets.items()]

    def trial(self, gadgets: dict[str, Gadget], facts: int) -> None:
        """What a step with so many facts costs: the loss and the gradient, without the step."""
        self.loss(gadgets, np.arange(facts), (0, 0)).backward()  # type: ignore[no-untyped-call]

    def loss(self, gadgets: dict[str, Gadget], rows: Ints, key: tuple[int, int]) -> Tensor:
        """The loss of a batch of training facts."""
        settings, train = self.setup.recipe.phase2, self.setup.train
        generator = random(self.setup.recipe.seed, STREAM, *key)
        columns = (train.s[rows], train.r[rows], train.o[rows], train.first[rows], self.setup.evidence.places(rows))
        s, r, o, t, own = (torch.from_numpy(np.ascontiguousarray(column)).to(self.device) for column in columns)
        scorer = replace(self.setup.scorer(self.model, gadgets), frozen=True)
        entities = len(self.setup.kb.entities)
        drawn = settings.negatives
        if drawn is None:
            drawn = 0 if entities <= ALL_ENTITIES else NEGATIVES
        if drawn:
            loss = loss_among_drawn(scorer, s, r, o, t, own, draw(generator, entities, drawn, self.device))
        else:
            loss = loss_among_all(scorer, s, r, o, t, own)
        if settings.time_weight:
            instant = train.first[rows] + generator.integers(0, train.lengths[rows])
            scores = scorer.times(s, r, o, own)
            loss = loss + settings.time_weight * cross_entropy(scores, torch.from_numpy(instant).to(self.device))
        for gadget in gadgets.values():
            loss = loss + gadget.penalty()
        return loss

    @torch.no_grad()
    def dev(self, gadgets: dict[str, Gadget]) -> dict[str, float]:
        """How the model and these gadgets do on dev; nothing where there are no dev facts."""
        return dev_metrics(self.setup, self.model, self.device, gadgets) if len(self.setup.kb.valid) else {}


def loss_among_all(scorer: Scorer, s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor) -> Tensor:
    """−log Pr(o | s, r, t) − log Pr(s | r, o, t) among all entities."""
    objects, subjects = scorer.objects(s, r, (t, t), own), scorer.subjects(r, o, (t, t), own)
    return cross_entropy(objects, o) + cross_entropy(subjects, s)


def loss_among_drawn(scorer: Scorer, s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor, drawn: Tensor) -> Tensor:
    """The same among the gold, in column 0, and drawn entities."""
    width = 1 + len(drawn)
    subject, relation, target, when, itself = (column.repeat_interleave(width) for column in (s, r, o, t, own))
    objects, subjects = (torch.cat([gold[:, None], drawn.expand(len(s), -1)], 1).flatten() for gold in (o, s))
    loss = torch.zeros((), device=s.device)
    asked: dict[Direction, tuple[Tensor, Tensor, Tensor, Tensor]] = {
        "object": (subject, relation, objects, when),
        "subject": (subjects, relation, target, when),
    }
    for direction, fact in asked.items():
        scores = scorer.score_at(*fact, direction, itself)
        loss = loss + cross_entropy(scores.reshape(len(s), width), torch.zeros_like(s))
    return loss


class _Learning:
    """How a group of gadgets learns."""

    def __init__(self, trainer: GadgetTrainer, gadgets: dict[str, Gadget], listener: Listener | None) -> None:
        self.trainer, self.gadgets, self.listener = trainer, gadgets, listener
        self.names, self.settings = " + ".join(gadgets), trainer.setup.recipe.phase2
        self.batches = -(-len(trainer.setup.train) // self.settings.batch_size)
        groups = [
            {"params": [each for each in gadget.parameters() if each.requires_grad], "lr": gadget.options.learning_rate}
            for gadget in gadgets.values()
        ]
        self.optimizer = torch.optim.Adagrad(groups)
        self.start = time.monotonic()
        self.learned = False  # whether there was an epoch that did not diverge
        self.now = Progress(1, self.settings.epochs, 0, self.batches, 0.0, None, None, 0.0, False, self.names)

    def epochs(self) -> list[dict[str, Any]]:
        """All epochs; the best tables stay."""
        best, kept, trace = -math.inf, self._tables(), []
        for epoch in range(self.settings.epochs):
            line: dict[str, Any] = {"gadgets": self.names, "epoch": epoch + 1}
            trace.append(line)
            try:
                line["loss"] = self._epoch(epoch)
            except Diverged as found:
                line["diverged"] = str(found)
                break
            line["dev"] = self._dev()
            value = line["dev"].get("mrr", -line["loss"])
            if value > best:
                best, kept, self.learned = value, self._tables(), True
            line["seconds"] = round(time.monotonic() - self.start, 1)
        for name, gadget in self.gadgets.items():
            gadget.load_state_dict(kept[name])
            if not self.learned:
                gadget.strength.fill_(0.0)
        return trace

    def weigh(self, name: str) -> list[dict[str, Any]]:
        """Try other weights of a gadget on dev, and keep the best."""
        gadget, tried = self.gadgets[name], []
        weights = sorted({float(gadget.strength), *gadget.options.try_weights})
        if len(weights) == 1:
            return []
        for weight in weights:
            gadget.strength.fill_(weight)
            self._tell(ended=False, doing=f"weight {weight:g} of {name}")
            tried.append({"gadgets": name, "weight": weight, "dev": self.trainer.dev(self.gadgets)})
        gadget.strength.fill_(max(tried, key=lambda line: line["dev"].get("mrr", 0.0))["weight"])
        return tried

    def _epoch(self, epoch: int) -> float:
        """One pass through the facts; the mean loss."""
        setup, size, total = self.trainer.setup, self.settings.batch_size, 0.0
        order = random(setup.recipe.seed, STREAM, epoch).permutation(len(setup.train))
        for number in range(self.batches):
            rows = order[number * size : (number + 1) * size]
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.trainer.loss(self.gadgets, rows, (epoch, number))
            total += finite_loss(loss.detach())
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self._tell(epoch=epoch + 1, batch=number + 1, loss=total / (number + 1), dev=None, ended=False)
        for gadget in self.gadgets.values():
            check_tables(gadget, LARGEST)
        return total / self.batches

    def _dev(self) -> dict[str, float]:
        """A look at dev after an epoch."""
        self._tell(ended=False, doing="looking at dev")
        dev = self.trainer.dev(self.gadgets)
        looks = [mrr for mrr in (self.now.best, dev.get("mrr")) if mrr is not None]
        self._tell(ended=True, dev=dev.get("mrr"), best=max(looks, default=None))
        return dev

    def _tell(self, doing: str = "", **changes: Any) -> None:
        seconds = time.monotonic() - self.start
        self.now = replace(self.now, doing=doing, seconds=seconds, **changes)
        if self.listener is not None:
            self.listener(self.now)

    def _tables(self) -> Tables:
        return {
            name: {key: table.detach().clone() for key, table in gadget.state_dict().items()}
            for name, gadget in self.gadgets.items()
        }


def diverged_gadgets(trace: list[dict[str, Any]]) -> list[str]:
    """Sentences on the groups of gadgets that diverged, from the lines that training them left."""
    sentences = []
    for line in trace:
        if "diverged" in line:
            kept = "What was learned before is kept." if line["epoch"] > 1 else "They add nothing (weight 0)."
            problem = f"The gadgets {line['gadgets']} diverged in epoch {line['epoch']}: {line['diverged']}. {kept}"
            sentences.append(f"{problem} Set smaller learning rates of theirs, and train them alone with --base.")
    return sentences
