"""What a model has learned of time, beyond ranks: orderings it breaks, how its instants lie, when it dates a fact.

These are the paper's diagnostics: its table 4 (`top_subjects`, `violations`), figure 2 (`time_distances`) and figure 3
(`across_time`). `plots` draws the last two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from timeplex.errors import InputError
from timeplex.evaluation.plots import Curve, Distances, Years
from timeplex.evaluation.ranking import CHUNK_BYTES, EntityScorer, PlacedFacts
from timeplex.evaluation.time_prediction import TimeScorer
from timeplex.kb import dates, spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, Index, pair_key
from timeplex.kb.timeline import Timeline
from timeplex.models.base import Model
from timeplex.patterns.orderings import Ordering
from timeplex.typing import Floats, Ints

MOST_PAIRS = 1 << 24
"""About so many pairs of instants are compared at a time."""

LEAST_PAIRS = 30
"""A gap between fewer pairs of instants than this says more about the pairs than about the gap."""


# Orderings that top predictions break ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Violations:
    """Where a predicted subject breaks an ordering, one row a breach, by query: arrays of shape (m,).

    Query `query` got the answer `subject`, whose training fact `fact` stands on the wrong side of it by the mined
    ordering number `ordering`. A query may have several breaches.
    """

    query: Ints
    subject: Ints
    ordering: Ints
    fact: Ints
    queries: int  # how many were asked

    @property
    def share(self) -> float:
        """The queries with at least one breach, as a share of all; 0 if none was asked."""
        return len(np.unique(self.query)) / self.queries if self.queries else 0.0


@torch.no_grad()
def top_subjects(
    scorer: EntityScorer, queries: PlacedFacts, *, entities: int, device: torch.device | None = None
) -> Ints:
    """The entity with the highest score for each query (?, r, o, T): shape (n,).

    It is the plain first answer: known answers are not passed over, since what is asked is whether an answer can be
    true at that time, and not whether it is new. Of entities that tie, the one with the lowest number is taken.
    """
    device = device or torch.device("cpu")
    top = np.empty(len(queries), np.int64)
    size = max(1, CHUNK_BYTES // (4 * entities))
    for start in range(0, len(queries), size):
        stop = min(start + size, len(queries))
        _, r, o, span = queries.rows(start, stop).tensors(device)
        top[start:stop] = scorer.subjects(r, o, span).argmax(1).cpu().numpy()
    return top


def violations(subjects: Ints, queries: Facts, known: Facts, orderings: Sequence[Ordering]) -> Violations:
    """Which predicted subjects, shape (n,) for n queries (?, r, o, [t, ·]), contradict the known facts.

    Subject e breaks r₁ → r₂ if the answer (e, r, o, t) and a known fact (e, r', ·, t') are these two relations and the
    second begins before the first. The same instant is no breach: in data by years it may well be right. Begins that
    are not known break nothing.
    """
    ordered = [(ordering.first, ordering.second) for ordering in orderings]
    first, second = np.array(ordered, np.int64).reshape(-1, 2).T
    dated_facts = np.flatnonzero(known.has_begin)
    index = Index(pair_key(known.s[dated_facts], known.r[dated_facts]))
    dated_queries = queries.begin != spans.OPEN_BEGIN
    found = []
    # The query is one side of the ordering and the known fact the other: asked as second, or as first.
    for asked, stated, sign in ((second, first, 1), (first, second, -1)):
        query, ordering = np.nonzero((queries.r[:, None] == asked[None, :]) & dated_queries[:, None])
        row, match = index.matches(pair_key(subjects[query], stated[ordering]))
        fact = dated_facts[match]
        query, ordering = query[row], ordering[row]
        later = known.begin[fact].astype(np.int64) - queries.begin[query]
        broken = sign * later > 0
        found.append(np.stack([query[broken], ordering[broken], fact[broken]]))
    together = np.concatenate(found, axis=1)
    query, ordering, fact = together[:, np.lexsort(together[::-1])]
    return Violations(query, subjects[query], ordering, fact, len(queries))


# Distances of time embeddings ------------------------------------------------------------------------------------


def time_distances(
    model: Model, timeline: Timeline, years: Years | None = None, least_pairs: int = LEAST_PAIRS
) -> Distances:
    """Mean L2 distance of time embeddings by gap: mean of ‖t − t'‖ over all t < t' of the window with t' − t = gap.

    Gaps are counted on the calendar, in the timeline's granularity, whatever instants the timeline passes over. Gaps
    with fewer than `least_pairs` pairs are left out.
    """
    table = model.time_table()
    if table is None:
        raise InputError(f"{model.name} has no embeddings of instants.", "Choose a model such as timeplex-base.")
    inside = _inside(timeline, years)
    vectors = table.detach()[torch.from_numpy(inside).to(table.device)].flatten(1).double().cpu()
    instants = timeline.instants[inside]
    gap: Ints = np.empty(0, np.int64)
    total: Floats = np.empty(0)
    pairs: Ints = np.empty(0, np.int64)
    rows = max(1, MOST_PAIRS // max(1, len(vectors)))
    for start in range(0, len(vectors), rows):
        one, other = np.triu_indices(min(rows, len(vectors) - start), k=1, m=len(vectors) - start)
        # The usual short cut by a matrix product loses the small distances, which are the ones of interest.
        part = torch.cdist(vectors[start : start + rows], vectors[start:], compute_mode="donot_use_mm_for_euclid_dist")
        apart = part.numpy()[one, other]
        here = instants[start + other] - instants[start + one]
        gap, where = np.unique(np.append(gap, here), return_inverse=True)
        total = np.bincount(where, np.append(total, apart), minlength=len(gap)).astype(np.float64)
        pairs = np.bincount(where, np.append(pairs, np.ones(len(here))), minlength=len(gap)).astype(np.int64)
    mean = total / pairs
    enough = pairs >= least_pairs
    return Distances(gap[enough], mean[enough], pairs[enough], timeline.granularity)


def _inside(timeline: Timeline, years: Years | None) -> Ints:
    """Positions of the instants that lie in the given years."""
    if years is None:
        return np.arange(len(timeline))
    year = dates.coarsen(timeline.instants, timeline.granularity, Granularity.YEAR)
    return np.flatnonzero((year >= years[0]) & (year <= years[1]))


# Scores across time ----------------------------------------------------------------------------------------------


@torch.no_grad()
def across_time(
    scorers: Mapping[str, tuple[TimeScorer, Timeline]],
    fact: tuple[int, int, int],
    years: Years = (1850, 2010),
    device: torch.device | None = None,
) -> dict[str, Curve]:
    """Pr(t | s, r, o) by each named scorer, for the instants of its own timeline that lie in the window.

    Pr = softmax of the scores over the whole timeline, so that a window does not flatter a model which expects the fact
    elsewhere. The scorers must number entities and relations alike, as those trained on one KB do.
    """
    s, r, o = (torch.tensor([number], device=device) for number in fact)
    curves = {}
    for name, (scorer, timeline) in scorers.items():
        probability = torch.softmax(scorer.times(s, r, o)[0].double(), 0).cpu().numpy()
        inside = _inside(timeline, years)
        curves[name] = Curve(timeline.instants[inside], probability[inside], timeline.granularity)
    return curves
