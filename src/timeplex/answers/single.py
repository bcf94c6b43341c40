"""One question answered with all that can be said of it: as `timeplex rank` and `timeplex when` show it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timeplex.answers.rank import EntityQueries
from timeplex.answers.resolve import ELSEWHEN
from timeplex.evaluation.plots import Curve, Prediction, when_picture
from timeplex.kb import dates, spans
from timeplex.kb.dates import Granularity
from timeplex.models.scorer import Direction

if TYPE_CHECKING:
    from timeplex.answers.learned import Learned


@dataclass(frozen=True, eq=False)
class RankAnswer:
    """Who or what stands in a relation at a time.

    question  subject, relation, object (labels; None for what is asked for) and at: [begin, end]
    rows      the rows of `Learned.rank`, with the reasons for each as `why` if they were asked for
    company   the share of such facts that have company, if the KB states an answer for that time already
    likely    the span in which it most likely held, where a time is asked for at which the KB states no answer
    """

    direction: Direction
    question: dict[str, Any]
    at: str
    rows: list[dict[str, Any]]
    company: float | None
    likely: str | None = None

    @classmethod
    def of(
        cls,
        learned: "Learned",
        asked: EntityQueries,
        k: int = 10,
        *,
        hide_known: bool = False,
        explain: bool = False,
    ) -> "RankAnswer":
        """Ask a single question, as `Resolver.questions` makes it; with the reasons if `explain`."""
        rows = learned.ranked(asked, k, hide_known=hide_known).drop("query").to_dicts()
        meant = learned.meant(asked)
        if explain:
            told = learned.ranking_reasons(meant, [learned.kb.entities.id(row["id"]) for row in rows])
            for row, why in zip(rows, told, strict=True):
                row["why"] = why
        stated = any(row["known"] and not row["known"].endswith(ELSEWHEN) for row in rows)
        company = float(learned.company.share[asked.direction][asked.r[0]]) if stated else None
        time, likely = (learned.asking.span_text(int(each.begin[0]), int(each.end[0])) for each in (asked, meant))
        is_news = likely != time and company is None
        return cls(asked.direction, _question(learned, asked), time, rows, company, likely if is_news else None)


def _question(learned: "Learned", asked: EntityQueries) -> dict[str, Any]:
    kb = learned.kb
    given = kb.entities.label(int(asked.given[0]))
    return {
        "subject": given if asked.direction == "object" else None,
        "relation": kb.relations.label(int(asked.r[0])),
        "object": given if asked.direction == "subject" else None,
        "at": dates.write([asked.begin[0], asked.end[0]], kb.granularity),
    }


class WhenAnswer:
    """When a fact held.

    row    the row of `Learned.when`
    curve  Pr(t | s, r, o)
    known  the spans that the KB states, as calendar instants
    """

    def __init__(
        self,
        learned: "Learned",
        subject: str,
        relation: str,
        object: str,
    ) -> None:
        self.asked_of = learned
        self.triple = tuple(int(each[0]) for each in learned.asking.triples(subject, relation, object))
        self.row: dict[str, Any] = learned.when(subject, relation, object).row(0, named=True)
        self.curve: Curve = learned.curve(subject, relation, object)
        facts, (s, r, o) = learned.kb.facts, self.triple
        rows = facts.of_subject_relation(s, r)
        self.known = sorted({(begin, end) for _, _, target, begin, end in facts[rows] if target == o})

    def _instants(self, *names: str) -> list[int]:
        return [self.asked_of.asking.span(self.row[name])[0] for name in names]

    @property
    def further(self) -> bool:
        """Whether the span is that of a further time, because the KB states the fact and all it states is evidence."""
        return bool(self.known)

    @cached_property
    def window(self) -> tuple[int, int]:
        """First and last calendar instant worth showing: span, interval and what is known, with a margin."""
        ends = self._instants("begin", "end", "low", "high")
        ends += [each for span in self.known for each in span if each not in (spans.OPEN_BEGIN, spans.OPEN_END)]
        low, high = min(ends), max(ends)
        margin = max(5, (high - low + 1) // 4)
        first, last = max(low - margin, int(self.curve.instants[0])), min(high + margin, int(self.curve.instants[-1]))
        return min(first, last), max(first, last)  # the curve may lie beside them, on a coarse axis

    @property
    def edges(self) -> list[str]:
        """The window as texts."""
        return dates.write(list(self.window), self.curve.granularity)

    def bars(self, columns: int) -> tuple[list[float], int]:
        """Probabilities of at most so many equal parts of the window, and how many calendar instants a part has."""
        first, last = self.window
        width = -(-(last - first + 1) // columns)
        inside = (self.curve.instants >= first) & (self.curve.instants <= last)
        part = (self.curve.instants[inside] - first) // width
        bars = np.bincount(part, self.curve.probability[inside], minlength=-(-(last - first + 1) // width))
        return bars.tolist(), width

    def points(self) -> dict[str, float]:
        """The curve in the window, by date."""
        inside = (self.curve.instants >= self.window[0]) & (self.curve.instants <= self.window[1])
        written = dates.write(self.curve.instants[inside], self.curve.granularity)
        return dict(zip(written, self.curve.probability[inside].tolist(), strict=True))

    def reasons(self, limit: int = 4) -> list[str]:
        """The facts that speak for the begin of the span rather than for the rest of the window."""
        return list(self.evidence(limit).values())

    def evidence(self, limit: int = 4) -> dict[int, str]:
        """The sentences of `reasons` by the rows of their facts in `kb.facts`."""
        s, r, o = self.triple
        return self.asked_of.dating_evidence(s, r, o, self._instants("begin")[0], self.window, limit)

    def draw(self, path: Path) -> None:
        """Draw the curve with the span, the interval and what is known."""
        begin, end, low, high = self._instants("begin", "end", "low", "high")
        title = f"{self.row['subject']}  {self.row['relation']}  {self.row['object']}"
        first, last = dates.coarsen(list(self.window), self.curve.granularity, Granularity.YEAR).tolist()
        found = Prediction(title, self.curve, (begin, end), self.row["probability"], (low, high), self.known)
        when_picture(found, path, (first, last))
