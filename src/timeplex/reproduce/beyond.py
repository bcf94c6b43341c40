"""Beyond the paper: `timeplex-patterns`, patterns beside the scores of a base model, measured like the others.

Patterns count train facts alone; what they weigh comes from folds of train and from dev. Dev figures are cross-fitted:
each part of dev is judged by a model that was adjusted on the other parts. Whether trees rank the best again, and
whether dates are adjusted on dev, is decided by these figures; test is asked once, by what was chosen.

Of many events train teaches all that patterns weigh, so that dev judges without being parted. Their base model trains a
few epochs only, most of what it adds; a very large KB of events does without.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from timeplex.answers.trained import embedding_scores
from timeplex.errors import InputError
from timeplex.evaluation.baselines import BASELINES
from timeplex.evaluation.metrics import link_metrics, time_scores
from timeplex.evaluation.protocol import PUBLISHED_CODE
from timeplex.evaluation.ranking import DirectedScorer, EntityScorer, LinkPrediction, PlacedFacts, rank
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.models.base import Span
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.patterns.base import Evidence, LinkQueries, TimeQueries
from timeplex.patterns.dating import DateModel
from timeplex.patterns.events import has_events
from timeplex.patterns.questions import blocks
from timeplex.patterns.ranking import EXTRA, Course, LinkModel
from timeplex.patterns.relation_classes import relation_classes
from timeplex.reproduce import Display, Step
from timeplex.reproduce.records import Cell
from timeplex.reproduce.runner import LINK, Workspace, has_lasting_facts, train_cell
from timeplex.training.loop import choose_device
from timeplex.training.run import TrainedRun, machine
from timeplex.typing import Floats, Ints

BASE = "timeplex-base"
EVENT_SETTINGS, EVENT_RUN, MOST_EVENTS = ("epochs=10", "validate_every=5"), "-10-epochs", 100_000
"""Of events the base model is trained like that, if there are no more facts than so many; else there is none."""
PARTS = 3
"""Dev is cut in so many parts."""
ENOUGH_JUDGED = 2_500
"""Parts are judged until so many dev facts are: all parts of a small KB, one of a large one."""
MOST_WITHOUT, MOST_WITHOUT_JUDGED = 2_000, 600
"""From so many facts dates are learned without a pattern, and by so many dev facts it is judged: it is done often."""
TOP = 10
"""So many spans are predicted for each fact."""
DECODER = "expected-aeiou"


def run_missing_patterns(
    cells: Sequence[Cell],
    workspace: Workspace,
    *,
    again: bool = False,
    train: bool = True,
    on_step: Callable[[Step], None] = lambda step: None,
    display: Display = nullcontext,
) -> None:
    """Record the cells of `timeplex-patterns` that are not recorded yet, each after the base model that it needs."""
    todo = [cell for cell in cells if again or not workspace.results.has(cell)]
    for number, cell in enumerate(todo, start=1):
        kb = workspace.kb(cell.dataset)
        run, trained = None, None
        events = has_events(kb.train)
        if not events or len(kb.train) <= MOST_EVENTS:
            base = replace(cell, model=BASE)
            settings, beside = (EVENT_SETTINGS, EVENT_RUN) if events else ((), "")
            folder = workspace.folder(base, beside)
            if not folder.is_finished:
                if not train:
                    continue
                on_step(Step(number, len(todo), f"{base}: training", None))
                train_cell(base, workspace, display, settings, beside)
            run, trained = folder.load(choose_device(workspace.device)), folder.metrics()

        def tell(doing: str, number: int = number, cell: Cell = cell) -> None:
            on_step(Step(number, len(todo), f"{cell}: {doing}", None))

        workspace.results.add(cell, measure_patterns(kb, run, trained, cell.seed, tell))


def measure_patterns(
    kb: TemporalKB,
    run: TrainedRun | None,
    trained: dict[str, Any] | None,
    seed: int,
    tell: Callable[[str], None] = lambda doing: None,
) -> dict[str, Any]:
    """All figures of a seed: links on test and dev, times where facts last; of seed 0 also what each pattern brings."""
    if len(kb.valid) < 2 or len(kb.test) == 0:
        raise InputError(f"{kb.name} has no dev or test facts.", "Split it with `timeplex split`.")
    start, evidence = time.monotonic(), Evidence.of(kb)
    extra = None if run is None else embedding_scores(run)
    tell("learning who")
    course = Course(kb, evidence, extra=extra, asks="begin", seed=seed, keep=seed == 0)
    part = np.random.default_rng(1).integers(PARTS, size=len(kb.valid))
    enough = np.cumsum(np.bincount(part, minlength=PARTS)) >= ENOUGH_JUDGED
    judged = range(int(enough.argmax()) + 1 if enough.any() else PARTS)
    if course.by_folds and extra is None:  # dev had no part in it
        part, judged = np.zeros_like(part), range(1)
        by_all = course.model()
        models = [by_all]
    else:
        by_all, *models = course.models([None, *(part != each for each in judged)])
    seconds = time.monotonic() - start
    variants = {"linear": [replace(model, trees=None) for model in models], "trees": models}
    for group in dict.fromkeys(course.groups) if seed == 0 else ():
        tell(f"who, without {group}")
        variants[group] = [course.linear(part != each, without=group) for each in judged]
    tell("ranking dev")
    some = part < len(judged)
    ranked = pattern_ranks(kb, kb.valid[some], variants, part[some])
    on_dev = {name: _figures(ranks) for name, ranks in ranked.items()}
    stages = {name: on_dev.pop(name) for name in ("linear", "trees")}
    trees = stages["trees"]["mrr"] > stages["linear"]["mrr"]
    final = by_all if trees else replace(by_all, trees=None)
    tell("ranking test")
    parameters = final.weights.shared.size + final.weights.corrections.size
    found: dict[str, Any] = {
        "test": {PUBLISHED_CODE.name: links(kb, kb.test, final)},
        "valid": {PUBLISHED_CODE.name: stages["trees" if trees else "linear"]},
        "valid_stages": stages,
        "baselines": baseline_links(kb),
    }
    without = {"links": {"nothing": stages["linear"], **on_dev}} if on_dev else {}
    adjusted = False
    if has_lasting_facts(kb):
        tell("learning when")
        start = time.monotonic()
        dates, figures, adjusted = times(kb, evidence)
        seconds += time.monotonic() - start
        found |= figures
        parameters += sum(weights.shared.size + weights.own.size for weights in dates.weights.values())
        if seed == 0:
            without["dates"] = dates_without(kb, evidence, dates, tell)
    base = None if run is None else run.recipe.model_dump()
    recipe = {
        "base": base,
        "links": [*course.names, *([EXTRA] if run is not None else [])],
        "trees": trees,
        "dates": [pattern.name for pattern in dates.fitted.patterns] if "decoders" in found else [],
        "dates_adjusted_on_dev": adjusted,
        "seed": seed,
    }
    return {
        "recipe": recipe,
        "seconds": round(seconds + (0.0 if trained is None else trained["seconds"]), 1),
        "parameters": parameters + (0 if trained is None else trained["parameters"]),
        "machine": machine() if trained is None else trained["machine"],
        **found,
        **({"without": without} if without else {}),
    }


# Links ----------------------------------------------------------------------------------------------------------------


def links(kb: TemporalKB, facts: Facts, model: LinkModel) -> dict[str, float]:
    """MRR and HITS@k of facts over both directions, ranked among all entities by `published-code`."""
    return _figures(pattern_ranks(kb, facts, {"": [model]}, np.zeros(len(facts), np.int64))[""])


def pattern_ranks(
    kb: TemporalKB, facts: Facts, variants: Mapping[str, Sequence[LinkModel]], part: Ints
) -> dict[str, Floats]:
    """The ranks of the facts' subjects and objects, in no particular order, by variant.

    Each part of the facts, (n,), is ranked by the model that a variant has for it. The features of a question, which
    cost most, are looked at once: the models have the same patterns and differ in what these count.
    """
    some = next(iter(variants.values()))[0]
    last = torch.from_numpy(~kb.train.mentioned(len(kb.entities)))
    found: dict[str, list[Floats]] = {name: [np.empty(0)] for name in variants}
    for each in np.unique(part):
        mine = facts[part == each]
        task = LinkPrediction(kb, mine, kb.timeline("calendar"), PUBLISHED_CODE, [PUBLISHED_CODE.filter])
        for direction in DIRECTIONS:
            asked = LinkQueries.of(mine, direction, len(kb.relations))
            allowed = task.forgiven[direction][PUBLISHED_CODE.filter]
            for block in blocks(len(mine)):
                rows, r = some.rows(asked[block]), asked.r[block]
                known = {"": allowed.rows(block.start, block.stop)}
                for name, models in variants.items():
                    ranks = rank(
                        _Told(torch.from_numpy(models[each].scored(rows, r))),
                        task.queries[block],
                        known,
                        direction,
                        entities=len(kb.entities),
                        ties=PUBLISHED_CODE.ties,
                        last=last if PUBLISHED_CODE.unseen == "last" and bool(last.any()) else None,
                    )
                    found[name].append(ranks[""])
    return {name: np.concatenate(ranks) for name, ranks in found.items()}


@dataclass(frozen=True)
class _Told(DirectedScorer):
    """Scores that are there already."""

    scores: Tensor

    def rows(self, direction: Direction, given: Tensor, r: Tensor, span: Span) -> Tensor:
        return self.scores


def baseline_links(kb: TemporalKB) -> dict[str, dict[str, float]]:
    """Test by what takes an hour to write."""
    train, sizes = PlacedFacts.of(kb.train, kb.timeline("calendar")), (len(kb.entities), len(kb.relations))
    return {name: _figures(np.concatenate(_ranks(kb, kb.test, of(train, *sizes)))) for name, of in BASELINES.items()}


def _ranks(kb: TemporalKB, facts: Facts, scorer: EntityScorer) -> list[Floats]:
    task = LinkPrediction(kb, facts, kb.timeline("calendar"), PUBLISHED_CODE, [PUBLISHED_CODE.filter])
    return [task.ranks(scorer, direction)[PUBLISHED_CODE.filter] for direction in DIRECTIONS]


def _figures(ranks: Floats) -> dict[str, float]:
    metrics = link_metrics(ranks)
    return {name: metrics[name] for name in LINK}


# Times ----------------------------------------------------------------------------------------------------------------


def times(kb: TemporalKB, evidence: Evidence) -> tuple[DateModel, dict[str, Any], bool]:
    """The model of dates, its figures on test and dev in the form of the others, and whether it was adjusted on dev."""
    dev, test = kb.valid[kb.valid.closed], kb.test[kb.test.closed]
    plain = DateModel.fit(evidence)
    by_train = _time_scores(plain, dev)
    half = np.random.default_rng(0).permutation(len(dev)) % 2 == 0
    parts = [_time_scores(plain.adjusted(dev[~mine]), dev[mine]) for mine in (half, ~half)]
    cross = {name: np.concatenate([each[name] for each in parts]) for name in by_train}
    adjusted = bool(cross["aeiou@1"].mean() > by_train["aeiou@1"].mean())
    model = plain.adjusted(dev) if adjusted else plain
    on_dev, on_test = cross if adjusted else by_train, _time_scores(model, test)
    of_class = relation_classes(kb)[test.r]
    classes = {str(name): float(on_test["aeiou@1"][of_class == name].mean()) for name in np.unique(of_class)}
    return (
        model,
        {
            "decoders": {DECODER: _means(on_test)},
            "valid_decoders": {DECODER: _means(on_dev)},
            "decoder_classes": {DECODER: classes},
            "baseline_time": _means(time_scores(test.span, usual_spans(kb, test))),
        },
        adjusted,
    )


def dates_without(
    kb: TemporalKB, evidence: Evidence, model: DateModel, tell: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Dev figures with each pattern left out, learned anew on train alone; and with all. Both from a sample."""
    dev, found = kb.valid[kb.valid.closed], {}
    dev = dev[np.sort(np.random.default_rng(2).permutation(len(dev))[:MOST_WITHOUT_JUDGED])]
    names = [pattern.name for pattern in model.fitted.patterns]
    for row in ("nothing", *names):
        tell(f"when, without {row}")
        left = tuple(name for name in names if name != row)
        model = DateModel.fit(evidence, names=left, most=MOST_WITHOUT)
        found[row] = {"aeiou@1": _means(_time_scores(model, dev))["aeiou@1"]}
    return found


def _time_scores(model: DateModel, facts: Facts) -> dict[str, Floats]:
    return time_scores(facts.span, model.spans(TimeQueries.of(facts), top=TOP))


def _means(scores: dict[str, Floats]) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in scores.items()}


def usual_spans(kb: TemporalKB, facts: Facts) -> tuple[Ints, Ints]:
    """What takes an hour to write: (n, 1) begins and ends by medians.

    The begin is the median begin of the subject's train facts plus the median distance of the relation's begins from
    such medians; that of the object's where the subject has none, else that of the relation. It lasts as long as the
    relation's facts do.
    """
    train = kb.train[kb.train.closed]
    begin = train.begin.astype(np.int64)
    everyone = int(np.median(begin)) if len(begin) else 0
    lasts = _medians(train.r, train.end.astype(np.int64) - begin, len(kb.relations))
    relation = _medians(train.r, begin, len(kb.relations))
    guess = np.where(np.isnan(relation), everyone, relation)[facts.r]
    for own, asked in ((train.o, facts.o), (train.s, facts.s)):
        centre = _medians(own, begin, len(kb.entities))
        away = _medians(train.r, begin - centre[own], len(kb.relations))
        here = centre[asked] + away[facts.r]
        guess = np.where(np.isnan(here), guess, here)
    first = np.rint(guess).astype(np.int64)
    length = np.nan_to_num(lasts[facts.r]).astype(np.int64)
    return first[:, None], (first + length)[:, None]


def _medians(keys: ArrayLike, values: ArrayLike, count: int) -> Floats:
    """The median value of each key, (count,); NaN without values."""
    order = np.lexsort((np.asarray(values), np.asarray(keys)))
    key, value = np.asarray(keys)[order], np.asarray(values, np.float64)[order]
    start, stop = (np.searchsorted(key, np.arange(count), side=side) for side in ("left", "right"))
    found = np.full(count, np.nan)
    some = stop > start
    low, high = (start + stop - 1)[some] // 2, (start + stop)[some] // 2
    found[some] = (value[low] + value[high]) / 2
    return found
