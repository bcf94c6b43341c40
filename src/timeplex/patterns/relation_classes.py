"""Relations by how long their facts last: instant, short or long (appendix D of the paper).

    instant   at most 5 % of the dated facts state an end later than their begin
    short     else, if the mean of end − begin is below 5 years, over the facts with both ends known
    long      else
    undated   no fact has any date

The paper gives examples and no rule. That facts with both ends known begin and end together cannot be the rule: its
hasWonPrize is instant, although the 82 facts of YAGO11k that state both ends are mostly longer. What sets it apart is
that hardly any of its 2,545 facts states a second date at all. So a relation that begins and is never said to end
(`title of chess person` of WIKIDATA12k) is instant, too. The 5 % were set with YAGO11k in view, where any limit from
3.1 to 12.7 % gives the classes of the paper.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB

RelationClass = Literal["instant", "short", "long", "undated"]
RELATION_CLASSES: tuple[RelationClass, ...] = get_args(RelationClass)

MOST_LASTING = 0.05
SHORT_YEARS = 5
INSTANTS_A_YEAR = {Granularity.YEAR: 1.0, Granularity.MONTH: 12.0, Granularity.DAY: 365.2425}


def relation_classes(kb: TemporalKB) -> NDArray[np.str_]:
    """The class of each relation by the training facts, shape (relations,)."""
    facts, relations = kb.train, len(kb.relations)
    open_begin, open_end = spans.is_open(facts.span)
    known = ~open_begin & ~open_end
    length = np.where(known, facts.end.astype(np.int64) - facts.begin, 0)
    dated = np.bincount(facts.r[~(open_begin & open_end)], minlength=relations)
    lasting = np.bincount(facts.r[length > 0], minlength=relations)
    total = np.bincount(facts.r, weights=length, minlength=relations)
    limit = SHORT_YEARS * INSTANTS_A_YEAR[kb.granularity] * np.bincount(facts.r[known], minlength=relations)
    return np.select(
        [dated == 0, lasting <= MOST_LASTING * dated, total < limit], ["undated", "instant", "short"], "long"
    )
