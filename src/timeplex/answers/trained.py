"""A trained run that can be asked: who, when, and how sure one can be.

>>> import timeplex
>>> trained = timeplex.load("runs/sample")                                                  # doctest: +SKIP
>>> trained.rank(subject="Angela Merkel", relation="headOfGovernment", at="2005..2021")     # doctest: +SKIP
>>> trained.when("Angela Merkel", "headOfGovernment", "Germany")                            # doctest: +SKIP
"""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from timeplex.answers import calibration
from timeplex.answers.calibration import Calibration, fit
from timeplex.answers.kept import Keeper, digest
from timeplex.answers.learned import Learned
from timeplex.answers.rank import Coexistence, EntityQueries, EntityRanker, KnownAnswers
from timeplex.answers.when import Dating
from timeplex.errors import InputError
from timeplex.evaluation.protocol import Protocol
from timeplex.evaluation.report import Report, evaluate, link_task
from timeplex.kb import spans
from timeplex.models.loading import own_model
from timeplex.patterns.base import LinkQueries
from timeplex.patterns.ranking import Extra
from timeplex.training.loop import choose_device
from timeplex.training.run import RunFolder, TrainedRun
from timeplex.typing import Bools, Features, Floats, Progress


def load(path: str | Path, device: str = "auto", *, model: str | None = None) -> "Trained":
    """A trained run from its folder, after checking all that is in it; device: auto, cpu or cuda.

    Nothing in the folder is ever run. A run of your own model needs `model="path/to/file.py:name"`, with the very file
    that it was trained with.
    """
    own = None if model is None else own_model(model)
    trained = Trained(RunFolder(Path(path)).load(choose_device(device)))
    if own is not None and trained.run.recipe.model != own.name:
        raise InputError(f"{path} has the model {trained.run.recipe.model!r}, not {own.name!r}.", "Leave out `model`.")
    return trained


class Trained(Learned):
    """A trained run that can be asked: what a KB shows by its patterns, with the scores of a model beside them.

    Names are ids or labels; `load` makes one from a run folder.
    """

    def __init__(self, run: TrainedRun, on_progress: Progress | None = None) -> None:
        super().__init__(run.kb, on_progress)
        self.run = run

    def __repr__(self) -> str:
        return f"Trained({self.run.recipe.title} on {self.kb!r})"

    @property
    def name(self) -> str:
        """`timeplex-base on yago11k (runs/yago11k)`."""
        return f"{self.run.recipe.title} on {self.kb.name} ({self.run.path})"

    @property
    def about(self) -> dict[str, Any]:
        """Who answers, for JSON."""
        return {"run": str(self.run.path), "model": self.run.recipe.title, "kb": self.kb.name}

    @cached_property
    def keeper(self) -> Keeper:
        """Where what was learned is kept: in the run folder."""
        if not self.run.path.is_dir():
            return Keeper()
        return Keeper(self.run.path, digest(self.kb, calibration.fingerprint(self.run).encode()))

    @cached_property
    def extra(self) -> Extra | None:
        """The scores of the model; none if no dev facts can tell what they count beside patterns."""
        return known_scores(self.run) if len(self.kb.valid) else None

    @cached_property
    def calibration(self) -> Calibration:
        """How raw probabilities become calibrated ones; fitted on dev on first use, and kept in the run folder."""
        return self.calibrated()

    def calibrated(self, on_progress: Progress | None = None) -> Calibration:
        """The `calibration`; `on_progress` is called with (done, total) if it is not kept and must be fitted."""
        if "calibration" not in self.__dict__:
            fitted = calibration.load_or_fit(
                self.run,
                "calibration.json",
                Calibration,
                lambda: fit(self.run, on_progress),
                lambda found: found.fits(self.run),
            )
            self.__dict__["calibration"] = fitted
        return self.calibration

    @cached_property
    def who(self) -> EntityRanker:
        """Ranking on numbers; the facts of all splits are known."""
        return EntityRanker(self.run, self.kb.facts)

    @cached_property
    def dating(self) -> Dating:
        """Dating on numbers."""
        return Dating(self.run, self.calibration.when.weights)

    def evaluate(
        self, *, split: str = "test", protocol: str | Protocol = "paper", filter: str | None = "all"
    ) -> Report:
        """How good the model is on a split of its KB, with baselines beside it; see `timeplex.evaluate`.

        >>> trained = timeplex.load("runs/sample")                                          # doctest: +SKIP
        >>> trained.evaluate(split="valid").links()                                         # doctest: +SKIP
        """
        task = link_task(self.kb, split, self.run.timeline, protocol, filter)
        device = next(self.run.model.parameters()).device
        return replace(evaluate(task, self.run.scorer, split, device), model=self.run.recipe.title)

    # As numbers --------------------------------------------------------------------------------------------------

    def probability(
        self, questions: EntityQueries, raw: Floats, holds: Bools | None = None, known: KnownAnswers | None = None
    ) -> Floats:
        """Calibrated probabilities of candidates, (n, k), from raw ones.

        Where an answer is known already, a new one is less likely (`company`); `holds` says which are not new, `known`
        what is known, if it is not the whole KB.
        """
        probability = self.calibration.rank(raw, questions.r, questions.direction)
        new = probability * self._company.factor(questions, known or self.who.known)[:, None]
        return new if holds is None else np.where(holds, probability, new)

    @cached_property
    def _company(self) -> Coexistence:
        first, last = (int(self.run.timeline.instants[at]) for at in (0, -1))
        return Coexistence(self.kb.train, len(self.kb.relations), first, last)


def embedding_scores(run: TrainedRun) -> Extra:
    """The scores of a trained model at the begin of each question; at the first instant of all where that is open."""
    relations, scorer = len(run.kb.relations), run.scorer
    device = next(run.model.parameters()).device

    def extra(queries: LinkQueries) -> Features:
        inverse = queries.r >= relations
        begin = np.where(queries.begin == spans.OPEN_BEGIN, run.timeline.first, queries.begin)
        place = np.clip(np.searchsorted(run.timeline.instants, begin), 0, len(run.timeline) - 1)
        x, r, t = (torch.from_numpy(column).to(device) for column in (queries.x, queries.r % relations, place))
        out = np.empty((len(queries), len(run.kb.entities)), np.float32)
        with torch.no_grad():
            for rows, direction in ((~inverse, "object"), (inverse, "subject")):
                if rows.any():
                    span = (t[rows], t[rows])
                    if direction == "object":
                        found = scorer.objects(x[rows], r[rows], span)
                    else:
                        found = scorer.subjects(r[rows], x[rows], span)
                    out[rows] = found.float().cpu().numpy()
        return out

    return extra


def known_scores(run: TrainedRun) -> Extra:
    """`embedding_scores` with nothing to say of entities without a training fact: of those nothing was learned.

    As an answer such an entity has the mean score of all others; asked about one, all are alike.
    """
    scores, learned = embedding_scores(run), run.kb.train.mentioned(len(run.kb.entities))
    if learned.all():
        return scores

    def extra(queries: LinkQueries) -> Features:
        rows = scores(queries)
        rows[:, ~learned] = rows[:, learned].mean(1, keepdims=True)
        rows[~learned[queries.x]] = 0
        return rows

    return extra
