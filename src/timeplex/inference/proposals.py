"""How often what `discover` proposes is true, learned from facts that had been taken out.

The model has not seen the dev facts. So proposals are made as if train were all that is known, and one is right if dev
states it, at whatever time. A logistic regression tells the share of right ones from what is known of a proposal,

    Pr(right) = σ(w · (x − mean) / deviation + b),   x: `candidates.Judged.features`,   ½ |w|² added to the log loss.

What `rank` says is not enough for it: it is about an answer *if one is missing*, and which entities lack one is to be
told by what the KB has of them.

A probability is then this: if the KB lacked as many facts as dev has, this share of such proposals would be among them.
A fact that is true but stated nowhere counts as wrong, so that in a KB with many such facts more proposals are true.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, FiniteFloat
from scipy.optimize import minimize
from scipy.special import expit

from timeplex.evaluation.queries import DIRECTIONS
from timeplex.inference import maps
from timeplex.inference.calibrate import before_and_after
from timeplex.inference.candidates import Search
from timeplex.kb.facts import Facts
from timeplex.kb.spans import Bools, Floats

if TYPE_CHECKING:
    from timeplex.inference.trained import Trained

MOST_ENTITIES = 10_000
"""About so many entities are asked about, drawn with a fixed seed."""

LEAST_RIGHT = 20
"""With fewer right proposals nothing is fitted."""


class Proposals(BaseModel):
    """What was fitted on dev; `facts` is the number of dev facts, 0 if nothing was. `weights` ends with b."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mean: tuple[FiniteFloat, ...] = ()
    deviation: tuple[FiniteFloat, ...] = ()
    weights: tuple[FiniteFloat, ...] = ()
    facts: int = 0
    measured: dict[str, float] = {}

    def __call__(self, features: Floats, both: Floats) -> Floats:
        """Probabilities of proposals, (n,), from their features (n, f), or `both` (n,) if nothing was fitted."""
        if not self.facts:
            return both
        x = (features - np.array(self.mean)) / np.array(self.deviation)
        probability: Floats = expit(x @ np.array(self.weights[:-1]) + self.weights[-1])
        return probability

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
    """Proposals: their features (n, f), what `rank` gives them from both sides, and whether they are right: (n,)."""

    features: Floats
    both: Floats
    right: Bools


def fit(trained: "Trained") -> Proposals:
    """What dev can tell; `after` is measured on cases that had no part in fitting (five folds)."""
    kb = trained.kb
    found = cases(trained, kb.train, kb.valid)
    if found.right.sum() < LEAST_RIGHT:
        return Proposals()
    crossed, fold = np.empty(len(found.both)), maps.folds(len(found.both))
    for each in np.unique(fold):
        here = fold == each
        crossed[here] = _fitted(found.features[~here], found.right[~here])(found.features[here], found.both[here])
    whole = _fitted(found.features, found.right)
    measured = before_and_after(found.both, crossed, found.right)
    return whole.model_copy(update={"facts": len(kb.valid), "measured": measured})


def cases(trained: "Trained", known: Facts, true: Facts) -> Cases:
    """What is proposed if `known` is known, each pair once, and whether `true` states it.

    What the KB states outside of both is left out: nobody could take it for wrong.
    """
    search = Search(trained, known)
    everything, truth = Search(trained), Search(trained, true)
    relations = search.enough()
    asked = sum(len(search.entities(r, direction)) for r in relations for direction in DIRECTIONS)
    search.share = min(1.0, MOST_ENTITIES / max(asked, 1))
    features, both, right = [], [], []
    for r in relations:
        pairs = [np.stack([s, o]) for _, s, o in search.candidates(r)]
        s, o = np.unique(np.concatenate(pairs, axis=1), axis=1)
        of = np.full(len(s), r)
        is_right = truth.stated(s, of, o)
        counts = is_right | ~everything.stated(s, of, o)
        judged = search.judge(s[counts], of[counts], o[counts])
        features.append(judged.features)
        both.append(judged.both)
        right.append(is_right[counts])
    return Cases(np.concatenate(features), np.concatenate(both), np.concatenate(right))


def _fitted(features: Floats, right: Bools) -> Proposals:
    """The regression on some cases; `facts` only says that it is fitted."""
    mean, deviation = features.mean(0), features.std(0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    x = np.column_stack([(features - mean) / deviation, np.ones(len(features))])

    def loss(weights: Floats) -> tuple[float, Floats]:
        z, shrunk = x @ weights, np.append(weights[:-1], 0.0)
        value = np.sum(np.logaddexp(0, z) - right * z) + shrunk @ shrunk / 2
        return float(value), x.T @ (expit(z) - right) + shrunk

    weights = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x
    return Proposals(
        mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()), weights=tuple(weights.tolist()), facts=1
    )
