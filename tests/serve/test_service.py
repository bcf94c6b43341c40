"""What the service says is what the objects underneath say, for one asker and for many at once."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serve.asked import ODD, asked, kb, service

import timeplex
from timeplex.answers.dates import Dates
from timeplex.answers.learned import Learned
from timeplex.answers.links import Links
from timeplex.errors import BusyError, InputError, UnknownNameError
from timeplex.files import to_json
from timeplex.serve.asked import Question, Triple
from timeplex.serve.limits import MOST_NEIGHBOURS
from timeplex.serve.service import Service
from timeplex.serve.turns import time_limit

NAMES = list(kb().entities)
RELATIONS = list(kb().relations)
A_NAME, A_RELATION = st.sampled_from(NAMES), st.sampled_from(RELATIONS)


# Looking ---------------------------------------------------------------------------------------------------------


@given(A_NAME)
def test_each_name_is_found_by_itself_first(name: str) -> None:
    assert service().search(name)["items"][0]["id"] == name
    assert service().search(name.upper())["items"][0]["id"] == name


@given(A_NAME, st.integers(0, 30), st.integers(1, 30))
def test_whatever_holds_a_text_is_found_and_nothing_else(name: str, start: int, length: int) -> None:
    text = name[start : start + length]

    def plain(text: str) -> str:
        return re.sub(r"[_\s]+", " ", text.lower()).strip()

    found = service().search(text, 1000)
    labels = [kb().entities.label(number) for number in range(len(NAMES))]
    holding = {
        name for name, label in zip(NAMES, labels, strict=True) if plain(text) in plain(name) + "\0" + plain(label)
    }
    assert {row["id"] for row in found["items"]} == holding
    assert found["total"] == len(holding)
    assert not found["near"]


def test_a_search_that_finds_nothing_tells_what_is_near() -> None:
    found = service().search("persom 07")
    assert found["near"]
    assert "person 07" in [row["id"] for row in found["items"]]
    assert service().search("first offise")["items"][0] == {"id": "Q1", "label": "The First Office", "facts": 45}
    assert service().search("zzzzzzzzzzzzz") == {"total": 0, "offset": 0, "next": None, "items": [], "near": True}


@given(st.integers(1, 40), st.sampled_from(["search", "relations", "entity", "facts", "findings"]))
def test_the_pages_of_a_list_are_the_list(limit: int, of: str) -> None:
    ask = {
        "search": lambda limit, offset: service().search("", limit, offset),
        "relations": service().relations,
        "entity": lambda limit, offset: service().entity("Oslo", limit, offset),
        "facts": lambda limit, offset: service().facts(relation="livesIn", limit=limit, offset=offset),
        "findings": lambda limit, offset: service().findings(limit=limit, offset=offset),
    }[of]
    whole, joined, offset = ask(1000, 0), [], 0
    while offset is not None:
        page = ask(limit, offset)
        assert page["total"] == whole["total"] == len(whole["items"])
        assert len(page["items"]) <= limit
        joined, offset = joined + page["items"], page["next"]
    assert joined == whole["items"]


@given(A_NAME)
def test_an_entity_has_all_its_facts_by_date(name: str) -> None:
    found, frame = service().entity(name, 1000), kb().to_polars()
    mine = frame.filter((frame["subject"] == name) | (frame["object"] == name))
    told = [
        (row["split"], row["subject"]["id"], row["relation"]["id"], row["object"]["id"], row["begin"], row["end"])
        for row in found["items"]
    ]
    assert sorted(told, key=str) == sorted(mine.rows(), key=str)
    dates = [row["first"] if row["first"] is not None else row["last"] for row in found["items"]]
    assert dates == sorted(dates)
    assert {row["id"]: row["facts"] for row in found["relations"]} == dict(mine.group_by("relation").len().rows())


def test_neighbours_are_those_with_the_most_facts_and_not_too_many() -> None:
    found = service().neighbours("Oslo")
    frame = kb().to_polars().filter(kb().to_polars()["object"] == "Oslo")
    counts = dict(frame.group_by("subject").len().rows())
    assert found["total"] == len(counts)
    assert len(found["items"]) == min(MOST_NEIGHBOURS, len(counts))
    assert all(row["facts"] == counts[row["id"]] for row in found["items"])
    assert min(row["facts"] for row in found["items"]) >= sorted(counts.values(), reverse=True)[len(found["items"]) - 1]
    assert all("Oslo" in row["first"]["text"] for row in found["items"])


@given(st.integers(1900, 1999), A_RELATION)
def test_facts_at_a_time_are_those_that_hold_then(year: int, relation: str) -> None:
    found = service().facts(relation=relation, at=str(year), limit=1000)["items"]
    frame = kb().to_polars().filter(kb().to_polars()["relation"] == relation)
    holding = frame.filter((frame["begin"].cast(int) <= year) & (frame["end"].fill_null("9999").cast(int) >= year))
    assert sorted(row["subject"]["id"] for row in found) == sorted(holding["subject"])


def test_unknown_names_are_errors_that_tell_near_ones() -> None:
    for ask in (service().entity, service().neighbours, lambda name: service().facts(subject=name)):
        with pytest.raises(UnknownNameError, match="person 07"):
            ask("persom 07")
    with pytest.raises(UnknownNameError, match="bornIn"):
        service().findings(relation="bornn")
    with pytest.raises(UnknownNameError, match="no finding 99"):
        service().finding(99)


# Asking ----------------------------------------------------------------------------------------------------------

QUESTIONS = st.builds(
    lambda given, relation, at, side: Question(relation, at=at, **{side: given}),
    A_NAME,
    A_RELATION,
    st.sampled_from(["..", "1930", "1940..1950", "1960.."]),
    st.sampled_from(["subject", "object"]),
)


@given(st.lists(QUESTIONS, min_size=1, max_size=5), st.integers(1, 5), st.booleans())
def test_rank_is_what_the_patterns_say(questions: list[Question], k: int, hide_known: bool) -> None:
    answers = service().rank(questions, k=k, hide_known=hide_known)
    for question, answer in zip(questions, answers, strict=True):
        asks = {
            "relation": question.relation,
            "at": question.at,
            "subject": question.subject,
            "object": question.object,
        }
        alone = asked().rank(**asks, k=k, hide_known=hide_known)
        assert [row["id"] for row in answer["answers"]] == alone["id"].to_list()
        assert [row["known"] for row in answer["answers"]] == alone["known"].to_list()
        for one, other in zip([row["probability"] for row in answer["answers"]], alone["probability"], strict=True):
            assert one is other is None or one == pytest.approx(other, abs=1e-5)
        assert (answer["question"]["subject"] is None) == (question.subject is None)


def test_a_question_that_cannot_be_asked_stops_no_other() -> None:
    good, bad = Question("bornIn", subject="person 03"), Question("bornIn", subject="persom 03")
    both = Question("bornIn", subject="person 03", object="Oslo")
    answers = service().rank([bad, good, both, Question("bornIn", subject="person 03", at="someday")])
    assert "person 03" in answers[0]["error"]
    assert answers[1]["answers"][0]["id"] == "Oslo"
    assert "Both a subject and an object" in answers[2]["error"]
    assert "'someday' is not a date" in answers[3]["error"]
    found = service().when([Triple("person 03", "bornIn", "nowhere"), Triple("person 03", "bornIn", "Oslo")])
    assert list(found[0]) == ["error"]
    assert found[1]["known"][0]["text"] == "1903"


def test_reasons_come_with_answers_if_they_are_asked_for() -> None:
    answer = service().rank([Question("bornIn", subject=ODD[0])], k=3, why=True)[0]["answers"]
    assert all(row["why"] for row in answer)
    assert "why" not in service().rank([Question("bornIn", subject=ODD[0])], k=3)[0]["answers"][0]


@given(st.lists(st.tuples(A_NAME, A_RELATION, A_NAME), min_size=1, max_size=4))
def test_when_is_what_the_patterns_say(triples: list[tuple[str, str, str]]) -> None:
    answers = service().when([Triple(*triple) for triple in triples])
    alone = asked().when(*map(list, zip(*triples, strict=True)))
    for answer, row in zip(answers, alone.iter_rows(named=True), strict=True):
        assert [answer[name] for name in ("begin", "end", "low", "high")] == [
            row[name] for name in ("begin", "end", "low", "high")
        ]
        assert answer["probability"] == pytest.approx(row["probability"], abs=1e-6)
        assert (", ".join(span["text"] for span in answer["known"]) or None) == row["known"]


def test_a_curve_sums_to_one_with_what_lies_outside_and_its_evidence_is_facts() -> None:
    found = service().when([Triple("person 03", "worksIn", "Lima")], curve=True, why=True)[0]
    curve = found["curve"]
    assert sum(curve["probability"]) + curve["outside"] == pytest.approx(1)
    assert curve["first"] <= found["first"] <= found["last"] <= curve["last"]
    assert len(curve["probability"]) == -(-(curve["last"] - curve["first"] + 1) // curve["width"])
    assert found["why"]
    for reason in found["why"]:
        fact = reason["fact"]
        assert reason["sentence"].startswith(f"{fact['subject']['label']} {fact['relation']['label']}")


def test_an_explanation_sums_to_its_score_and_names_its_facts() -> None:
    found = service().explain(Triple("person 03", "bornIn", "Oslo"), "1903")
    assert sum(part["value"] for part in found["parts"]) == pytest.approx(found["score"])
    assert found["probability"] is None
    assert "left out of its own evidence" in found["note"]
    rules = [each for each in found["reasons"] if each["part"] == "rules"]
    assert rules
    assert all(fact["text"] in each["sentence"] for each in rules for fact in each["facts"])


def test_rows_are_filled_as_a_table_is() -> None:
    found = service().fill(
        [{"subject": ODD[0], "relation": "bornIn", "begin": "1960"}, {"subject": "x", "relation": "bornIn"}, {}]
    )
    assert found[0]["object"] == "Oslo"
    assert found[0]["probability"] > 0
    assert found[1]["object"] is None
    assert found[1]["reason"]
    assert found[2]["reason"]


def test_missing_facts_are_those_of_discover() -> None:
    alone = asked().discover(relation="bornIn", min_probability=0.0, limit=1000)
    found = service().discover(["bornIn"], min_probability=0.0, limit=1000)
    assert [row["subject"]["id"] for row in found["items"]] == alone["subject"].to_list()
    likely = service().discover(["bornIn"], min_probability=0.5)
    assert likely["total"] == alone.filter(alone["probability"] >= 0.5).height
    with pytest.raises(UnknownNameError):
        service().discover(["bornn"])


# What is wrong, and how good it is ---------------------------------------------------------------------------------


def test_findings_are_those_of_the_audit_with_their_facts() -> None:
    frame = timeplex.audit(kb()).to_polars()
    found = service().findings(limit=1000)
    assert found["total"] == frame.height > 0
    assert [row["message"] for row in found["items"]] == frame["message"].to_list()
    assert [row["fact"]["text"] for row in found["items"]] == frame["fact"].to_list()
    assert ["; ".join(other["text"] for other in row["others"]) for row in found["items"]] == frame["others"].to_list()
    assert found["suspicious"] == frame["rank"].n_unique()
    assert all(service().finding(row["number"]) == row for row in found["items"])
    assert all(row["fact"]["suspicion"] == row["suspicion"] for row in found["items"])


def test_findings_can_be_chosen_and_facets_count_all_but_their_own_choice() -> None:
    whole = service().findings(limit=1000)
    for row in whole["facets"]["rule"]:
        chosen = service().findings(rule=row["id"], limit=1000)
        assert chosen["total"] == row["findings"]
        assert {each["rule"] for each in chosen["items"]} == {row["id"]}
        assert chosen["facets"]["rule"] == whole["facets"]["rule"]
    for row in whole["facets"]["relation"]:
        assert service().findings(relation=row["id"])["total"] == row["findings"]
    severe = [row for row in whole["items"] if row["severity"] >= 0.5]
    assert service().findings(min_severity=0.5)["total"] == len(severe)
    about = service().findings(entity="person 00", limit=1000)["items"]
    assert about
    assert all("person 00" in row["fact"]["text"] for row in about)
    assert service().findings(at="1990")["items"][0]["fact"]["begin"] == "1990"


def test_the_model_card_says_what_answers_and_how_far_it_is_believed() -> None:
    card = service().model()
    assert card["model"] == "patterns"
    assert card["ready"]
    assert card["calibration"]["rank"]["facts"] == asked().links.cases > 0
    assert card["notes"] == [asked().note("rank"), asked().note("when")]


def test_everything_that_is_told_is_json() -> None:
    told = [service().about(), service().model(), service().findings(limit=3), service().entity("Oslo", 3)]
    told += service().when([Triple("person 03", "worksIn", "Lima")], curve=True, why=True)
    told += service().rank([Question("bornIn", subject="person 03")], why=True)
    for each in told:
        assert json.loads(json.dumps(each, allow_nan=False)) == json.loads(to_json(each))


# Many at once ------------------------------------------------------------------------------------------------------


def test_many_who_ask_at_once_get_what_each_would_get_alone() -> None:
    rng = np.random.default_rng(0)
    asks = [Question("bornIn", subject=NAMES[each]) for each in rng.integers(0, len(NAMES), 60)]
    dates = [Triple(f"person {each:02}", "worksIn", "Oslo") for each in range(60)]
    alone = [service().rank([each], k=3)[0] for each in asks], [service().when([each])[0] for each in dates]

    def same(one: object, other: object) -> bool:
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)  # type: ignore
        if isinstance(one, list):
            return len(one) == len(other) and all(map(same, one, other))  # type: ignore[arg-type]
        return one == pytest.approx(other, abs=1e-5) if isinstance(one, float) else one == other

    with ThreadPoolExecutor(12) as pool:
        ranked = list(pool.map(lambda each: service().rank([each], k=3)[0], asks))
        dated = list(pool.map(lambda each: service().when([each])[0], dates))
    assert same(ranked, alone[0])
    assert same(dated, alone[1])


def test_while_patterns_are_learned_all_else_answers_and_who_asks_is_told_to_wait() -> None:
    going, stop = threading.Event(), threading.Event()

    class Slow(Learned):
        @cached_property
        def dates(self) -> Dates:
            assert self.on_progress is not None
            self.on_progress(3, 10)
            going.set()
            assert stop.wait(60)
            self.on_progress(4, 10)
            raise AssertionError("it goes on after it was stopped")

    slow = Service(Slow(kb()))
    slow.start()
    assert going.wait(60)
    assert slow.search("person 07")["total"] == 1
    assert not slow.about()["ready"]
    assert slow.model()["calibration"] is None
    with time_limit(0.1), pytest.raises(BusyError, match=r"are being learned \(3 of 10 steps\)"):
        slow.rank([Question("bornIn", subject="person 03")])
    threading.Timer(0.2, stop.set).start()
    slow.close()
    assert slow._thread is not None
    assert not slow._thread.is_alive()


def test_what_fails_while_it_is_learned_is_told_to_who_asks() -> None:
    class Broken(Learned):
        @cached_property
        def links(self) -> Links:
            raise InputError("There is nothing to learn.")

        @cached_property
        def dates(self) -> Dates:
            return asked().dates

    broken = Service(Broken(kb()))
    broken.start()
    for _ in range(2):
        with pytest.raises(InputError, match="nothing to learn"):
            broken.rank([Question("bornIn", subject="person 03")])
    assert broken.when([Triple("person 03", "worksIn", "Oslo")])[0]["probability"] > 0  # it needs less
    assert broken.search("person 07")["total"] == 1


def test_one_search_for_missing_facts_at_a_time_and_a_failure_is_told_once() -> None:
    going, stop = threading.Event(), threading.Event()

    class Slow(Learned):
        def discover(self, **asked: object) -> object:  # type: ignore[override]
            going.set()
            assert stop.wait(60)
            raise InputError("The search failed.")

    slow = Service(Slow(kb()))
    slow.learned.__dict__ |= {"dates": asked().dates, "links": asked().links}
    with time_limit(0.05), pytest.raises(BusyError, match="being looked for"):
        slow.discover()
    assert going.wait(60)
    with pytest.raises(BusyError, match="Another search"):
        slow.discover(["bornIn"])
    stop.set()
    with pytest.raises(InputError, match="The search failed"):
        slow.discover()
    assert not [key for key in slow._kept if isinstance(key, tuple)]
