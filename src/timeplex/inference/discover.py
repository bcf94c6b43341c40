"""Facts that are likely true and not in the KB.

`candidates` says which facts are tried. What `rank` says of them is the probability of an answer *if one is missing*.
How often such candidates are true is another question; `proposals` answers it by facts that had been taken out, and
that is their probability.

Only the best are kept: memory is that of a block of questions and of `most` candidates. The result depends on the run
alone, not on the sizes of blocks.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from timeplex.errors import InputError
from timeplex.evaluation.queries import DIRECTIONS
from timeplex.inference.candidates import BLOCK, Judged, Search
from timeplex.inference.explain import begin_position, reasons_text
from timeplex.kb import dates, spans

if TYPE_CHECKING:
    from timeplex.inference.trained import Trained

LEAST = 0.1
"""The least probability, if none is given."""

MOST = 1000
"""The most facts, if no number is given."""

Progress = Callable[[int, int | None], None]
SCHEMA = {
    **dict.fromkeys(("subject", "relation", "object", "begin", "end"), pl.String),
    "probability": pl.Float64,
    "reason": pl.String,
}


@dataclass(frozen=True, order=True)
class Candidate:
    """A fact that may be missing; the greater, the better: by probability, by both sides, then by smaller numbers."""

    probability: float
    both: float
    minus_r: int
    minus_s: int
    minus_o: int
    begin: int
    end: int

    @classmethod
    def of(cls, judged: Judged, row: int, probability: float) -> "Candidate":
        """One of many."""
        columns = (judged.r, judged.s, judged.o, judged.begin, judged.end)
        r, s, o, begin, end = (int(column[row]) for column in columns)
        return cls(probability, float(judged.both[row]), -r, -s, -o, begin, end)

    @property
    def triple(self) -> tuple[int, int, int]:
        """(s, r, o)."""
        return -self.minus_s, -self.minus_r, -self.minus_o


class Best:
    """The best of all candidates that were offered, at most so many, each triple once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._heap: list[Candidate] = []
        self._kept: set[tuple[int, int, int]] = set()

    def offer(self, candidate: Candidate) -> None:
        """Keep it if it is among the best so far."""
        if candidate.triple in self._kept:
            return
        if len(self._heap) < self.most:
            heapq.heappush(self._heap, candidate)
        elif self._heap and candidate > self._heap[0]:
            self._kept.discard(heapq.heapreplace(self._heap, candidate).triple)
        else:
            return
        self._kept.add(candidate.triple)

    def ranked(self) -> list[Candidate]:
        """Best first."""
        return sorted(self._heap, reverse=True)


def discover(
    trained: "Trained",
    *,
    relations: Sequence[str] = (),
    least: float = LEAST,
    most: int = MOST,
    progress: Progress | None = None,
) -> Iterator[pl.DataFrame]:
    """The best facts that the KB lacks, ranked, some rows at a time, with the reason for each.

    relations: only these (all that have enough training facts, if none is given); least: the least probability.
    """
    if not 0 <= least <= 1:
        raise InputError(f"{least} is not a probability.", "Give a number from 0 to 1.")
    if most < 1:
        raise InputError(f"{most} facts cannot be found.", "Give a number of at least 1.")
    best = Best(most)
    search = Search(trained)
    chosen = search.relations(relations)
    total = sum(len(search.entities(r, direction)) for r in chosen for direction in DIRECTIONS)
    done = 0
    for r in chosen:
        for asked, s, o in search.candidates(r):
            judged = search.judge(s, np.full(len(s), r), o)
            probability = trained.proposals(judged.features, judged.both)
            for row in np.flatnonzero(probability >= least).tolist():
                best.offer(Candidate.of(judged, row, float(probability[row])))
            done += asked
            if progress is not None:
                progress(done, total)
    ranked = best.ranked()
    for start in range(0, len(ranked), BLOCK):
        yield table(trained, ranked[start : start + BLOCK])


def table(trained: "Trained", ranked: Sequence[Candidate]) -> pl.DataFrame:
    """As a table with names, dates and reasons."""
    kb, timeline = trained.kb, trained.timeline
    rows = []
    for each in ranked:
        s, r, o = each.triple
        position = int(begin_position(timeline, [each.begin], [each.end])[0])
        why = [*_between(trained, s, o), *reasons_text(trained, s, r, o, position, most=1)]
        is_open = each.begin == spans.OPEN_BEGIN
        span = [None, None] if is_open else dates.write([each.begin, each.end], kb.granularity)
        names = kb.entities[s], kb.relations[r], kb.entities[o]
        reason = "; ".join(why) or "the model alone: no training fact tells more"
        rows.append((*names, *span, round(each.probability, 4), reason))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _between(trained: "Trained", s: int, o: int) -> list[str]:
    """What the KB states of the two entities together, the first fact of it: often the same from the other side."""
    kb = trained.kb
    for row in kb.facts.of_pair(s, o)[:1].tolist():
        fact = kb.facts[row : row + 1]
        one, other = kb.entities.label(int(fact.s[0])), kb.entities.label(int(fact.o[0]))
        when = trained.asking.span_text(int(fact.begin[0]), int(fact.end[0]))
        return [f"the KB has {one} {kb.relations.label(int(fact.r[0]))} {other}, {when}"]
    return []
