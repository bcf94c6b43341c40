"""All figures of one trained run that the tables need."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import polars as pl
import torch

from timeplex.evaluation.diagnostics import top_subjects, violations
from timeplex.evaluation.metrics import link_metrics, nested, time_figures
from timeplex.evaluation.protocol import FILTERS, PAPER, PUBLISHED_CODE, Protocol
from timeplex.evaluation.ranking import LinkPrediction, PlacedFacts, Ranks
from timeplex.evaluation.report import compare, predicted_spans, predicts_times, ways_to_decode
from timeplex.evaluation.time_prediction import both_ends_known, dev_values
from timeplex.kb.facts import TemporalKB
from timeplex.models.base import Model
from timeplex.models.scorer import DIRECTIONS
from timeplex.patterns import orderings
from timeplex.training.run import TrainedRun

Ranked = dict[str, tuple[Ranks, Ranks]]
"""Ranks of the golds as subjects and as objects, (n,) each, by filter."""

LINK = ("mrr", "hits@1", "hits@3", "hits@10")

LEFT_OUT = {"-pair": ("pair",), "-rec": ("recurrence",), "-pair-rec": ("pair", "recurrence")}
"""The rows of the ablation (appendix F), and the gadgets that each does without."""


def measure(run: TrainedRun, trained: dict[str, Any], ranked: Ranked, device: torch.device) -> dict[str, Any]:
    """Link prediction by both protocols on test and dev, and on data whose facts last also what concerns time.

    `trained` is what the training said of itself, `ranked` what `ranks_of_test` found. On dev the protocol `paper` is
    left out for models that have to sum over the instants of a span one by one: for HyTE on YAGO11k it takes 8 times
    as long as `published-code`.
    """
    lasting = has_lasting_facts(run.kb)
    quick = not lasting or type(run.model).objects is not Model.objects
    filters = link_figures(ranked)
    found = {
        "recipe": run.recipe.model_dump(),
        **{name: trained[name] for name in ("epochs", "best_epoch", "parameters", "machine")},
        **_training_time(trained),
        "test": {PUBLISHED_CODE.name: filters[PUBLISHED_CODE.filter], **_by_paper(run, "test", device)},
        "valid": {
            PUBLISHED_CODE.name: links(run, "valid", PUBLISHED_CODE, device),
            **(_by_paper(run, "valid", device) if quick else {}),
        },
        "filters": filters,
    }
    if lasting:
        found["ordering"] = broken_orderings(run, device)
        found |= times(run, device)
        found |= ablation(run, device)
    return found


def _training_time(trained: dict[str, Any]) -> dict[str, float]:
    """Seconds of the whole training, and of the gadgets' part of it."""
    if "phase2" not in trained:
        return {"seconds": trained["seconds"]}
    gadgets = trained["phase2"]["seconds"]
    return {"seconds": round(trained["seconds"] + gadgets, 1), "phase2_seconds": gadgets}


def has_lasting_facts(kb: TemporalKB) -> bool:
    """Whether some fact is known to end later than it begins."""
    facts = both_ends_known(kb.facts)
    return bool((facts.end > facts.begin).any())


def _by_paper(run: TrainedRun, split: str, device: torch.device) -> dict[str, dict[str, float]]:
    return {PAPER.name: links(run, split, PAPER, device)}


def ranks(
    run: TrainedRun, split: str, protocol: Protocol, device: torch.device, filters: tuple[str, ...] = ()
) -> Ranked:
    """Ranks of the golds as subjects and as objects, (n,) each, by filter; by the protocol's own if none is named."""
    chosen = [protocol.filter] if not filters else [name for name in FILTERS if name in filters]
    task = LinkPrediction(run.kb, run.kb.split(split), run.timeline, protocol, chosen)
    subjects, objects = (task.ranks(run.scorer, direction, device) for direction in DIRECTIONS)
    return {name: (subjects[name], objects[name]) for name in chosen}


def ranks_of_test(run: TrainedRun, device: torch.device) -> Ranked:
    """Ranks of the test facts' subjects and objects by `published-code`, with every filter."""
    return ranks(run, "test", PUBLISHED_CODE, device, FILTERS)


def links(run: TrainedRun, split: str, protocol: Protocol, device: torch.device) -> dict[str, float]:
    """MRR and HITS@k over both directions, by the protocol's filter."""
    return link_figures(ranks(run, split, protocol, device))[protocol.filter]


def link_figures(ranked: Ranked) -> dict[str, dict[str, float]]:
    """MRR and HITS@k over both directions, by filter."""
    found = {}
    for name, both in ranked.items():
        metrics = link_metrics(np.concatenate(both))
        found[name] = {metric: metrics[metric] for metric in LINK}
    return found


def broken_orderings(run: TrainedRun, device: torch.device) -> dict[str, float]:
    """The share of test queries (?, r, o, t) whose top subject breaks an ordering of relations (table 4).

    t is the begin of the fact, as in the published code; orderings are about begins.
    """
    spans = PlacedFacts.of(run.kb.test, run.timeline)
    queries = replace(spans, last=spans.first)
    top = top_subjects(run.scorer, queries, entities=len(run.kb.entities), device=device)
    found = violations(top, run.kb.test, run.kb.train, orderings.mine(run.kb.train))
    return {"share": found.share, "queries": found.queries}


# Times ----------------------------------------------------------------------------------------------------------------


def times(run: TrainedRun, device: torch.device) -> dict[str, Any]:
    """Figures of time prediction by each decoder, on test and on dev; nothing if the model predicts no times.

    On test the thresholds are those of all dev facts. On dev they are fitted on one half and judged on the other, both
    ways: thresholds judged by the facts that they were fitted on would look too good beside a decoder without any.
    """
    kb, timeline, scorer = run.kb, run.timeline, run.scorer
    facts = both_ends_known(kb.valid)
    if not predicts_times(scorer) or len(facts) < 2 or len(both_ends_known(kb.test)) == 0:
        return {}
    said = dev_values(scorer, kb.valid, timeline, device=device)
    test = predicted_spans(kb, kb.test, timeline, scorer, ways_to_decode(kb, said), device)
    judged = []
    half = np.random.default_rng(0).permutation(len(facts)) % 2 == 0
    for mine in (half, ~half):
        ways = ways_to_decode(kb, said, ~mine)
        judged.append(predicted_spans(kb, facts[mine], timeline, scorer, ways, device))
    return {
        "decoders": _without_count(nested(time_figures(test), ["decoder"])),
        "valid_decoders": _without_count(nested(time_figures(pl.concat(judged)), ["decoder"])),
        "decoder_classes": {
            decoder: {name: figures["aeiou@1"] for name, figures in classes.items()}
            for decoder, classes in nested(time_figures(test, "class"), ["decoder", "class"]).items()
        },
    }


def _without_count(figures: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {decoder: {name: of[name] for name in of if name != "facts"} for decoder, of in figures.items()}


def ablation(run: TrainedRun, device: torch.device) -> dict[str, Any]:
    """Test figures without one gadget, and without any; nothing for a run without gadgets."""
    found = {}
    for name, gadgets in LEFT_OUT.items():
        if set(gadgets) <= set(run.gadgets):
            rest = run.without(*gadgets)
            decoders = times(rest, device).get("decoders", {})
            found[name] = {
                **links(rest, "test", PUBLISHED_CODE, device),
                "decoders": {decoder: figures["aeiou@1"] for decoder, figures in decoders.items()},
            }
    return {"ablation": found} if found else {}


# Significance ---------------------------------------------------------------------------------------------------------


def kept_ranks(ranked: Ranked) -> pl.DataFrame:
    """What is kept of `ranks_of_test`: the ranks by the filter of `published-code`."""
    subjects, objects = ranked[PUBLISHED_CODE.filter]
    return pl.DataFrame({"subject": subjects, "object": objects})


def compare_ranks(first: pl.DataFrame, second: pl.DataFrame) -> dict[str, Any]:
    """How two models differ by the reciprocal ranks of the same facts (mean of both directions)."""
    one, other = ((1 / of["subject"] + 1 / of["object"]).to_numpy() / 2 for of in (first, second))
    return asdict(compare(one, other))
