"""How often what `discover` proposes is true, learned from facts that had been taken out.

The model has not seen the dev facts. So proposals are made as if train were all that is known, and one is right if dev
states it, at whatever time. What `discover` gives a proposal from both sides (`Judged.both`) is mapped to the share of
right ones (`maps`; groups are relations).

A probability is then this: if the KB lacked as many facts as dev has, this share of such proposals would be among them.
A fact that is true but stated nowhere counts as wrong, so that in a KB with many such facts more proposals are true.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

from timeplex.evaluation.queries import DIRECTIONS
from timeplex.inference import maps
from timeplex.inference.calibrate import before_and_after
from timeplex.inference.discover import Search
from timeplex.inference.maps import Map
from timeplex.kb.dates import Ints
from timeplex.kb.facts import Facts
from timeplex.kb.spans import Bools, Floats

if TYPE_CHECKING:
    from timeplex.inference.trained import Trained

MOST_ENTITIES = 10_000
"""About so many entities are asked about, drawn with a fixed seed."""

LEAST_RIGHT = 20
"""With fewer right proposals nothing is fitted."""


class Proposals(BaseModel):
    """What was fitted on dev; `facts` is the number of dev facts, 0 if nothing was."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    map: Map = Map()
    facts: int = 0
    measured: dict[str, float] = {}

    def note(self, known: int) -> str:
        """What a probability means, in a KB with so many known facts."""
        if not self.facts:
            return (
                "Probabilities are not calibrated: fewer than "
                f"{LEAST_RIGHT} dev facts were found again. They are those of an answer if one is missing."
            )
        return (
            f"A probability is the share of such proposals that were found to be true when {self.facts:,} facts "
            f"({self.facts / known:.0%}) had been taken out (expected calibration error {self.measured['after']:.3f})."
        )


@dataclass(frozen=True)
class Cases:
    """Proposals: what both sides give them, whether they are right, and their relation, (n,) each."""

    both: Floats
    right: Bools
    r: Ints


def fit(trained: "Trained") -> Proposals:
    """What dev can tell."""
    kb = trained.kb
    found = cases(trained, kb.train, kb.valid)
    if found.right.sum() < LEAST_RIGHT:
        return Proposals()
    fold = maps.folds(len(found.r))
    fitted, crossed = maps.choose(found.both, found.right, found.r, fold, len(kb.relations))
    return Proposals(map=fitted, facts=len(kb.valid), measured=before_and_after(found.both, crossed, found.right))


def cases(trained: "Trained", known: Facts, true: Facts) -> Cases:
    """What is proposed if `known` is known, each pair once, and whether `true` states it.

    What the KB states outside of both is left out: nobody could take it for wrong.
    """
    search = Search(trained, known)
    everything, truth = Search(trained), Search(trained, true)
    relations = search.enough()
    asked = sum(len(search.entities(r, direction)) for r in relations for direction in DIRECTIONS)
    search.share = min(1.0, MOST_ENTITIES / max(asked, 1))
    both, right, relation = [], [], []
    for r in relations:
        pairs = [np.stack([s, o]) for _, s, o in search.candidates(r)]
        s, o = np.unique(np.concatenate(pairs, axis=1), axis=1)
        of = np.full(len(s), r)
        is_right = truth.stated(s, of, o)
        counts = is_right | ~everything.stated(s, of, o)
        s, of, o = s[counts], of[counts], o[counts]
        both.append(search.judge(s, of, o).both)
        right.append(is_right[counts])
        relation.append(of)
    return Cases(np.concatenate(both), np.concatenate(right), np.concatenate(relation))
