"""`Trained` as a user of Python meets it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.answers import small_runs
from tests.builders import facts_of

import timeplex
from timeplex.answers.rank import EntityQueries, KnownAnswers
from timeplex.answers.resolve import known_answers, known_spans
from timeplex.answers.trained import Trained
from timeplex.errors import InputError, UnknownNameError
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts
from timeplex.training.checkpoint import Progress

KINDS = ("gadgets", "plain", "inverse")


def asked(trained: Trained, count: int = 12) -> pl.DataFrame:
    """Some test facts with names and closed spans."""
    seen = trained.asking.seen
    facts = trained.kb.test
    rows = np.flatnonzero(seen[facts.s] & seen[facts.o])[:count]
    first, last = int(trained.run.timeline.instants[0]), int(trained.run.timeline.instants[-1])
    return pl.DataFrame(
        {
            "subject": trained.kb.entities.many(facts.s[rows]),
            "relation": trained.kb.relations.many(facts.r[rows]),
            "object": trained.kb.entities.many(facts.o[rows]),
            "at": [f"{max(b, first)}..{min(e, last)}" for *_, b, e in facts[rows]],
        }
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hide", [True, False])
def test_many_questions_are_as_one_by_one(kind: str, hide: bool) -> None:
    trained = small_runs.trained(kind)
    table = asked(trained)
    for side in ("subject", "object"):
        names = table[side].to_list()
        relation, at = table["relation"], table["at"]
        many = trained.rank(**{side: names}, relation=relation, at=at, k=5, hide_known=hide)  # type: ignore[arg-type]
        assert many.columns == ["query", "rank", "entity", "id", "probability", "known", "error"]
        assert many["error"].null_count() == len(many)
        for row in range(len(table)):
            one = trained.rank(**{side: names[row]}, relation=relation[row], at=at[row], k=5, hide_known=hide)  # type: ignore[arg-type]
            here = many.filter(query=row)
            assert one["query"].unique().to_list() == [0]
            assert here["rank"].to_list() == one["rank"].to_list() == [1, 2, 3, 4, 5]
            assert one["probability"].to_numpy() == pytest.approx(here["probability"].to_numpy(), abs=1e-4, nan_ok=True)
            assert one["known"].to_list() == here["known"].to_list() or one["id"].to_list() != here["id"].to_list()
            new = one.filter(pl.col("known").is_null() | pl.col("known").str.ends_with("(another time)"))
            assert new["probability"].is_sorted(descending=True)
            if hide:
                assert len(new) == 5


def test_known_says_when() -> None:
    trained = small_runs.trained("gadgets")
    kb = trained.kb
    for s, r, o, begin, end in [*kb.train[:10], *kb.valid[:5]]:
        if begin == spans.OPEN_BEGIN or end == spans.OPEN_END:
            continue
        found = trained.rank(
            subject=kb.entities[s], relation=kb.relations[r], at=(begin, end), k=len(kb.entities)
        ).filter(id=kb.entities[o])
        text = f"{begin}" if begin == end else f"{begin}–{end}"
        assert text in found["known"][0]
        assert "another" not in found["known"][0]
        hidden = trained.rank(
            subject=kb.entities[s], relation=kb.relations[r], at=(begin, end), k=len(kb.entities), hide_known=True
        )
        assert kb.entities[o] not in hidden["id"].to_list()


def test_known_texts_by_hand() -> None:
    rows = [
        (0, 0, 1, 1990, 1994),
        (0, 0, 1, 2000, spans.OPEN_END),
        (0, 0, 2, 1980, 1981),
        (0, 1, 3, 1990, 1990),
        (0, 0, 3, spans.OPEN_BEGIN, spans.OPEN_END),
        (0, 0, 1, 1990, 1994),
    ]
    facts = facts_of(rows)
    questions = EntityQueries(
        "object", *(np.array([number, number2]) for number, number2 in ((0, 0), (0, 0), (1992, 2001), (1993, 2002)))
    )
    query, entity = np.array([0, 0, 0, 1, 1, 0]), np.array([1, 2, 3, 1, 0, 0])
    assert known_answers(KnownAnswers(facts), questions, query, entity, Granularity.YEAR) == [
        "1990–1994",
        "1980–1981 (another time)",
        "no dates",
        "2000–",
        None,
        None,
    ]
    nothing = np.empty(0, np.int64)
    assert known_answers(KnownAnswers(facts), questions, nothing, nothing, Granularity.YEAR) == []
    assert known_answers(KnownAnswers(Facts.empty()), questions, query, entity, Granularity.YEAR) == [None] * 6
    triples = (np.array([0, 0, 5]), np.array([0, 1, 0]), np.array([1, 1, 1]))
    assert known_spans(facts, *triples, Granularity.YEAR) == ["1990–1994, 2000–", None, None]
    subjects = EntityQueries("subject", np.array([3]), np.array([0]), np.array([1990]), np.array([1990]))
    assert known_answers(KnownAnswers(facts), subjects, np.array([0]), np.array([0]), Granularity.YEAR) == ["no dates"]


@pytest.mark.parametrize("kind", KINDS)
def test_when_of_many_is_as_of_one(kind: str) -> None:
    trained = small_runs.trained(kind)
    table = asked(trained)
    many = trained.when(table["subject"], table["relation"], table["object"])  # type: ignore[arg-type]
    columns = ["subject", "relation", "object", "begin", "end", "probability", "low", "high", "known"]
    assert many.columns == [*columns, "error"]
    assert many["known"].null_count() == 0
    for row, (s, r, o, _) in enumerate(table.iter_rows()):
        one = trained.when(s, r, o)
        assert one.drop("probability").row(0) == many.drop("probability", "error").row(row)
        assert one["probability"][0] == pytest.approx(many["probability"][row], abs=1e-5)
        assert int(one["begin"][0]) <= int(one["end"][0])
        assert int(one["low"][0]) <= int(one["high"][0])
        assert 0 <= one["probability"][0] <= 1
        curve = trained.curve(s, r, o)
        assert curve.probability.sum() == pytest.approx(1)
        assert curve.instants.tolist() == trained.timeline.instants.tolist()


def test_the_interval_holds_the_begin_of_facts_that_are_not_known() -> None:
    trained = small_runs.trained("gadgets")
    table = asked(trained, 90)
    hidden = replace(trained.kb, splits={**trained.kb.splits, "test": Facts.empty()})
    found = timeplex.learn(hidden).when(table["subject"], table["relation"], table["object"])  # type: ignore[arg-type]
    begins = table["at"].str.split("..").list.first().cast(pl.Int64)
    share = ((found["low"].cast(pl.Int64) <= begins) & (begins <= found["high"].cast(pl.Int64))).mean()
    assert 0.65 < share < 0.95


def test_no_rows_are_no_rows() -> None:
    trained = small_runs.trained("plain")
    empty = trained.rank(subject=[], relation=trained.kb.relations[0], at=int(trained.run.timeline.instants[3]))
    assert len(empty) == 0
    assert empty.schema["known"] == pl.String
    assert len(trained.when([], trained.kb.relations[0], [])) == 0


def test_what_cannot_be_asked() -> None:
    trained = small_runs.trained("plain")
    r, year = trained.kb.relations[0], int(trained.run.timeline.instants[0])
    with pytest.raises(InputError, match="Both a subject and an object are given"):
        trained.rank(subject="a", object="b", relation=r, at=year)
    with pytest.raises(InputError, match="Neither a subject nor an object is given"):
        trained.rank(relation=r, at=year)
    with pytest.raises(InputError, match="0 answers cannot be given"):
        trained.rank(subject=trained.kb.entities[0], relation=r, at=year, k=0)
    with pytest.raises(UnknownNameError, match="unknown entity"):
        trained.rank(subject="zzzzzz", relation=r, at=year)
    with pytest.raises(InputError, match="outside of the timeline"):
        trained.rank(subject=trained.kb.entities[0], relation=r, at=1)
    static = small_runs.trained("static")
    s, r2, o = (
        names[number]
        for names, number in zip(
            (static.kb.entities, static.kb.relations, static.kb.entities), next(iter(static.kb.train)), strict=False
        )
    )
    assert len(static.when(s, r2, o)) == 1  # its patterns know of time
    assert len(static.rank(subject=s, relation=r2, at=year, k=3)) == 3


def test_labels_are_shown_and_understood() -> None:
    trained = small_runs.trained("plain")
    kb = trained.kb
    s, r, *_ = next(iter(kb.train))
    names = type(kb.entities)(kb.entities.names, {kb.entities[s]: "The First"})
    labelled = type(kb)(names, kb.relations, kb.granularity, kb.splits, kb.problems, kb.name)
    setup = type(trained.run.setup)(labelled, trained.run.recipe)
    other = Trained(type(trained.run)(trained.run.path, setup, trained.run.model, trained.run.gadgets))
    at = int(trained.run.timeline.instants[5])
    plain = trained.rank(subject=kb.entities[s], relation=kb.relations[r], at=at, k=500)
    found = other.rank(subject="the first", relation=kb.relations[r], at=at, k=500)
    assert found.drop("entity").equals(plain.drop("entity"))
    assert found.filter(id=kb.entities[s])["entity"].to_list() == ["The First"]
    assert "plain" in str(trained.run.path)
    assert repr(trained).startswith("Trained(timeplex-base on TemporalKB(")
    assert timeplex.load(str(trained.run.path)).kb == kb


def test_train_leaves_a_run_that_can_be_asked(tmp_path: Path) -> None:
    kb = timeplex.generate(300, seed=0)
    settings = ["epochs=1", "options.dimension=4", "phase2.epochs=1"]
    heard: list[Progress] = []
    trained = timeplex.train(kb, tmp_path / "run", settings=settings, device="cpu", on_progress=heard.append)
    assert [(now.epoch, now.gadgets) for now in heard if now.ended] == [(1, ""), (1, "recurrence + pair")]
    assert (len(trained.kb.train), len(trained.kb.valid), len(trained.kb.test)) == (240, 30, 30)
    assert trained.run.recipe.title == "timeplex-base + recurrence + pair"
    assert trained.when(*_first(trained)).equals(timeplex.load(tmp_path / "run").when(*_first(trained)))
    plain = timeplex.train(kb.to_polars(), tmp_path / "plain", model="distmult", settings=settings[:2])
    assert plain.run.recipe.title == "distmult"
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('model = "complex"\nepochs = 1\n[options]\ndimension = 4\n')
    assert timeplex.train(kb, tmp_path / "by-recipe", recipe=recipe).run.recipe.model == "complex"
    with pytest.raises(InputError, match="Both a recipe and a model"):
        timeplex.train(kb, tmp_path / "both", recipe=recipe, model="complex")
    with pytest.raises(InputError, match="exists already"):
        timeplex.train(kb, tmp_path / "run", settings=settings)


def _first(trained: Trained) -> tuple[str, str, str]:
    s, r, o, *_ = next(iter(trained.kb.train))
    return trained.kb.entities[s], trained.kb.relations[r], trained.kb.entities[o]
