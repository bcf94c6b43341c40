"""Explanations: the parts sum to what is ranked by, the reasons to their part, in the words of the gadgets."""

import json
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.answers.small_runs import trained

from timeplex.answers.explain import begin_position, dating_reasons, explain, explain_numbers, reasons_text
from timeplex.errors import InputError, UnknownNameError
from timeplex.kb.dates import Granularity
from timeplex.kb.timeline import Timeline


@pytest.mark.parametrize("kind", ["gadgets", "plain", "inverse", "static"])
def test_parts_sum_to_the_score_and_reasons_to_their_part(kind: str) -> None:
    run = trained(kind).run
    entities, relations = len(run.kb.entities), len(run.kb.relations)

    @settings(max_examples=40, deadline=None)
    @given(
        s=st.integers(0, entities - 1),
        r=st.integers(0, relations - 1),
        o=st.integers(0, entities - 1),
        t=st.integers(0, len(run.timeline) - 1),
        fact=st.none() | st.integers(0, len(run.kb.train) - 1),
    )
    def holds(s: int, r: int, o: int, t: int, fact: int | None) -> None:
        if fact is not None:  # so that some questions are about entities that are known together
            s, r, o = (int(column[fact]) for column in (run.kb.train.s, run.kb.train.r, run.kb.train.o))
        ask = [torch.tensor([number]) for number in (s, r, o, t)]
        span = (ask[3], ask[3])
        scores = {
            "object": float(run.scorer.objects(ask[0], ask[1], span)[0, o]),
            "subject": float(run.scorer.subjects(ask[1], ask[2], span)[0, s]),
        }
        for direction in ("object", "subject"):
            found = explain_numbers(run, s, r, o, t, direction)  # type: ignore[arg-type]
            close = pytest.approx(scores[direction], abs=1e-3, rel=1e-4)
            assert found.score == close
            assert sum(part.value for part in found.parts) == close
            for name in run.gadgets:
                part = next(part.value for part in found.parts if part.name == name)
                assert sum(why.value for why in found.reasons if why.gadget == name) == pytest.approx(part, abs=1e-4)
            sizes = [abs(why.value) for why in found.reasons]
            assert sizes == sorted(sizes, reverse=True)

    holds()


def test_the_parts_of_each_model_have_names() -> None:
    names = {
        kind: [part.name for part in explain_numbers(trained(kind).run, 0, 0, 1, 0).parts] for kind in ("inverse",)
    }
    assert names["inverse"] == ["model: at this time", "model: at all times", "recurrence", "pair"]
    assert [part.name for part in explain_numbers(trained("plain").run, 0, 0, 1, 0).parts] == [
        "model: subject, relation, object",
        "model: subject, relation, time",
        "model: object, relation, time",
        "model: subject, object, time",
    ]
    assert [part.name for part in explain_numbers(trained("static").run, 0, 0, 1, 0).parts] == ["model: score"]


def a_fact() -> tuple[str, str, str, int]:
    """The first training fact with a neighbour that speaks about it, in names and with its year."""
    kb = trained().kb
    for s, r, o, begin, _ in kb.train:
        t = int(begin_position(trained().run.timeline, [begin], [begin])[0])
        if len(reasons_text(trained(), s, r, o, t)) == 2:
            return kb.entities[s], kb.relations[r], kb.entities[o], begin
    raise AssertionError("no fact has two reasons")


def test_names_dates_and_spans() -> None:
    subject, relation, object_, year = a_fact()
    found = trained().explain(subject, relation, object_, at=year)
    assert found.question == f"{subject} {relation} {object_}"
    assert (found.at, found.note) == (str(year), "")
    span = trained().explain(subject, relation, object_, at=(year, year + 3))
    assert span.note == f"The span {year}–{year + 3} is explained at its begin, {year}."
    assert span.parts == found.parts
    assert span.reasons == found.reasons
    assert json.loads(json.dumps(found.as_dict()))["reasons"][0]["sentence"] == found.reasons[0].sentence


def test_reasons_name_the_fact_and_come_in_order() -> None:
    subject, relation, object_, year = a_fact()
    kb = trained().kb
    found = trained().explain(subject, relation, object_, at=year)
    for why in found.reasons:
        assert why.sentence.startswith(why.fact)
        assert (why.side != "subject") or why.fact.startswith(f"{subject} ")
    s, r, o = kb.entities.id(subject), kb.relations.id(relation), kb.entities.id(object_)
    t = int(begin_position(trained().run.timeline, [year], [year])[0])
    assert reasons_text(trained(), s, r, o, t, most=2) == [why.sentence for why in found.reasons[:2]]
    assert reasons_text(trained(), s, r, o, t, most=1) == [found.reasons[0].sentence]
    assert reasons_text(trained("plain"), s, r, o, t) == []


def test_reasons_for_a_date_are_those_that_tell_it_from_others() -> None:
    """What a fact says of this instant above its mean at the others, from whole explanations; weak ones left out."""
    subject, relation, object_, year = a_fact()
    run = trained().run
    s, r, o = run.kb.entities.id(subject), run.kb.relations.id(relation), run.kb.entities.id(object_)
    t = int(begin_position(run.timeline, [year], [year])[0])
    others = [position for position in range(len(run.timeline)) if position != t][::3]

    def values(position: int) -> dict[tuple[str, str, str], float]:
        found = explain_numbers(run, s, r, o, position)
        return {(why.gadget, why.side, why.fact): why.value for why in found.reasons}

    here, elsewhere = values(t), [values(position) for position in others]
    lead = {key: value - sum(each.get(key, 0.0) for each in elsewhere) / len(others) for key, value in here.items()}
    best = sorted(lead, key=lambda key: -lead[key])
    told = [key[2] for key in best if lead[key] > 0.1 * lead[best[0]]]
    said = dating_reasons(trained(), s, r, o, t, others, most=len(best))
    assert 0 < len(told) < len(best)
    assert [sentence.startswith(fact) for sentence, fact in zip(said, told, strict=True)] == [True] * len(told)
    assert dating_reasons(trained(), s, r, o, t, others, most=1) == said[:1]
    assert dating_reasons(trained("plain"), s, r, o, t, others, most=4) == []


def test_a_gadget_counts_with_its_strength() -> None:
    subject, relation, object_, year = a_fact()
    run = trained().run
    pair = run.gadgets["pair"]
    before = trained().explain(subject, relation, object_, at=year)
    strength = pair.strength.clone()
    try:
        pair.strength.mul_(3)
        after = trained().explain(subject, relation, object_, at=year)
    finally:
        pair.strength.copy_(strength)
    parts = [{part.name: part.value for part in each.parts}["pair"] for each in (before, after)]
    assert parts[1] == pytest.approx(3 * parts[0])
    values = [sum(why.value for why in each.reasons if why.gadget == "pair") for each in (before, after)]
    assert values == pytest.approx(parts)


def test_inverse_relations_have_two_readings() -> None:
    subject, relation, object_, year = a_fact()
    readings = [explain(trained("inverse"), subject, relation, object_, year, way) for way in ("object", "subject")]
    assert readings[0].score != readings[1].score
    assert readings[0] == trained("inverse").explain(subject, relation, object_, at=year)
    same = [explain(trained("plain"), subject, relation, object_, year, way) for way in ("object", "subject")]
    assert same[0] == same[1]


def test_what_cannot_be_explained() -> None:
    subject, relation, object_, _ = a_fact()
    with pytest.raises(UnknownNameError, match="unknown entity 'Nobody at all'"):
        trained().explain("Nobody at all", relation, object_, at=2000)
    with pytest.raises(UnknownNameError, match="unknown relation"):
        trained().explain(subject, "flewWith", object_, at=2000)
    with pytest.raises(InputError, match="is not a date"):
        trained().explain(subject, relation, object_, at="soon")
    with pytest.raises(InputError, match="outside of the timeline"):
        trained().explain(subject, relation, object_, at=9999)


def test_an_instant_that_was_not_observed_is_placed_as_in_the_evaluation() -> None:
    timeline = Timeline.of([1990, 1995], Granularity.YEAR, "observed")
    begins, ends = [1980, 1990, 1992, 1992, 1999], [1985, 1999, 1993, 1996, 1999]
    assert begin_position(timeline, begins, ends).tolist() == [0, 0, 0, 1, 1]


def test_sentences_are_quick() -> None:
    run, facts = trained(), trained().kb.train
    start = time.perf_counter()
    for s, r, o, _, _ in facts[:100]:
        reasons_text(run, s, r, o, 0)
    assert time.perf_counter() - start < 10  # some ms each; a busy machine, and coverage, take their share
