"""A KB that is asked without training answers as a person with the table would."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import timeplex
from timeplex import Learned, TemporalKB
from timeplex.errors import InputError
from timeplex.patterns.base import SIDES, TimeQueries
from timeplex.patterns.dating import DateModel, Fitted

Row = tuple[str, str, str, int, int]


def rows() -> Iterator[Row]:
    """Governments one after the other, games every four years, marriages from both sides, births before."""
    chance = np.random.default_rng(0)
    for country in range(12):
        year = 1900 + int(chance.integers(8))
        for number in range(16):
            who, until = f"head {country}-{number}", year + int(chance.integers(2, 11))
            yield who, "governs", f"country {country}", year, until
            yield who, "bornIn", f"country {country}", *[year - int(chance.integers(40, 60))] * 2
            wed = year - int(chance.integers(5, 20))
            yield who, "marriedTo", f"spouse {country}-{number}", wed, wed + 30
            yield f"spouse {country}-{number}", "marriedTo", who, wed, wed + 30
            year = until
    for games in range(6):
        for number in range(24):
            yield f"town {games}-{number}", "hosted", f"games {games}", *[1900 + games % 4 + 4 * number] * 2
            yield f"town {games}-{number}", "foundedIn", "country 0", *[int(chance.integers(1700, 1850))] * 2


HIDDEN = [
    ("head 3-7", "governs", "country 3"),
    ("head 8-9", "governs", "country 8"),
    ("spouse 5-5", "marriedTo", "head 5-5"),
    ("town 2-11", "hosted", "games 2"),
    ("town 4-7", "hosted", "games 4"),
]


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return timeplex.read([row for row in rows() if row[:3] not in HIDDEN])


@pytest.fixture(scope="module")
def learned(kb: TemporalKB) -> Learned:
    return timeplex.learn(kb)


@pytest.mark.parametrize("asked", HIDDEN)
def test_what_the_table_shows_is_answered(learned: Learned, asked: tuple[str, str, str]) -> None:
    truth = next(row for row in rows() if row[:3] == asked)
    answer = learned.when(*asked).row(0, named=True)
    assert (int(answer["begin"]), int(answer["end"])) == truth[3:]
    assert int(answer["low"]) <= truth[3] <= int(answer["high"])
    assert answer["known"] is None


def test_reasons_name_the_facts_behind(learned: Learned) -> None:
    asked = HIDDEN[0]
    begin = int(learned.when(*asked)["begin"][0])
    s, r, o = (int(number[0]) for number in learned.asking.triples(*asked))
    said = learned.dating_reasons(s, r, o, begin, (begin - 30, begin + 30), 4)
    assert any(f"head 3-6 governs country 3 ended {begin}" in sentence for sentence in said)
    mirrored = HIDDEN[2]
    begin = int(learned.when(*mirrored)["begin"][0])
    s, r, o = (int(number[0]) for number in learned.asking.triples(*mirrored))
    said = learned.dating_reasons(s, r, o, begin, (begin - 30, begin + 30), 1)
    assert said[0].startswith(f"head 5-5 marriedTo spouse 5-5 began {begin}; marriedTo is the same year in ")


def test_what_is_stated_is_told_as_stated(learned: Learned) -> None:
    answer = learned.when("head 1-4", "governs", "country 1").row(0, named=True)
    stated = next(row for row in rows() if row[:3] == ("head 1-4", "governs", "country 1"))
    assert answer["known"] == f"{stated[3]}–{stated[4]}"


def test_easy_facts_do_not_make_the_intervals_of_hard_ones_narrow(learned: Learned) -> None:
    """Most dates of this KB are sure: an interval with next to nothing in it would hold four fifths of them."""
    assert learned.dates.level >= 0.8


def test_a_curve_is_a_distribution_that_the_span_stands_out_of(learned: Learned) -> None:
    curve = learned.curve(*HIDDEN[0])
    assert curve.probability.sum() == pytest.approx(1)
    truth = next(row for row in rows() if row[:3] == HIDDEN[0])
    inside = (curve.instants >= truth[3]) & (curve.instants <= truth[4])
    assert curve.probability[inside].sum() > 0.5


def test_the_shares_of_facts_sum_to_the_features(kb: TemporalKB, learned: Learned) -> None:
    model = learned.dates.model
    facts = kb.facts[::97]
    queries = TimeQueries.of(facts, np.arange(len(kb.facts))[::97])
    for at in range(len(facts)):
        place = (37 * at) % len(model.evidence.axis)
        for side in SIDES:
            for pattern in model.fitted.patterns:
                features = pattern.years(queries[at : at + 1], side)[0, :, place]
                shares = [because.values for because in pattern.because(queries[at : at + 1], side, place)]
                assert np.allclose(features, sum(shares, np.zeros(len(features))), atol=1e-4), pattern.name


def test_a_fact_does_not_vouch_for_itself(kb: TemporalKB, learned: Learned) -> None:
    """A planted fact far from all others is not dated by what it says itself, whether it is removed or left out."""
    planted = timeplex.read(
        [*(row for row in rows() if row[:3] not in HIDDEN), ("stranger", "governs", "country 0", 1700, 1700)]
    )
    del kb
    from timeplex.patterns.base import Evidence

    everything = Evidence.of(planted, planted.facts)
    own = int(np.flatnonzero(planted.facts.begin == 1700)[0])
    asked = planted.facts[own : own + 1]
    fitted = Fitted.of(everything, np.arange(len(everything)) != own)
    model = DateModel(everything, fitted, learned.dates.model.weights)
    alone, left_out = (model.begins(TimeQueries.of(asked, number)) for number in (None, np.array([own])))
    there = int(np.searchsorted(everything.axis, 1700))
    assert left_out[0, there] < alone[0, there]
    assert left_out[0, there] < 0.01


def test_the_same_kb_gives_the_same_answers(kb: TemporalKB, learned: Learned) -> None:
    columns = list(zip(*HIDDEN, strict=True))
    again = timeplex.learn(kb).when(*map(list, columns))
    assert again.equals(learned.when(*map(list, columns)))


def test_a_kb_without_enough_facts_answers_uncalibrated() -> None:
    few = timeplex.learn(
        [("Ada", "bornIn", "London", 1815), ("Ada", "diedIn", "London", 1852), ("Bob", "bornIn", "Rome", 1900)]
    )
    answer = few.when("Bob", "bornIn", "London").row(0, named=True)
    assert 0 <= answer["probability"] <= 1
    assert "not calibrated" in few.note()


@pytest.mark.parametrize("asked", [HIDDEN[0], HIDDEN[2]])
def test_who_is_missing_at_a_time(learned: Learned, asked: tuple[str, str, str]) -> None:
    """The one who governed between two others, and who is married to whom, if the other side says so."""
    s, r, o, begin, end = next(row for row in rows() if row[:3] == asked)
    objects = learned.rank(subject=s, relation=r, at=(begin, end), k=3)
    assert objects["entity"][0] == o
    assert objects["known"][0] is None
    assert objects["probability"].is_sorted(descending=True)


def test_what_is_stated_comes_first_and_has_no_probability(learned: Learned) -> None:
    s, r, o, begin, end = next(row for row in rows() if row[:3] == ("head 1-4", "governs", "country 1"))
    found = learned.rank(object=o, relation=r, at=(begin + 1, begin + 1), k=5)
    assert found.row(0)[2:] == (s, s, None, f"{begin}–{end}")
    assert found["probability"][1:].null_count() == 0
    assert found["rank"].to_list() == [1, 2, 3, 4, 5]
    hidden = learned.rank(object=o, relation=r, at=(begin + 1, begin + 1), k=4, hide_known=True)
    assert hidden["entity"].to_list() == found["entity"][1:].to_list()
    many = learned.rank(object=[o, "country 2"], relation=r, at=[(begin + 1, begin + 1)] * 2, k=5)
    assert many.filter(pl.col("query") == 0).drop("query", "error").equals(found.drop("query"))


def test_shares_of_patterns_tell_candidates_apart_as_scores_do(learned: Learned) -> None:
    asked = learned.asking.questions(relation="governs", at=(1950, 1952), object="country 3")
    who = learned.links.who
    seen = who.model.evidence.facts.mentioned(who.model.evidence.entities)
    scores = who.scores(asked).double().numpy()[0]
    apart = (scores - sum(who.shares(asked).values()))[seen]
    assert np.ptp(scores[seen]) > 1
    assert np.ptp(apart) < 1e-4


def test_without_a_time_any_is_meant(learned: Learned) -> None:
    answer = learned.rank(relation="governs", object="country 3", k=100)
    heads = {row[0] for row in rows() if row[1:3] == ("governs", "country 3") and row[:3] not in HIDDEN}
    assert set(answer.filter(pl.col("probability").is_null())["entity"]) == heads
    assert answer.equals(learned.rank(relation="governs", object="country 3", at="..", k=100))


def test_one_bad_question_does_not_stop_the_others(learned: Learned) -> None:
    people, countries = ["head 3-7", "nobody", "head 8-9", "head 1-4"], ["country 3", "country 3", "country 8", "land"]
    found = learned.when(people, "governs", countries)
    assert found["error"].is_not_null().to_list() == [False, True, False, True]
    assert "unknown entity 'nobody'" in found["error"][1]
    assert found["subject"].to_list() == people
    assert found["begin"].is_null().to_list() == [False, True, False, True]
    alone = learned.when([people[0], people[2]], "governs", [countries[0], countries[2]])
    assert found[[0, 2]].equals(alone)
    at = [1950, "soon", 1950, 1850]
    ranked = learned.rank(object=countries, relation="governs", at=at, k=2)
    assert ranked["query"].to_list() == [0, 0, 1, 2, 2, 3]
    assert ranked["error"].is_null().to_list() == [True, True, False, True, True, False]
    assert "'soon' is not a date" in ranked["error"][2]
    assert ranked[:2].drop("error").equals(learned.rank(object="country 3", relation="governs", at=1950, k=2))
    none = learned.when(["nobody"], "governs", "country 3")
    assert (len(none), none["begin"][0]) == (1, None)
    with pytest.raises(InputError, match="different lengths"):
        learned.when(people, "governs", countries[:2])
    with pytest.raises(InputError, match="Neither a subject nor"):
        learned.rank(relation=["governs"])


def test_the_future_can_be_asked_about(learned: Learned) -> None:
    last = learned.timeline.last
    for at in (last + 3, f"{last + 2}..", (last + 1, last + 9)):
        found = learned.rank(object="country 3", relation="governs", at=at, k=3)
        assert len(found) == 3
        assert found["probability"].null_count() == 0
    with pytest.raises(InputError, match="outside of the timeline"):
        learned.rank(object="country 3", relation="governs", at=9999)
    with pytest.raises(InputError, match="ends before it begins"):
        learned.rank(object="country 3", relation="governs", at=f"{last + 9}..{last + 5}")


def test_a_time_asks_for_what_held_then(learned: Learned) -> None:
    """`rank` weighs the spans that a question may mean, each as a question of its own would be answered."""
    who = learned.links.who
    asked = learned.asking.questions(relation="governs", at=1950, object="country 3")
    assert who.likely is not None
    begin, end, share = who.likely.of(who.asked(asked))
    assert begin[0, 0] <= 1950 <= end[0, 0]
    assert 0 < share[0, 0] <= 1
    expected = np.zeros(len(learned.kb.entities))
    for low, high, each in zip(begin[0], end[0], share[0], strict=True):
        span = {"begin": np.array([low]), "end": np.array([high]), "at_a_time": np.array([False])}
        one = who.scores(replace(asked, **span)).double().numpy()[0]  # type: ignore[arg-type]
        expected += each * np.exp(one - one.max()) / np.exp(one - one.max()).sum()
    found = np.exp(who.scores(asked).double().numpy()[0])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    s, r, o, first, last = next(row for row in rows() if row[:3] == HIDDEN[0])
    for year in range(first, last + 1):
        assert learned.rank(subject=s, relation=r, at=year, k=1)["entity"][0] == o
    assert learned.meant(learned.asking.questions(relation=r, at=first + 1, object=o)).begin[0] == first
