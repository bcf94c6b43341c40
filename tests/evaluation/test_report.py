"""Reports: every figure can be computed again from the table of queries; scores from elsewhere are judged alike."""

from collections.abc import Iterable
from statistics import fmean

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from tests.builders import csv_kb, small_kb
from tests.evaluation.measures import fit_thresholds, time_metrics

import timeplex
from timeplex import TemporalKB
from timeplex.errors import InputError
from timeplex.evaluation.baselines import MostFrequent
from timeplex.evaluation.protocol import FILTERS, PAPER, PUBLISHED_CODE
from timeplex.evaluation.ranking import LinkPrediction, PlacedFacts
from timeplex.evaluation.report import GROUPS, Report, decoders, describe_queries, evaluate, evaluate_scores
from timeplex.evaluation.time_prediction import Thresholds, both_ends_known
from timeplex.models.scorer import Scorer
from timeplex.training.experiment import Experiment
from timeplex.training.recipe import Recipe


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return small_kb(400, seed=3, valid=0.2, test=0.2)


@pytest.fixture(scope="module")
def report(kb: TemporalKB) -> Report:
    setup = Experiment(kb, Recipe(options={"dimension": 4}))
    task = LinkPrediction(kb, kb.test, setup.timeline, PAPER, FILTERS)
    return evaluate(task, setup.scorer(setup.new_model().train(False)), "test")


def mean_reciprocal(rows: Iterable[dict[str, float]], column: str) -> float:
    return fmean(1 / row[column] for row in rows)


def test_every_figure_follows_from_the_file(report: Report, tmp_path) -> None:  # type: ignore[no-untyped-def]
    report.per_query().write_parquet(tmp_path / "queries.parquet")
    rows = pl.read_parquet(tmp_path / "queries.parquet").to_dicts()
    for filter_ in FILTERS:
        column = f"rank_{filter_.replace('-', '_')}"
        for direction in ("subject", "object", "both"):
            mine = [
                row
                for row in rows
                if row["direction"] in ((direction,) if direction != "both" else ("subject", "object"))
            ]
            figures = report.as_dict()["link"][filter_][direction]
            assert figures["queries"] == len(mine)
            assert figures["mrr"] == pytest.approx(mean_reciprocal(mine, column), rel=1e-12)
            assert figures["mr"] == pytest.approx(fmean(row[column] for row in mine), rel=1e-12)
            for k in (1, 3, 10):
                assert figures[f"hits@{k}"] == pytest.approx(fmean(row[column] <= k for row in mine), rel=1e-12)
    for decoder, figures in report.as_dict()["time"].items():
        mine = [row for row in rows if row["direction"] == "time" and row["decoder"] == decoder]
        gold = tuple(np.array([int(row[side]) for row in mine]) for side in ("begin", "end"))
        predicted = tuple(
            np.array([[int(span[side]) for span in row["predicted"]] for row in mine]) for side in ("begin", "end")
        )
        again = time_metrics((gold[0], gold[1]), (predicted[0], predicted[1]))
        assert {name: figures[name] for name in again} == pytest.approx(again)


def test_groups_are_parts_of_the_whole(report: Report) -> None:
    for by in GROUPS:
        parts = report.links(by)
        whole = report.links()
        for row in whole.iter_rows(named=True):
            mine = parts.filter(filter=row["filter"], direction=row["direction"])
            assert mine["queries"].sum() == row["queries"]
            assert (mine["queries"] * mine["mrr"]).sum() == pytest.approx(row["queries"] * row["mrr"])
    for by in ("relation", "span", "class", "seen"):
        parts = report.time_figures(by)
        for row in report.time_figures().iter_rows(named=True):
            mine = parts.filter(decoder=row["decoder"])
            assert mine["facts"].sum() == row["facts"]
            assert (mine["facts"] * mine["aeiou@1"]).sum() == pytest.approx(row["facts"] * row["aeiou@1"])


def test_only_facts_with_both_ends_are_dated(kb: TemporalKB, report: Report) -> None:
    expected = len(both_ends_known(kb.test))
    assert 0 < expected < len(kb.test)
    assert report.time_figures()["facts"].to_list() == [expected] * 3
    assert report.time_figures()["decoder"].to_list() == ["mean-mass", "grid", "expected-aeiou"]


def test_the_scorer_is_asked_once_for_each_split(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Experiment(kb, Recipe(options={"dimension": 4}))
    scorer = setup.scorer(setup.new_model().train(False))
    asked: list[tuple[int, int, int]] = []
    real = type(scorer).times

    def times(self: Scorer, s: torch.Tensor, r: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        asked.extend(zip(s.tolist(), r.tolist(), o.tolist(), strict=True))
        return real(self, s, r, o)

    monkeypatch.setattr(type(scorer), "times", times)
    evaluate(LinkPrediction(kb, kb.test, setup.timeline, PAPER, ["none"]), scorer, "test")
    parts = [both_ends_known(part) for part in (kb.valid, kb.test)]
    assert asked == [(s, r, o) for part in parts for s, r, o, _, _ in part]


def test_a_model_without_time_predicts_none(kb: TemporalKB) -> None:
    setup = Experiment(kb, Recipe(model="complex", time_weight=0.0, options={"dimension": 4}))
    task = LinkPrediction(kb, kb.test, setup.timeline, PUBLISHED_CODE, ["none"])
    found = evaluate(task, setup.scorer(setup.new_model()), "test")
    assert found.times is None
    assert found.as_dict()["time"] == {}
    assert found.time_figures().is_empty()
    assert list(found.as_dict()["link"]) == ["none"]


def test_queries_are_described(tmp_path) -> None:  # type: ignore[no-untyped-def]
    train = [f"Ana,plays,Ajax,{year},{year}" for year in range(1990, 2000)]
    test = [
        *("Ana,plays,Ajax,2003,2003", "Bea,plays,Ajax,2000,2004", "Ana,plays,Porto,2000,2005", "Ana,plays,Ajax,2000,"),
        "Ana,plays,Ajax,2001,2002",
    ]
    kb = csv_kb(tmp_path, {"train": train, "test": test})
    described = describe_queries(kb, kb.test).sort("direction", "begin", "end", "subject").to_dicts()
    assert [(row["direction"], row["subject"], row["object"], row["span"]) for row in described[:5]] == [
        ("object", "Ana", "Ajax", "open"),
        ("object", "Bea", "Ajax", "up to 5 years"),
        ("object", "Ana", "Porto", "over 5 years"),
        ("object", "Ana", "Ajax", "up to 5 years"),
        ("object", "Ana", "Ajax", "instant"),
    ]
    known, unknown = "middling", "unseen"
    assert [row["frequency"] for row in described[:5]] == [known, known, unknown, known, known]
    assert [row["frequency"] for row in described[5:]] == [known, unknown, known, known, known]
    new, seen = "new triple", "seen triple"
    assert [row["seen"] for row in described[:5]] == [seen, new, new, seen, seen]
    assert [row["end"] for row in described[:5]] == [None, "2004", "2005", "2002", "2003"]
    assert {row["class"] for row in described} == {"instant"}


def test_scores_from_elsewhere_are_judged_like_a_model(kb: TemporalKB) -> None:
    """A model asked through a function has the figures it has itself."""
    setup = Experiment(kb, Recipe(inverse=False, timeline="calendar", options={"dimension": 4}))
    model = setup.new_model().train(False)
    timeline = kb.timeline("calendar")

    def scores(direction: str, entity, relation, begin, end) -> NDArray[np.float32]:  # type: ignore[no-untyped-def]
        e, r = torch.from_numpy(entity), torch.from_numpy(relation)
        span = tuple(torch.from_numpy(timeline.position(side)) for side in (begin, end))
        with torch.no_grad():
            rows = model.objects(e, r, span) if direction == "object" else model.subjects(r, e, span)
        return rows.numpy()

    elsewhere = timeplex.evaluate_scores(kb, scores)
    task = LinkPrediction(kb, kb.test, setup.timeline, PAPER, FILTERS)
    own = evaluate(task, setup.scorer(model), "test")
    assert elsewhere.queries.equals(own.queries)
    assert elsewhere.as_dict()["link"] == own.as_dict()["link"]
    assert all(own.links(by).equals(own.links(by)) for _ in range(5) for by in GROUPS)  # to the last digit


def test_a_bonus_for_the_gold_is_impossible(kb: TemporalKB) -> None:
    """Who adds something to the gold's score must add it to its row, and who knows no answer has the middle rank."""
    blind = evaluate_scores(
        kb, lambda direction, entity, relation, begin, end: np.zeros((len(entity), len(kb.entities)))
    )
    seen = len(np.unique(np.concatenate([kb.train.s, kb.train.o])))
    ranks = blind.queries.filter(pl.col("frequency") != "unseen")["rank_none"].unique().to_list()
    assert ranks == [(seen + 1) / 2]


@pytest.mark.parametrize(("rows", "message"), [(3, "shape"), (None, "NaN")])
def test_scores_that_mean_nothing_are_refused(kb: TemporalKB, rows: int | None, message: str) -> None:
    def scores(direction: str, entity, relation, begin, end) -> NDArray[np.float64]:  # type: ignore[no-untyped-def]
        return np.full((rows or len(entity), len(kb.entities)), np.nan if rows is None else 0.0)

    with pytest.raises(InputError, match=message):
        evaluate_scores(kb, scores)


def test_an_unknown_split_is_an_error(kb: TemporalKB) -> None:
    with pytest.raises(InputError, match="has no 'dev' facts"):
        evaluate_scores(kb, lambda *_: None, split="dev")


def test_nothing_is_fitted_on_test(kb: TemporalKB, report: Report) -> None:
    """Thresholds come from valid, baselines from train."""
    setup = Experiment(kb, Recipe(options={"dimension": 4}))
    scorer, relations = setup.scorer(setup.new_model().train(False)), len(kb.relations)
    theta = {
        split: fit_thresholds(scorer, kb.split(split), setup.timeline, "mean-mass", relations=relations).theta
        for split in ("valid", "test")
    }
    used = decoders(kb, setup.timeline, scorer)["mean-mass"]
    assert isinstance(used, Thresholds)
    assert np.array_equal(used.theta, theta["valid"])
    assert not np.array_equal(used.theta, theta["test"])
    task = LinkPrediction(kb, kb.test, setup.timeline, PAPER, FILTERS)
    figures = {}
    for split in ("train", "test"):
        baseline = MostFrequent(PlacedFacts.of(kb.split(split), setup.timeline), len(kb.entities), relations)
        figures[split] = evaluate(task, baseline, "test").as_dict()["link"]
    assert report.as_dict()["baselines"]["most frequent"] == figures["train"] != figures["test"]
