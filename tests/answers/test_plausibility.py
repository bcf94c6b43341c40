"""What a model holds for implausible: against a literal version, and on a KB with planted errors."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.answers.random_runs import facts as random_facts
from tests.answers.random_runs import random_run
from tests.answers.test_entity_ranker import literal
from tests.answers.towns import PEOPLE, WRONG, as_kb, city, town_run, towns
from tests.builders import facts_of, kb_of

from timeplex.answers import plausibility as module
from timeplex.answers.plausibility import FactJudge, implausible, ordinal, ratios
from timeplex.answers.trained import Trained
from timeplex.errors import InputError
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.models.scorer import DIRECTIONS

# A literal version ----------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_who_is_judged_and_how_it_ranks(seed: int) -> None:
    run, draw = random_run(seed), random.Random(seed)
    # The KB has other names than the run, in another order, and dates outside of its timeline.
    facts = random_facts(draw, 30, 9, 3)
    shift = np.array([draw.choice([0, 0, 0, 300]) for _ in range(30)])
    shift[(facts.begin == spans.OPEN_BEGIN) | (facts.end == spans.OPEN_END)] = 0
    facts = replace(facts, begin=facts.begin + shift, end=facts.end + shift)
    kb = kb_of({"train": facts}, ["a", *(f"e{number}" for number in range(7)), "z"], ["q", "r0", "r1"])
    before = module.LEAST_CASES
    module.LEAST_CASES = 1
    try:
        judge = FactJudge(Trained(run), kb)
    finally:
        module.LEAST_CASES = before
    own = run.kb
    seen = {own.entities[number] for number in {*own.train.s.tolist(), *own.train.o.tolist()}}
    related = {own.relations[number] for number in own.train.r.tolist()}
    learned = {(own.entities[s], own.relations[r], own.entities[o]) for s, r, o, _, _ in own.train}
    first, last = (int(run.timeline.instants[place]) for place in (0, -1))
    stated = list(own.facts)
    names = [(kb.entities[s], kb.relations[r], kb.entities[o], begin, end) for s, r, o, begin, end in facts]
    for s, r, o, begin, end in names:
        if s in seen and o in seen and r in related:
            stated.append((own.entities.id(s), own.relations.id(r), own.entities.id(o), begin, end))
    known = facts_of(stated)
    places = {row: place for place, row in enumerate(judge.rows.tolist())}
    for row, (s, r, o, begin, end) in enumerate(names):
        is_known = s in seen and o in seen and r in related
        inside = is_known and begin <= last and end >= first
        fresh = inside and (s, r, o) not in learned
        assert (judge.known[row], judge.inside[row], judge.fresh[row]) == (is_known, inside, fresh)
        assert judge.asked[row] == fresh == (row in places)
        if not fresh:
            assert judge.evidence[row] == 0
            continue
        span = max(begin, first), min(end, last)
        for direction in DIRECTIONS:
            asked, answer = (s, o) if direction == "object" else (o, s)
            number = own.entities.id(answer)
            table = literal(run, known, direction, own.entities.id(asked), own.relations.id(r), *span)
            score = next(each[1] for each in table if each[0] == number)
            better = [each for each in table if not each[3] and each[0] != number and each[1] > score + 1e-4]
            close = [each for each in table if not each[3] and each[0] != number and abs(each[1] - score) <= 1e-4]
            view = judge.views[direction]
            assert 1 + len(better) <= view.rank[places[row]] <= 1 + len(better) + len(close)
            candidates = judge._candidates(view.questions)[places[row]]
            assert candidates == sum(not each[3] or each[0] == number for each in table)


def literal_ratios(stated: list[float], drawn: list[float]) -> list[float]:
    """Falling regression by its formula: the least, over begins before, of the greatest mean over ends after."""
    values = sorted({*stated, *drawn})
    weight = [stated.count(v) / len(stated) + drawn.count(v) / len(drawn) for v in values]
    share = [drawn.count(v) / len(drawn) for v in values]

    def mean(first: int, last: int) -> float:
        return sum(share[first : last + 1]) / sum(weight[first : last + 1])

    size = len(values)
    fitted = [min(max(mean(i, j) for j in range(at, size)) for i in range(at + 1)) for at in range(size)]
    least = 1 / (1 + len(stated))
    kept = [min(max(fitted[values.index(v)], least), 1 - least) for v in stated]
    return [float(np.log(v / (1 - v))) for v in kept]


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=9), st.lists(st.integers(-5, 5), min_size=1, max_size=9))
def test_ratios_are_the_falling_regression(stated: list[int], drawn: list[int]) -> None:
    found = ratios(np.array(stated, float), np.array(drawn, float))
    assert found == pytest.approx(literal_ratios([*map(float, stated)], [*map(float, drawn)]))
    order = np.argsort(stated, kind="stable")
    assert (np.diff(found[order]) <= 1e-9).all()
    assert np.abs(found).max() <= np.log(len(stated)) + 1e-9


def test_without_random_answers_nothing_is_suspect() -> None:
    assert ratios(np.array([-3.0, 0.0]), np.zeros(0)).tolist() == [0, 0]


# Planted errors -------------------------------------------------------------------------------------------------------


def test_planted_errors_are_found_and_the_truth_is_suggested() -> None:
    kb = as_kb(towns())
    found = implausible([town_run()], kb)
    table = kb.to_polars()
    facts = [table.row(row)[1:] for row in found.row.tolist()[: len(WRONG)]]
    assert {(row[0], row[1], row[2]) for row in facts} == {
        (f"person {person:03}", "bornIn", where) for person, where in WRONG.items()
    }
    births = sum(len(part) for split, part in towns().items() if split != "train")
    assert found.judged == births
    assert found.learned == 3 * PEOPLE - births
    assert (np.diff(found.severity) <= 0).all()
    assert found.severity.max() <= module.MOST_SEVERE
    assert found.severity.min() >= module.LEAST_SEVERE
    for at, (subject, _, where, *_) in enumerate(facts):
        truth = city(int(subject.split()[1]))
        assert found.cases[at] == births
        assert found.holds[at] >= births - 10
        if f"ranks {where} " in found.messages[at]:
            assert f" as object; likelier are {truth}, " in found.messages[at]
            assert found.suggestions[at] in (f"object → {truth}?", "check the object")
        else:
            assert found.messages[at].startswith(f"The model ranks {subject} ")
            assert " as subject; likelier are " in found.messages[at]
            assert found.suggestions[at].startswith(("subject → ", "check the subject"))


def test_the_worse_question_is_told() -> None:
    judge = FactJudge(town_run(), as_kb(towns()))
    rows = judge.rows[:20]
    told = judge.tell(rows)
    names = town_run().kb.entities
    assert set(told) == set(rows.tolist())
    for place, row in enumerate(rows.tolist()):
        direction = max(("object", "subject"), key=lambda each: judge.views[each].suspect[place])
        view = judge.views[direction]
        rank = int(view.rank[place])
        assert told[row].message.startswith(
            f"The model ranks {names.label(int(view.answer[place]))} {ordinal(rank)} of "
        )
        assert f" as {direction}" in told[row].message
        assert told[row].holds == (view.rank < rank).sum()
        asked = names.label(int(view.questions.given[place]))
        likelier = told[row].message.partition("; likelier ")[2]
        assert asked not in likelier, "nothing is suggested as its own counterpart"
        assert (rank == 1) <= (likelier == "")
        assert len(likelier.split(", ")) <= min(3, max(rank - 1, 1))
        assert direction in told[row].suggestion


def test_nothing_is_its_own_counterpart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIKELIER", 1000)
    judge = FactJudge(town_run(), as_kb(towns()))
    view, names = judge.views["object"], town_run().kb.entities
    view.rank[:] = 1000  # so that all candidates are likelier than the stated one
    best = judge.who.rank(view.questions.rows(slice(0, 5)), 1000, hide_known=True).entity
    for place, told in enumerate(judge._told("object", np.arange(5))):
        given_ = view.questions.given[place]
        assert given_ in best[place]
        others = [names.label(int(each)) for each in best[place] if each >= 0 and each != given_]
        assert told.message.endswith(f"; likelier are {', '.join(others)}.")


def test_random_answers_that_are_right_do_not_count_as_wrong() -> None:
    judge = FactJudge(town_run(), as_kb(towns()))
    view = judge.views["object"]
    stated = np.stack([view.answer, view.answer], axis=1)
    assert judge._known(view.questions, stated).all()
    drawn = judge._random_answers("object", view.questions.r)
    right = judge._known(view.questions, drawn)
    assert (right == (drawn == view.answer[:, None])).all()  # one is born in one place
    logs = [module._log(judge.who.raw_of(view.questions, column)[0]) for column in (view.answer, *drawn.T)]
    assert view.suspect == pytest.approx(ratios(logs[0], np.stack(logs[1:], axis=1)[~right]))


def test_only_what_convinces_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = as_kb(towns())
    monkeypatch.setattr(module, "CONVINCING", 0.0)
    sure = implausible([town_run()], kb)
    monkeypatch.setattr(module, "CONVINCING", 1.1)
    unsure = implausible([town_run()], kb)
    assert all("→" in text and text.endswith("?") for text in sure.suggestions)
    assert all(text.startswith("check the ") for text in unsure.suggestions)
    first = [text.partition("; likelier are ")[2].split(", ")[0] for text in sure.messages]
    assert [text.partition("→ ")[2] for text in sure.suggestions] == [f"{name}?" for name in first]


def test_what_was_learned_is_never_told() -> None:
    kb = as_kb(towns())
    found = implausible([town_run()], kb, least=0.0)
    train = len(kb.train)
    assert len(found) == len(kb)  # with no threshold at all, of severity 0
    assert (found.severity[found.row < train] == 0).all()
    assert (found.severity[found.row >= train] > 0).all()


def test_the_order_of_the_facts_has_no_influence() -> None:
    splits = towns()
    one = implausible([town_run()], as_kb(splits))
    turned = as_kb({split: part[::-1] for split, part in splits.items()})
    two = implausible([town_run()], turned)

    def told(kb: TemporalKB, found: module.Implausible) -> set[tuple[object, ...]]:
        rows = kb.to_polars()[found.row].rows()
        return set(zip(rows, found.severity.tolist(), found.messages, found.holds.tolist(), strict=True))

    assert len(one) > 0
    assert told(as_kb(splits), one) == told(turned, two)


def test_several_runs_share_the_work_and_mean_their_evidence() -> None:
    kb, first = as_kb(towns()), town_run()
    splits = {"train": kb.facts[1::2], "valid": kb.facts[0:0], "test": kb.facts[::2]}
    second = Trained(replace(first.run, setup=replace_kb(first, replace(kb, splits=splits))))
    one, two = FactJudge(first, kb), FactJudge(second, kb)
    both = implausible([first, second], kb, least=0.0)
    assert both.judged == (one.asked | two.asked).sum() > max(one.asked.sum(), two.asked.sum())
    mean = (one.evidence + two.evidence) / np.maximum(one.asked.astype(int) + two.asked, 1)
    expected = np.minimum(module.MOST_SEVERE, module.ERRORS * np.exp(module.WEIGHT * mean))
    expected[~(one.asked | two.asked)] = 0
    assert both.severity == pytest.approx(expected[both.row])
    assert both.learned == len(kb) - both.judged - both.unknown


def replace_kb(trained: Trained, kb: TemporalKB):  # type: ignore[no-untyped-def]
    from timeplex.training.experiment import Experiment

    return Experiment(kb, trained.run.recipe)


# What is left out -----------------------------------------------------------------------------------------------------


def test_what_cannot_be_judged_is_counted() -> None:
    splits = towns()
    splits["test"] += [
        ("person 000", "bornIn", "Atlantis", "1900", "1900"),
        ("nobody", "bornIn", "Oslo", "1900", "1900"),
        ("person 000", "diesIn", "Oslo", "1900", "1900"),
        ("person 000", "bornIn", "Oslo", "1500", "1500"),
        ("person 001", "livesIn", "Bern", "1920", "1920"),
    ]
    found = implausible([town_run()], as_kb(splits))
    births = sum(len(part) for split, part in towns().items() if split != "train")
    assert (found.unknown, found.outside, found.few) == (3, 1, 1)
    assert found.judged == births
    assert found.note == (
        f"The model judged {births:,} facts; left out: {found.learned:,} learned by heart, 3 with unknown names, "
        "1 outside of the timeline, 1 of relations with fewer than 20 facts to compare."
    )


def test_a_run_that_knows_nobody() -> None:
    strangers = as_kb({"train": [("a", "bornIn", "b", "1900", "1900"), ("Oslo", "r", "Bern", "1900", "1900")]})
    with pytest.raises(InputError, match=r"run was trained on towns and knows the names of no fact of towns\."):
        implausible([town_run()], strangers)


def test_a_kb_of_another_granularity() -> None:
    days = as_kb({"train": [("person 000", "bornIn", "Oslo", "1900-05-03", "1900-05-03")]})
    with pytest.raises(InputError, match=r"run knows years, and towns has days\."):
        implausible([town_run()], days)


def test_a_kb_without_facts() -> None:
    found = implausible([town_run()], replace(as_kb(towns()), splits={"train": Facts.empty()}))
    assert (len(found), found.judged) == (0, 0)
    assert found.note == "The model judged 0 facts."


def test_ordinals() -> None:
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111, 1013, 1204, 1223)
    assert " ".join(map(ordinal, numbers)) == (
        "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th 1,013th 1,204th 1,223rd"
    )
