"""Figures of a run: each by the plain way to get it."""

import numpy as np
import pytest
import torch
from tests.evaluation.measures import fit_thresholds, predicted, time_metrics

from timeplex import TemporalKB
from timeplex.evaluation.protocol import PAPER, PUBLISHED_CODE
from timeplex.evaluation.ranking import PlacedFacts
from timeplex.evaluation.report import evaluate_times
from timeplex.evaluation.time_prediction import RULES, both_ends_known
from timeplex.kb.facts import Facts
from timeplex.reproduce.measure import links, measure, ranks_of_test, times
from timeplex.reproduce.plan import Cell, Request
from timeplex.reproduce.runner import Workspace, run_missing
from timeplex.training.run import TrainedRun

CPU = torch.device("cpu")
TRAINED = {"epochs": 1, "best_epoch": 1, "parameters": 5, "machine": {}, "seconds": 2.0}


@pytest.fixture
def run(workspace: Workspace) -> TrainedRun:
    run_missing(Request.of(tables=["link"], datasets=["yago11k"], models=["timeplex-base"], seeds=1), workspace)
    return workspace.load(Cell("yago11k", "timeplex-base", 0))


def test_dev_thresholds_are_judged_by_other_facts(run: TrainedRun) -> None:
    kb, relations = run.kb, len(run.kb.relations)
    facts = both_ends_known(kb.valid)
    assert len(facts) > 20
    half = np.random.default_rng(0).permutation(len(facts)) % 2 == 0
    assert abs(int(half.sum()) - len(facts) / 2) <= 0.5
    found = times(run, CPU)["valid_decoders"]
    for rule in RULES:
        judged = []
        for mine in (half, ~half):
            way = fit_thresholds(run.scorer, facts[~mine], run.timeline, rule, relations=relations)
            asked = facts[mine]
            spans = predicted(run.scorer, PlacedFacts.of(asked, run.timeline), run.timeline, way)
            judged.append((len(asked), time_metrics(asked.span, spans)["aeiou@1"]))
        expected = sum(number * value for number, value in judged) / len(facts)
        assert found[rule]["aeiou@1"] == pytest.approx(expected)
    alike = evaluate_times(kb, kb.valid, run.timeline, run.scorer).filter(decoder="grid")["aeiou@1"].mean()
    assert isinstance(alike, float)
    assert alike >= found["grid"]["aeiou@1"]  # judged by the facts that it was fitted on


def test_test_figures_are_those_of_evaluate(run: TrainedRun) -> None:
    found = measure(run, TRAINED, ranks_of_test(run, CPU), CPU)
    table = evaluate_times(run.kb, run.kb.test, run.timeline, run.scorer)
    for decoder, figures in found["decoders"].items():
        mine = table.filter(decoder=decoder)
        assert figures["aeiou@10"] == pytest.approx(mine["aeiou@10"].mean())
        for name, value in found["decoder_classes"][decoder].items():
            assert value == pytest.approx(mine.filter(pl_class(name))["aeiou@1"].mean())
    assert found["test"]["paper"] == links(run, "test", PAPER, CPU)
    assert found["test"]["published-code"] == links(run, "test", PUBLISHED_CODE, CPU) == found["filters"]["per-instant"]
    assert found["filters"]["ignore-time"]["mrr"] >= found["filters"]["per-instant"]["mrr"]
    assert found["filters"]["per-instant"]["mrr"] >= found["filters"]["exact-span"]["mrr"]
    assert found["valid"]["published-code"] == links(run, "valid", PUBLISHED_CODE, CPU)
    assert found["ordering"]["queries"] == len(run.kb.test)


def pl_class(name: str):  # type: ignore[no-untyped-def]
    import polars as pl

    return pl.col("class") == name


def test_the_gadgets_time_is_part_of_the_whole(run: TrainedRun) -> None:
    found = measure(run, {**TRAINED, "phase2": {"seconds": 3.5}}, ranks_of_test(run, CPU), CPU)
    assert (found["seconds"], found["phase2_seconds"]) == (5.5, 3.5)


def test_events_have_no_times(run: TrainedRun, small: TemporalKB) -> None:
    from dataclasses import replace

    def events(facts: Facts) -> Facts:
        known = both_ends_known(facts)
        return replace(known, end=known.begin)

    kb = replace(small, splits={name: events(part) for name, part in small.splits.items()})
    setup = replace(run.setup, kb=kb)
    model = setup.new_model().train(False)
    of_events = TrainedRun(run.path, setup, model, {})
    found = measure(of_events, TRAINED, ranks_of_test(of_events, CPU), CPU)
    assert not {"ordering", "decoders", "ablation"} & found.keys()
