"""What anyone sees in the sample's table when a fact is missing in it: the questions of `make demo`."""

import numpy as np
import pytest
from tools.without import without

import timeplex
from timeplex.kb.facts import TemporalKB
from timeplex.patterns.base import Evidence, TimeQueries
from timeplex.patterns.dating import DateModel

HIDDEN = {
    ("Italy", "won", "FIFA World Cup"): (1982, 1982),  # the year that no other has won; in 1990 Germany did
    ("Los Angeles", "hosted", "Summer Olympics"): (1984, 1984),  # not 1964, when it was Tokyo: a year that is free
    ("Helmut Kohl", "headOfGovernment", "Germany"): (1982, 1998),  # Schmidt and Schröder are on both sides
}


@pytest.fixture(scope="module")
def hidden() -> tuple[TemporalKB, DateModel]:
    kb = timeplex.read(without("sample", *(f"{', '.join(fact)}, {begin}" for fact, (begin, _) in HIDDEN.items())))
    return kb, DateModel.fit(Evidence.of(kb))


@pytest.mark.parametrize("fact", HIDDEN, ids=lambda fact: fact[0])
def test_a_hidden_fact_is_dated_as_a_person_would(hidden: tuple[TemporalKB, DateModel], fact: tuple[str, ...]) -> None:
    kb, model = hidden
    s, r, o = kb.entities.find(fact[0]), kb.relations.find(fact[1]), kb.entities.find(fact[2])
    query = TimeQueries(*(np.array([number]) for number in (s, r, o)))
    likely = model.begins(query)[0]
    best = model.evidence.axis[np.argsort(-likely)]
    begin, end = (side[0, 0] for side in model.spans(query))
    if fact[0] == "Los Angeles":  # the table does not tell why there were no games in 1916, 1940 and 1944
        taken = set(kb.facts.begin[(kb.facts.r == r) & (kb.facts.o == o)].tolist())
        assert 1964 in taken
        assert 1984 in best[:4]
        assert not taken & set(best[:4].tolist())
    else:
        assert (begin, end) == HIDDEN[fact]
        assert best[0] == HIDDEN[fact][0]
        assert likely.max() > 0.4
