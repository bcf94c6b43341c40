"""What can be asked: who, when, and why; a KB without training, and the base of a trained run (`trained.Trained`).

>>> import timeplex
>>> known = timeplex.learn("sample")                                                        # doctest: +SKIP
>>> known.when("Helmut Kohl", "headOfGovernment", "Germany")                                # doctest: +SKIP

The weights of patterns are learned on train, and dev says how far probabilities can be believed; then the facts of all
splits are evidence, because what is known counts.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import polars as pl

from timeplex.answers.batches import of_all
from timeplex.answers.dates import Dates, evidence_for
from timeplex.answers.discover import LIMIT, MIN_PROBABILITY, SCHEMA, PrecisionModel, discover
from timeplex.answers.discover import fit as fit_proposals
from timeplex.answers.ends import Ends
from timeplex.answers.explain import Explanation, Part, because, explain, strength
from timeplex.answers.fill import fill
from timeplex.answers.kept import Keeper, digest
from timeplex.answers.links import Links
from timeplex.answers.rank import Coexistence, EntityQueries
from timeplex.answers.resolve import ANY_TIME, At, Resolver, rank_table, when_table
from timeplex.errors import InputError
from timeplex.evaluation.plots import Curve
from timeplex.kb.facts import TemporalKB
from timeplex.kb.readers.table import Columns
from timeplex.kb.timeline import Timeline
from timeplex.models.scorer import Direction
from timeplex.patterns.base import Evidence, TimeQueries
from timeplex.patterns.ranking import Extra
from timeplex.text import counted
from timeplex.typing import Progress

INSTANTS = 9
"""A reason for a date is compared at so many instants of the window."""
LEAST_SHARE = 0.05
"""A pattern that changes a score by less is not told."""
TOLD = 3
"""So many patterns and sentences are told of each answer in a list."""
MOST_DAYS = 100_000
"""A curve has every instant up to so many."""

Question = Literal["when", "rank"]


class Learned:
    """A KB that can be asked. Names are ids or labels; `timeplex.learn` makes one."""

    def __init__(self, kb: TemporalKB, on_progress: Progress | None = None, folder: Path | None = None) -> None:
        """`on_progress` is called with (done, total) steps while something is learned, which is on first use.

        What was learned is kept in `folder`, if one is given, for the next time.
        """
        self.kb, self.on_progress, self._folder = kb, on_progress, folder

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    @property
    def name(self) -> str:
        """Who answers, in words."""
        return f"the patterns of {self.kb.name}"

    @property
    def about(self) -> dict[str, Any]:
        """Who answers, for JSON."""
        return {"model": "patterns", "kb": self.kb.name}

    @cached_property
    def extra(self) -> Extra | None:
        """The scores of a trained model, one more feature of entities."""
        return None

    @cached_property
    def dates(self) -> Dates:
        """When facts held; learned on first use."""
        found = Dates.restored(self.kb, self.keeper)
        if found is None:
            found = Dates.learn(self.kb, self.on_progress)
            found.keep(self.keeper)
        return found

    @cached_property
    def links(self) -> Links:
        """Who answers; learned on first use."""
        first, last = self.timeline.first, self.timeline.last
        found = Links.restored(self.kb, first, last, self.extra, self.keeper)
        if found is None:
            found = Links.learn(self.kb, first, last, self.extra, self.on_progress)
            found.keep(self.keeper)
        return found

    def learn(self, on_progress: Progress | None = None) -> Self:
        """Learn now what would be learned on first use."""
        self.on_progress = on_progress or self.on_progress
        self.dates, self.links  # noqa: B018 they are learned when they are looked at
        return self

    @cached_property
    def keeper(self) -> Keeper:
        """Where what was learned is kept."""
        return Keeper(self._folder, digest(self.kb) if self._folder else "")

    @cached_property
    def timeline(self) -> Timeline:
        """The instants that dates are looked for among."""
        return Timeline(Evidence.of(self.kb, self.kb.facts).axis, self.kb.granularity, "observed")

    @cached_property
    def asking(self) -> Resolver:
        """Names and dates as numbers; all facts are known."""
        return Resolver(self.kb, self.timeline, self.kb.facts)

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
        a tuple (begin, end); left out, any time is meant. Each argument is a single value or a list; a single one goes
        with every row of the others.

        Columns: query (0, 1, …), rank, entity (its label), id (its name in the KB), probability (that it is right, if
        one is missing; smaller where the KB has one already, by how often such facts have company), known: the spans
        at which the KB, any split, states the answer, null if it is new. What the KB states for that time comes first,
        and has no probability; `hide_known` leaves it out.

        Of many questions those that cannot be asked do not stop the others: they have a row with the reason as `error`,
        a column that is there if any argument is a list.
        """
        if k < 1:
            raise InputError(f"{k} answers cannot be given.", "Let k be at least 1.")
        given: dict[str, Any] = {"relation": relation, "at": at, "subject": subject, "object": object}
        given = {name: value for name, value in given.items() if value is not None}

        def answer(**asked: Any) -> pl.DataFrame:
            return self.ranked(self.asking.questions(**asked), k, hide_known=hide_known)

        if ("subject" in given) == ("object" in given):
            return answer(**given)  # which says what is wrong
        return of_all(answer, self.asking.questions, given, lambda table, rows: {"query": rows})

    def ranked(self, questions: EntityQueries, k: int = 10, *, hide_known: bool = False) -> pl.DataFrame:
        """`rank` for questions as numbers."""
        if k < 1:
            raise InputError(f"{k} answers cannot be given.", "Let k be at least 1.")
        found, probability = self.links.rank(questions, k, hide_known=hide_known)
        table = rank_table(self.kb, self.links.who.known, questions, found, probability)
        return table.with_columns(pl.col("probability").fill_nan(None))

    def when(
        self, subject: str | Sequence[str], relation: str | Sequence[str], object: str | Sequence[str]
    ) -> pl.DataFrame:
        """When facts held, if they did: a row a fact; each argument is a single value or a list.

        Columns: subject, relation, object (labels), begin, end (the span with the best expected aeIOU), probability
        (that it overlaps the true one), low, high (the begin lies there in 80 % of all cases), and known: the spans
        that the KB, any split, states, null if it states none. Begin and end are then those of a further time. `error`
        is as in `rank`.
        """

        def answer(**asked: Any) -> pl.DataFrame:
            s, r, o = self.asking.triples(**asked)
            return when_table(self.kb, s, r, o, self.dates.predict(TimeQueries(s, r, o)))

        given = {"subject": subject, "relation": relation, "object": object}
        return of_all(
            answer,
            self.asking.triples,
            given,
            lambda table, rows: {name: [str(column[row]) for row in rows] for name, column in table.items()},
        )

    def curve(self, subject: str, relation: str, object: str) -> Curve:
        """Pr(t is in the span): how likely each instant belongs to the fact, in sum 1."""
        model = self.dates.model
        queries = model.focus(TimeQueries(*self.asking.triples(subject, relation, object)))
        there = queries.widths(model.evidence)[0] > 0
        instants, likely = queries.instants(model.evidence)[0][there], model.instants(queries)[0][there]
        if queries.axis is not None and instants[-1] - instants[0] < MOST_DAYS:  # an axis of its own has gaps
            every = np.arange(instants[0], instants[-1] + 1)
            instants, likely = every, np.interp(every, instants, likely)
        return Curve(instants, likely / likely.sum(), self.kb.granularity)

    def dating_reasons(self, s: int, r: int, o: int, begin: int, window: tuple[int, int], limit: int) -> list[str]:
        """The facts that speak for a begin rather than for the other instants of a window, in sentences."""
        return list(self.dating_evidence(s, r, o, begin, window, limit).values())

    def dating_evidence(
        self, s: int, r: int, o: int, begin: int, window: tuple[int, int], limit: int
    ) -> dict[int, str]:
        """The sentences of `dating_reasons` by the rows of their facts in `kb.facts`."""
        query = TimeQueries(*(np.array([number]) for number in (s, r, o)))
        others = np.unique(np.linspace(*window, INSTANTS).astype(int))
        return evidence_for(self.kb, self.dates.model, query, begin, others, limit)

    @cached_property
    def ends(self) -> Ends:
        """One end of a fact given the other, and whether it goes on; learned on first use."""
        return Ends(self.kb, self.dates, self.keeper)

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

    @cached_property
    def proposals(self) -> PrecisionModel:
        """How often what `discover` proposes is true; learned on first use."""
        found = PrecisionModel.restored(len(self.kb.relations), self.keeper)
        if found is None:
            found = fit_proposals(self)
            found.keep(self.keeper)
        return found

    def discover(
        self,
        *,
        relation: str | Sequence[str] = (),
        min_probability: float = MIN_PROBABILITY,
        limit: int = LIMIT,
        on_progress: Progress | None = None,
    ) -> pl.DataFrame:
        """The likeliest facts that the KB, any split, does not state: at most `limit`, best first.

        `relation` names one or several (else all that have enough facts); `on_progress` is called with (done, total)
        in entities. Columns: subject, relation, object (ids), begin, end (null if it goes on), probability (see
        `proposals`), reason.
        """
        relations = [relation] if isinstance(relation, str) else relation
        found = discover(self, relations, min_probability, limit, on_progress)
        return pl.concat([pl.DataFrame(schema=SCHEMA), *found])

    @property
    def company(self) -> Coexistence:
        """How often answers have company."""
        return self.links.company

    def ranking_reasons(self, asked: EntityQueries, answers: Sequence[int]) -> list[list[str]]:
        """What speaks for each answer to one question: facts, and how much each pattern adds to its score.

        Of what the KB states nothing more is told.
        """
        shares, told = self.links.who.shares(asked), list[list[str]]()
        stated = self.links.who.known.stated(asked)
        for answer in answers:
            if answer in stated:
                told.append([])
                continue
            parts = sorted((Part(name, float(each[answer])) for name, each in shares.items()), key=strength)
            parts = [part for part in parts if abs(part.value) >= LEAST_SHARE]
            facts = [each.sentence for each in because(self, asked, answer, parts[:TOLD])]
            more = ", ".join(f"{part.name} {part.value:+.2f}" for part in parts)
            told.append([*facts[:TOLD], *([f"more than for the average entity: {more}"] if parts else [])])
        return told

    def explain(
        self, subject: str, relation: str, object: str, *, at: At = ANY_TIME, direction: Direction = "object"
    ) -> Explanation:
        """Why the object, or the subject, is likely as an answer at a time: what each pattern adds, and which facts.

        The parts sum to the score, which is above that of the average entity. A fact that the KB states is no evidence
        for itself.
        """
        return explain(self, subject, relation, object, at, direction)

    def note(self, of: Question = "when") -> str:
        """What a probability means."""
        if of == "rank":
            if not self.links.cases:
                return "Probabilities are not calibrated: the KB has too few facts."
            facts = counted(self.links.cases, "fact")
            return f"A probability is the share of such answers that were right, by {facts} that were asked for."
        if not self.dates.cases:
            return "Probabilities are not calibrated: the KB has too few facts with both dates."
        return (
            "A probability is the share of such spans that overlap the true one, by "
            f"{counted(self.dates.cases, 'fact')} that were asked for as if they were not known."
        )
