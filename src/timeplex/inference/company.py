"""How likely a further answer is where the KB has one already.

A calibrated probability is that of an answer *if one is missing*, because it was fitted on questions whose answer had
been taken out. Where the KB states an answer for the middle of the asked time, a further one is missing at most as
often as facts have company:

    company(r, direction) = share of the training facts of r at whose middle another fact answers the same question,

smoothed by one case that has the share of all facts. One head of government leaves little room for a second one; one
member of an organisation says nothing about others.
"""

import numpy as np

from timeplex.evaluation.queries import DIRECTIONS, Direction
from timeplex.inference.who import Known, Questions
from timeplex.kb.dates import Ints
from timeplex.kb.facts import Facts, pair_key
from timeplex.kb.spans import Floats, close


class Company:
    """Shares of facts that have company, by direction and relation; instants from `first` to `last`."""

    def __init__(self, train: Facts, relations: int, first: int, last: int) -> None:
        self._edges = first, last
        begin, end = close(train.span, first, last)
        self.share: dict[Direction, Floats] = {}
        for direction in DIRECTIONS:
            question = pair_key(train.s if direction == "object" else train.o, train.r)
            accompanied = holding(question, begin, end, (begin + end) // 2) > 1
            overall = accompanied.mean() if len(train) else 1.0
            facts, with_company = (np.bincount(train.r, weight, relations) for weight in (None, accompanied))
            self.share[direction] = (with_company + overall) / (facts + 1)

    def factor(self, questions: Questions, known: Known) -> Floats:
        """What the probabilities of new answers are multiplied with: 1 where none is known at the middle, (n,)."""
        answered = np.zeros(len(questions), np.bool_)
        middle = (questions.begin + questions.end) // 2
        for part, query, fact, _ in known.by_parts(questions):
            begin, end = close((known.facts.begin[fact], known.facts.end[fact]), *self._edges)
            at = part.start + query
            answered[at[(begin <= middle[at]) & (middle[at] <= end)]] = True
        return np.where(answered, self.share[questions.direction][questions.r], 1.0)


def holding(question: Ints, begin: Ints, end: Ints, at: Ints) -> Ints:
    """How many facts of the same question, itself among them, hold at an instant of each: all (n,).

    Those that have begun less those that have ended, each found by one search among sorted keys.
    """
    _, group = np.unique(question, return_inverse=True)
    least = int(min(begin.min(initial=0), at.min(initial=0)))
    width = int(max(end.max(initial=0), at.max(initial=0))) - least + 2
    key = group * width + at - least
    begun = np.searchsorted(np.sort(group * width + begin - least), key, side="right")
    ended = np.searchsorted(np.sort(group * width + end - least), key, side="left")
    return np.asarray(begun - ended)
