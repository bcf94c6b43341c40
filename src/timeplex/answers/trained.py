"""A trained run that can be asked: who, when, and how sure one can be.

>>> import timeplex
>>> trained = timeplex.load("runs/sample")                                                  # doctest: +SKIP
>>> trained.rank(subject="Angela Merkel", relation="headOfGovernment", at="2005..2021")     # doctest: +SKIP
>>> trained.when("Angela Merkel", "headOfGovernment", "Germany")                            # doctest: +SKIP
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from timeplex.answers import calibration
from timeplex.answers.calibration import Calibration, fit
from timeplex.answers.discover import LIMIT, MIN_PROBABILITY, SCHEMA, PrecisionModel, discover
from timeplex.answers.discover import fit as fit_proposals
from timeplex.answers.explain import INSTANTS, Explanation, dating_reasons, explain, reasons_text
from timeplex.answers.fill import fill
from timeplex.answers.rank import Coexistence, EntityQueries, EntityRanker, KnownAnswers
from timeplex.answers.resolve import ANY_TIME, At, Resolver, rank_table, when_table
from timeplex.answers.when import Dating
from timeplex.errors import InputError
from timeplex.evaluation.plots import Curve
from timeplex.evaluation.protocol import Protocol
from timeplex.evaluation.report import Report, evaluate, link_task
from timeplex.kb.facts import TemporalKB
from timeplex.kb.readers.table import Columns
from timeplex.kb.timeline import Timeline
from timeplex.models.loading import own_model
from timeplex.models.scorer import DIRECTIONS
from timeplex.training.loop import choose_device
from timeplex.training.run import RunFolder, TrainedRun
from timeplex.typing import Bools, Floats, Ints, Progress


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


class Trained:
    """A trained run that can be asked. Names are ids or labels; `load` makes one from a run folder."""

    def __init__(self, run: TrainedRun) -> None:
        self.run = run

    def __repr__(self) -> str:
        return f"Trained({self.run.recipe.title} on {self.kb!r})"

    @property
    def kb(self) -> TemporalKB:
        """The KB that it was trained on, all splits."""
        return self.run.kb

    @property
    def timeline(self) -> Timeline:
        """The instants that it has scores for."""
        return self.run.timeline

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
    def proposals(self) -> PrecisionModel:
        """How often what `discover` proposes is true; fitted on dev on first use, and kept in the run folder."""
        return calibration.load_or_fit(
            self.run, "proposals.json", PrecisionModel, lambda: fit_proposals(self), PrecisionModel.fits
        )

    @cached_property
    def asking(self) -> Resolver:
        """Names and dates as numbers."""
        return Resolver(self.kb, self.timeline)

    @cached_property
    def who(self) -> EntityRanker:
        """Ranking on numbers; the facts of all splits are known."""
        return EntityRanker(self.run, self.kb.facts)

    @cached_property
    def company(self) -> Coexistence:
        """How often answers have company."""
        first, last = (int(self.timeline.instants[at]) for at in (0, -1))
        return Coexistence(self.kb.train, len(self.kb.relations), first, last)

    @cached_property
    def dating(self) -> Dating:
        """Dating on numbers."""
        return Dating(self.run, self.calibration.when.weights)

    def rank(
        self,
        *,
        relation: str | Sequence[str],
        at: At | Sequence[At] = ANY_TIME,
        subject: str | Sequence[str] | None = None,
        object: str | Sequence[str] | None = None,
        k: int = 10,
        hide_known: bool = False,
    ) -> pl.DataFrame:
        """The likeliest objects of a subject, or subjects of an object, at a time; many questions in one call.

        Give one of `subject` and `object`. `at` is a date (2000, "2000-05", datetime.date), "2000..2003", "2000..", or
        a tuple (begin, end). Each argument is a single value or a list; a single one goes with every row of the others.

        Columns: query (0, 1, …), rank, entity (its label), id (its name in the KB), probability (that it is right, if
        one is missing; smaller where the KB has one already, by how often such facts have company), known: the spans
        at which the KB, any split, states the answer, null if it is new. `hide_known` leaves out those that are known
        to hold at the time.
        """
        asked = self.questions(relation=relation, at=at, subject=subject, object=object)
        return self.ranked(asked, k, hide_known=hide_known)

    def ranked(self, questions: EntityQueries, k: int = 10, *, hide_known: bool = False) -> pl.DataFrame:
        """`rank` for questions as numbers."""
        if k < 1:
            raise InputError(f"{k} answers cannot be given.", "Let k be at least 1.")
        found = self.who.rank(questions, k, hide_known=hide_known)
        probability = self.probability(questions, found.raw, found.holds)
        return rank_table(self.kb, self.who.known, questions, found, probability)

    def when(
        self,
        subject: str | Sequence[str],
        relation: str | Sequence[str],
        object: str | Sequence[str],
    ) -> pl.DataFrame:
        """When facts held, if they did: a row a fact; each argument is a single value or a list.

        Columns: subject, relation, object (labels), begin, end (the most likely span), probability (that it overlaps
        the true one), low, high (the begin lies there in 80 % of all cases), and known: the spans that the KB, any
        split, states, null if it states none.
        """
        s, r, o = self.triples(subject, relation, object)
        return when_table(self.kb, s, r, o, self.dating.predict(s, r, o, self.calibration.when))

    def curve(self, subject: str, relation: str, object: str) -> Curve:
        """Pr(t | s, r, o): how likely each instant of the timeline belongs to the fact, in sum 1."""
        s, r, o = self.triples(subject, relation, object)
        return Curve(self.timeline.instants, self.dating.probabilities(s, r, o)[0], self.kb.granularity)

    def dating_reasons(self, s: int, r: int, o: int, begin: int, window: tuple[int, int], limit: int) -> list[str]:
        """The facts that speak for a begin rather than for the other instants of a window, in sentences."""
        here = int(self.timeline.position([begin])[0])
        others = np.unique(np.linspace(*self.timeline.positions(window), INSTANTS).astype(int))
        return dating_reasons(self, s, r, o, here, others[others != here].tolist(), limit)

    def ranking_reasons(self, asked: EntityQueries, answer: int, *, shared: bool) -> list[str]:
        """The facts about the answer, or about what is given (`shared` by all), at the begin of one question."""
        given, r = int(asked.given[0]), int(asked.r[0])
        s, o = (given, answer) if asked.direction == "object" else (answer, given)
        other = next(side for side in DIRECTIONS if side != asked.direction)
        t = int(self.who.positions(asked)[0][0])
        return reasons_text(self, s, r, o, t, about=(other,) if shared else (asked.direction, "both"))

    def explain(self, subject: str, relation: str, object: str, *, at: At) -> Explanation:
        """Why a fact has its score at a date: the parts of the score, and the training facts behind them in sentences.

        A span is explained at its begin. Parts sum to the score, the reasons of a gadget sum to its part.
        """
        return explain(self, subject, relation, object, at)

    def fill(
        self,
        table: Any,
        *,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,
        begin: str | None = None,
        end: str | None = None,
        min_probability: float = 0.0,
    ) -> Any:
        """A DataFrame of pandas, polars or pyarrow with its holes filled in further columns; the same kind comes back.

        The columns are found by their usual names, or given; `relation="=name"` is one relation for all rows. Missing
        objects, begins and ends are predicted in `…_predicted`, with `probability` (see `answers.fill` for what it
        means), `still_going_on` where an end is missing, and `reason`. What is less likely than `min_probability` stays
        empty.
        """
        roles = {"subject": subject, "relation": relation, "object": object, "begin": begin, "end": end}
        return fill(self, table, Columns(**roles), min_probability)

    def discover(
        self,
        *,
        relation: str | Sequence[str] = (),
        min_probability: float = MIN_PROBABILITY,
        limit: int = LIMIT,
        on_progress: Progress | None = None,
    ) -> pl.DataFrame:
        """The likeliest facts that the KB, any split, does not state: at most `limit`, best first.

        `relation` names one or several (else all that have enough training facts); `on_progress` is called with
        (done, total) in entities. Columns: subject, relation, object (ids), begin, end, probability (see `proposals`),
        reason.
        """
        relations = [relation] if isinstance(relation, str) else relation
        found = discover(self, relations, min_probability, limit, on_progress)
        return pl.concat([pl.DataFrame(schema=SCHEMA), *found])

    def evaluate(
        self, *, split: str = "test", protocol: str | Protocol = "paper", filter: str | None = "all"
    ) -> Report:
        """How good the model is on a split of its KB, with baselines beside it; see `timeplex.evaluate`.

        >>> trained = timeplex.load("runs/sample")                                          # doctest: +SKIP
        >>> trained.evaluate(split="valid").links()                                         # doctest: +SKIP
        """
        task = link_task(self.kb, split, self.timeline, protocol, filter)
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
        new = probability * self.company.factor(questions, known or self.who.known)[:, None]
        return new if holds is None else np.where(holds, probability, new)

    def questions(
        self,
        *,
        relation: str | Sequence[str],
        at: At | Sequence[At] = ANY_TIME,
        subject: str | Sequence[str] | None = None,
        object: str | Sequence[str] | None = None,
    ) -> EntityQueries:
        """What `rank` is asked, as numbers."""
        return self.asking.questions(relation=relation, at=at, subject=subject, object=object)

    def triples(
        self,
        subject: str | Sequence[str],
        relation: str | Sequence[str],
        object: str | Sequence[str],
    ) -> tuple[Ints, Ints, Ints]:
        """What `when` is asked, as numbers: (n,) each."""
        return self.asking.triples(subject, relation, object)
