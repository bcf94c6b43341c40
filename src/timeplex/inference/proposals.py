"""How often what `discover` proposes is true, learned from facts that had been taken out.

The model has not seen the dev facts. So proposals are made as if train were all that is known, and one is right if dev
states it, at whatever time. A logistic regression tells the share of right ones from what is known of a proposal,

    Pr(right) = σ(w · (x − mean) / deviation + b),   x: `candidates.Judged.features`,   ½ |w|² added to the log loss.

What `rank` says is not enough for it: it is about an answer *if one is missing*, and which entities lack one is to be
told by what the KB has of them.

A probability is then this: if the KB lacked as many facts as dev has, this share of such proposals would be among them.
A fact that is true but stated nowhere counts as wrong, so that in a KB with many such facts more proposals are true.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, FiniteFloat

from timeplex.evaluation.queries import DIRECTIONS
from timeplex.inference import maps
from timeplex.inference.candidates import FEATURES, Search
from timeplex.kb.facts import Facts
from timeplex.kb.spans import Bools, Floats

if TYPE_CHECKING:
    from timeplex.inference.trained import Trained

MOST_ENTITIES = 10_000
"""About so many entities are asked about, drawn with a fixed seed."""

FIRST = 50
"""So many of the likeliest proposals say how far the probabilities can be believed: nearly all others are said to be
wrong, and are, so that a mean over all of them would be flattering."""

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

    def fits(self) -> bool:
        """Whether it can be used, which a stored one need not."""
        return (
            len(self.mean) == len(self.deviation) == max(len(self.weights) - 1, 0)
            and len(self.mean) in (0, FEATURES)
            and all(deviation > 1 / maps.LARGEST for deviation in self.deviation)
            and all(abs(number) <= maps.LARGEST for number in (*self.mean, *self.weights))
            and (not self.facts or {"cases", "said", "right"} <= self.measured.keys())
            and all(math.isfinite(figure) for figure in self.measured.values())
        )

    def __call__(self, features: Floats, both: Floats) -> Floats:
        """Probabilities of proposals, (n,), from their features (n, f), or `both` (n,) if nothing was fitted."""
        if not self.weights:
            return both
        x = (features - np.array(self.mean)) / np.array(self.deviation)
        return maps.sigmoid(x @ np.array(self.weights[:-1]) + self.weights[-1])

    def note(self, known: int) -> str:
        """What a probability means, in a KB with so many known facts."""
        if not self.facts:
            return (
                "Probabilities are not calibrated: fewer than "
                f"{LEAST_RIGHT} dev facts were found again. They are those of an answer if one is missing."
            )
        cases, said, right = (self.measured[key] for key in ("cases", "said", "right"))
        return (
            f"A probability is the share of such proposals that were found to be true when {self.facts:,} facts "
            f"({self.facts / known:.0%}) had been taken out: of the likeliest {cases:.0f}, {cases * right:.0f} were, "
            f"and {cases * said:.0f} had been expected."
        )


@dataclass(frozen=True)
class Cases:
    """Proposals: their features (n, f), what `rank` gives them from both sides, and whether they are right: (n,)."""

    features: Floats
    both: Floats
    right: Bools


def fit(trained: "Trained") -> Proposals:
    """What dev can tell; `measured` is by cases that had no part in fitting (five folds)."""
    kb = trained.kb
    found = cases(trained, kb.train, kb.valid)
    if found.right.sum() < LEAST_RIGHT:
        return Proposals()
    crossed, fold = np.empty(len(found.both)), maps.folds(len(found.both))
    for each in np.unique(fold):
        here = fold == each
        crossed[here] = _fitted(found.features[~here], found.right[~here])(found.features[here], found.both[here])
    whole = _fitted(found.features, found.right)
    return whole.model_copy(update={"facts": len(kb.valid), "measured": first(crossed, found.right)})


def cases(trained: "Trained", known: Facts, true: Facts) -> Cases:
    """What is proposed if `known` is known, each pair once, and whether `true` states it.

    What the KB states outside of both is left out: nobody could take it for wrong.
    """
    search = Search(trained, known)
    relations = search.enough()
    asked = sum(len(search.entities(r, direction)) for r in relations for direction in DIRECTIONS)
    search.share = min(1.0, MOST_ENTITIES / max(asked, 1))
    features, both, right = [np.empty((0, FEATURES))], [np.empty(0)], [np.empty(0, np.bool_)]
    for r in relations:
        pairs = [np.stack([s, o]) for _, s, o in search.candidates(r)]
        s, o = np.unique(np.concatenate(pairs, axis=1), axis=1)
        of = np.full(len(s), r)
        is_right = true.states(s, of, o)
        counts = is_right | ~trained.kb.facts.states(s, of, o)
        judged = search.judge(s[counts], of[counts], o[counts])
        features.append(judged.features)
        both.append(judged.both)
        right.append(is_right[counts])
    return Cases(np.concatenate(features), np.concatenate(both), np.concatenate(right))


def first(said: Floats, right: Bools, number: int = FIRST) -> dict[str, float]:
    """Of the likeliest proposals: how many they are, what they were said to be, and the share that is right."""
    best = np.argsort(-said, kind="stable")[:number]
    return {"cases": float(len(best)), "said": float(said[best].mean()), "right": float(right[best].mean())}


def _fitted(features: Floats, right: Bools) -> Proposals:
    """The regression on some cases."""
    mean, deviation = features.mean(0), features.std(0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    weights = maps.logistic((features - mean) / deviation, right.astype(float), np.zeros(len(mean) + 1), shrink=1.0)
    return Proposals(mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()), weights=tuple(weights))
