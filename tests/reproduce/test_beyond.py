"""Patterns beyond the paper: ranks are those of the protocol, parts keep apart, and a group that is left out is out."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from timeplex.datasets.synthetic import generate
from timeplex.errors import InputError
from timeplex.evaluation.metrics import link_metrics
from timeplex.evaluation.protocol import PUBLISHED_CODE
from timeplex.evaluation.ranking import DirectedScorer, LinkPrediction
from timeplex.kb import spans
from timeplex.kb.facts import TemporalKB
from timeplex.kb.split import split_randomly
from timeplex.models.base import Span
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.patterns import ranking
from timeplex.patterns.base import LinkQueries
from timeplex.patterns.ranking import EXTRA, Course, LinkModel
from timeplex.reproduce import beyond, tables
from timeplex.reproduce.records import PATTERNS, Cell, Results
from timeplex.reproduce.runner import Workspace

FEW = ("recurrence", "popularity", "types")


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return split_randomly(generate(400, 3), valid=0.2, test=0.1, seed=3)


@pytest.fixture(scope="module")
def course(kb: TemporalKB) -> Course:
    def guess(queries: LinkQueries) -> np.ndarray:  # type: ignore[type-arg]
        return np.sin(np.arange(len(queries))[:, None] * 0 + np.arange(len(kb.entities))).astype(np.float32)

    return Course(kb, patterns=FEW, extra=guess, asks="begin", keep=True)


@pytest.fixture
def dev_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if either half of dev helped the other: of so few questions none does."""
    monkeypatch.setattr(ranking, "_best_pull", lambda *_: 1.0)


@dataclass(frozen=True)
class Scorer(DirectedScorer):
    """A model, asked at the begin of each fact."""

    model: LinkModel
    first: int

    def rows(self, direction: Direction, given: Tensor, r: Tensor, span: Span) -> Tensor:
        directed = r.numpy() + (self.model.evidence.relations if direction == "subject" else 0)
        queries = LinkQueries(given.numpy(), directed, span[0].numpy() + self.first, np.full(len(r), spans.OPEN_END))
        return torch.from_numpy(self.model.scores(queries))


def expected(kb: TemporalKB, facts, model: LinkModel) -> list[float]:  # type: ignore[no-untyped-def]
    timeline = kb.timeline("calendar")
    task = LinkPrediction(kb, facts, timeline, PUBLISHED_CODE, [PUBLISHED_CODE.filter])
    found = [task.ranks(Scorer(model, timeline.first), each)[PUBLISHED_CODE.filter] for each in DIRECTIONS]
    return sorted(np.concatenate(found).tolist())


@pytest.mark.usefixtures("dev_helps")
def test_ranks_are_those_of_the_protocol(kb: TemporalKB, course: Course) -> None:
    model = course.model()
    assert model.trees is not None
    facts = kb.test[kb.test.has_begin]
    figures = beyond.links(kb, facts, model)
    metrics = link_metrics(np.array(expected(kb, facts, model)))
    assert figures == pytest.approx({name: metrics[name] for name in figures})


@pytest.mark.usefixtures("dev_helps")
def test_each_part_is_ranked_by_its_own_model(kb: TemporalKB, course: Course) -> None:
    part = np.arange(len(kb.valid)) % 2
    models = course.models([part != 0, part != 1], trees=False)
    assert not np.allclose(models[0].weights.shared, models[1].weights.shared)
    found = beyond.pattern_ranks(kb, kb.valid, {"own": models, "first": [models[0]] * 2}, part)
    each = [expected(kb, kb.valid[part == number], model) for number, model in enumerate(models)]
    assert sorted(found["own"].tolist()) == sorted(each[0] + each[1])
    assert sorted(found["first"].tolist()) == expected(kb, kb.valid, models[0])


@pytest.mark.parametrize("group", ["popularity", EXTRA])
@pytest.mark.usefixtures("dev_helps")
def test_a_group_that_is_left_out_counts_nothing(course: Course, group: str) -> None:
    out = np.array(course.groups) == group
    assert 0 < out.sum() < len(out)
    model = course.linear(without=group)
    assert not model.weights.of(0)[out].any()
    assert not model.weights.corrections[:, out].any()
    assert model.weights.shared[~out].any()
    whole = course.linear()
    assert whole.weights.shared[out].any()


@pytest.mark.usefixtures("dev_helps")
def test_a_small_dev_moves_weights_less(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    def moved() -> float:
        return float(np.abs(course.linear().weights.shared - course.start.shared)[:-1].sum())

    careful = moved()
    monkeypatch.setattr(ranking, "ENOUGH_DEV", 0)
    assert 0 < careful < 0.9 * moved()


@pytest.mark.usefixtures("dev_helps")
def test_all_models_at_once_are_as_each_alone(kb: TemporalKB, course: Course) -> None:
    half = np.arange(len(kb.valid)) % 2 == 0
    together = course.models([None, half])
    alone = [course.model(), course.model(half)]
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one.weights.shared, other.weights.shared)
        assert one.trees is not None
        assert other.trees is not None
        assert all(np.array_equal(one.trees.arrays()[name], array) for name, array in other.trees.arrays().items())
    assert any(
        a.shape != b.shape or not np.array_equal(a, b)
        for a, b in zip(together[0].trees.arrays().values(), together[1].trees.arrays().values(), strict=True)  # type: ignore[union-attr]
    )


def test_a_record_has_all_that_the_page_shows(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(beyond, "MOST_WITHOUT", 60)
    monkeypatch.setattr(beyond, "MOST_WITHOUT_JUDGED", 5)
    small = replace(kb, splits={**kb.splits, "test": kb.test[:10]})
    found = beyond.measure_patterns(small, None, None, 0)
    assert found["valid"]["published-code"] == max(found["valid_stages"].values(), key=lambda stage: stage["mrr"])
    assert {"nothing", "rules", "walks"} <= found["without"]["links"].keys()
    assert {"nothing", "gaps"} <= found["without"]["dates"].keys()
    results = Results(tmp_path)
    results.add(Cell("yago11k", PATTERNS, 0), json.loads(json.dumps(found)))
    assert "YAGO11k: TimePlex with patterns" in tables.beyond(results)
    assert "− walks" in tables.without(results)


@pytest.mark.parametrize(
    ("events", "most", "expected"),
    [
        (False, 0, [("timeplex-base", (), "")]),
        (True, 10**6, [("timeplex-base", ("epochs=10", "validate_every=5"), "-10-epochs")]),
        (True, 0, []),
    ],
)
def test_which_base_model_is_trained(
    events: bool,
    most: int,
    expected: list[tuple[str, tuple[str, ...], str]],
    kb: TemporalKB,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Of events a short one in a folder of its own, of very many none."""
    trained, measured = [], []

    def train_cell(cell: Cell, workspace: object, display: object, settings: tuple[str, ...], beside: str) -> None:
        trained.append((cell.model, settings, beside))
        raise InputError("enough", "")

    def measure(*args: object) -> dict[str, str]:
        measured.append(args[1])
        raise InputError("enough", "")

    monkeypatch.setattr(beyond, "has_events", lambda facts: events)
    monkeypatch.setattr(beyond, "MOST_EVENTS", most)
    monkeypatch.setattr(beyond, "train_cell", train_cell)
    monkeypatch.setattr(beyond, "measure_patterns", measure)
    monkeypatch.setattr(Workspace, "kb", lambda self, dataset: kb)
    with pytest.raises(InputError, match="enough"):
        beyond.run_missing_patterns([Cell("icews14", PATTERNS, 0)], Workspace(tmp_path, Results(tmp_path)))
    assert trained == expected
    assert measured == ([] if expected else [None])


def test_a_run_beside_has_a_folder_of_its_own(tmp_path: Path) -> None:
    workspace, cell = Workspace(tmp_path, Results(tmp_path)), Cell("icews14", "timeplex-base", 0)
    assert workspace.folder(cell, "-10-epochs").path == tmp_path / "icews14" / "timeplex-base-0-10-epochs"
