"""What a verb of the command line does, as a function: train, tune, evaluate, compare, diagnose, audit, list_models.

A KB is a `TemporalKB` or anything that `read` takes, a run is a folder or a `Trained`. torch takes seconds to import,
so that only what needs it imports it.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from timeplex.errors import InputError
from timeplex.kb import dates
from timeplex.kb.facts import TemporalKB
from timeplex.sources import read

if TYPE_CHECKING:
    import polars as pl

    from timeplex.answers.learned import Learned
    from timeplex.answers.trained import Trained
    from timeplex.auditing.findings import Findings
    from timeplex.decisions.applying import Applied
    from timeplex.decisions.journal import Decision
    from timeplex.evaluation.diagnostics import Violations
    from timeplex.evaluation.plots import Years
    from timeplex.evaluation.protocol import Protocol
    from timeplex.evaluation.report import Comparisons, Report
    from timeplex.gadgets import Gadget
    from timeplex.models import Model, Space
    from timeplex.patterns.orderings import Ordering
    from timeplex.training.checkpoint import Listener
    from timeplex.training.loop import Trainer
    from timeplex.training.recipe import Recipe
    from timeplex.training.run import TrainedRun
    from timeplex.training.tune import Trial
    from timeplex.typing import Progress

Settings = Iterable[str] | Mapping[str, Any]
"""Changes of a recipe: ["epochs=20", …] or {"epochs": 20, …}."""

Run: TypeAlias = "str | os.PathLike[str] | Trained"
"""A run folder, or a run that is loaded already."""

YAGO11K = {"entities": 10_623, "relations": 10, "instants": 380, "facts": 16_408}
"""The size for which parameters are counted where no KB is given."""


# Training --------------------------------------------------------------------------------------------------------


def train(
    kb: Any,
    output: str | Path,
    *,
    model: str | None = None,
    recipe: "Recipe | str | Path | None" = None,
    settings: Settings = (),
    base: str | Path | None = None,
    resume: bool = False,
    patterns: bool = True,
    track: str | Iterable[str] = (),
    device: str = "auto",
    data_dir: str | Path | None = None,
    on_progress: "Listener | None" = None,
) -> "Trained":
    """Train a model on a KB, leave a run folder, and return it ready to be asked.

    With nothing else said the full TimePlex is trained, by a recipe that suits the KB's size. A KB without dev facts is
    split at random, 8 : 1 : 1.

    model        another model; `path/to/file.py:name` is your own, also beside a recipe
    recipe       a `Recipe`, or a TOML file
    settings     single changes of it, such as {"epochs": 20} or ["epochs=20"]
    base         a finished run of the same recipe without gadgets: its model is taken, and only the gadgets are trained
    resume       go on where the run in `output` was cut off; `kb` is None, since the run has its KB and its recipe
    patterns     whether the patterns of answers are learned at once, or only with the first question
    track        log to `tensorboard` or `mlflow`, too
    device       auto, cpu or cuda
    data_dir     where benchmarks lie
    on_progress  called after every batch with where training stands (`training.checkpoint.Progress`)

    A training that diverges ends with the best tables before that and a warning, or with a `DivergedError` if there are
    none. Ctrl-C saves, and ends it with `errors.Stopped`.

    >>> import timeplex
    >>> timeplex.train("sample", "runs/sample", settings={"epochs": 20})                    # doctest: +SKIP
    >>> timeplex.train(None, "runs/sample", resume=True)                                    # doctest: +SKIP
    """
    from timeplex.answers.trained import load
    from timeplex.training import tracking

    tracked = tracking.track(_listed(track), Path(output))
    trainer = trainer_for(kb, output, model, recipe, settings, base, resume, device, data_dir)
    metrics = trainer.fit(on_progress, resume=resume, tracking=tracked)
    if "diverged" in metrics:
        warnings.warn(metrics["diverged"], stacklevel=2)
    trained = load(output, device)
    return trained.learn() if patterns else trained


def trainer_for(
    kb: Any,
    output: str | Path,
    model: str | None = None,
    recipe: "Recipe | str | Path | None" = None,
    settings: Settings = (),
    base: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    data_dir: str | Path | None = None,
) -> "Trainer":
    """What `train` sets going, for those who want to look at it first; its `fit` must know of `resume`, too."""
    from timeplex.models.loading import names_file, own_models
    from timeplex.training.experiment import Experiment
    from timeplex.training.loop import Trainer
    from timeplex.training.recipe import recipe_for, with_dev
    from timeplex.training.run import RunFolder

    folder = RunFolder(Path(output))
    if not resume:
        if kb is None:
            raise InputError("There is nothing to learn from.", "Give a KB, such as: timeplex train sample -o RUN")
        data = with_dev(_kb(kb, data_dir))
        chosen = recipe_for(data, model, recipe, settings)
        return Trainer(data, chosen, folder.path, device, None if base is None else Path(base))
    if kb is not None or recipe is not None or settings or base is not None or (model and not names_file(model)):
        raise InputError("A resumed run has its KB and its recipe.", "Give --resume and -o RUN alone.")
    own_models([model] if model else [])
    if folder.is_finished:
        folder.tidy()
        raise InputError(f"{output} is finished.", "Nothing is left to do.")
    if not folder.is_begun:
        raise InputError(f"{output} is not a run that was begun.", "Start one with: timeplex train KB -o RUN")
    data, chosen = folder.kb(), folder.recipe()
    folder.check_checkpoint(Experiment(data, chosen))
    return Trainer(data, chosen, folder.path, device)


def tune(
    kb: Any,
    output: str | Path,
    *,
    trials: int = 20,
    model: str | None = None,
    recipe: "Recipe | str | Path | None" = None,
    settings: Settings = (),
    search: str = "all",
    data_dir: str | Path | None = None,
    on_progress: "Callable[[Trial], None] | None" = None,
) -> "Recipe":
    """Search for the settings that do best on dev, up to a number of trials, and return the best recipe.

    The search is kept in the folder `output`, with the best recipe as best.json: cut off, the same call goes on.
    `search` is `all` (every range at once) or `paper` (the paper's two stages); `on_progress` is called after every
    trial. `model`, `recipe` and `settings` say where it starts, as for `train`.

    >>> import timeplex
    >>> timeplex.tune("sample", "search", trials=10, model="complex")                       # doctest: +SKIP
    """
    from timeplex.training import tune as tuning
    from timeplex.training.recipe import recipe_for, with_dev

    if search not in ("all", "paper"):
        raise InputError(f"{search!r} is not a search.", "Use all or paper.")
    if trials < 1:
        raise InputError(f"{trials} trials cannot be made.", "Give a number of at least 1.")
    data = with_dev(_kb(kb, data_dir))
    start = recipe_for(data, model, recipe, settings)
    return tuning.tune(data, start, trials, Path(output), "paper" if search == "paper" else "all", on_progress)


def learn(
    kb: Any,
    *,
    folder: str | Path | None = None,
    data_dir: str | Path | None = None,
    on_progress: "Progress | None" = None,
) -> "Learned":
    """What patterns show in a KB: ready to be asked without training a model.

    They are learned when something is asked for the first time, which `on_progress` is told; what was learned is
    kept in `folder`, or in the KB's own if it is read from one.

    >>> import timeplex
    >>> known = timeplex.learn("sample")                                                    # doctest: +SKIP
    >>> known.when("Helmut Kohl", "headOfGovernment", "Germany")                            # doctest: +SKIP
    """
    from timeplex.answers.learned import Learned
    from timeplex.kb.store import is_kb_folder

    if folder is None and _is_path(kb) and is_kb_folder(Path(kb)):
        folder = kb
    return Learned(_kb(kb, data_dir), on_progress, None if folder is None else Path(folder))


# Evaluation ------------------------------------------------------------------------------------------------------


def evaluate(
    source: Any,
    *,
    split: str = "test",
    protocol: "str | Protocol" = "paper",
    filter: str | None = "all",
    device: str = "auto",
    data_dir: str | Path | None = None,
    model: str | Iterable[str] = (),
) -> "Report":
    """How good a trained run is: link prediction under time-aware filters, time prediction, baselines beside them.

    Of a KB, the baselines alone. `protocol` is `paper`, `published-code` or a `Protocol`; `filter` is `all`, one of
    `none`, `ignore-time`, `exact-span`, `per-instant`, or None for the protocol's own. A run of your own model needs
    `model="path/to/file.py:name"`.

    >>> import timeplex
    >>> report = timeplex.evaluate("runs/sample", split="valid")                            # doctest: +SKIP
    >>> report = timeplex.evaluate("sample", filter="per-instant")
    >>> sorted(report.baselines)
    ['copy nearest', 'most frequent', 'most frequent then']
    """
    from timeplex.answers.trained import Trained
    from timeplex.evaluation import protocol as protocols
    from timeplex.evaluation.report import evaluate_baselines, link_task
    from timeplex.models.loading import own_models
    from timeplex.training.run import RunFolder

    own_models(_listed(model))
    chosen = protocols.protocol(protocol)  # whether there is such a one, before anything is loaded
    if isinstance(source, Trained) or (_is_path(source) and RunFolder(Path(source)).is_begun):
        return _loaded(source, device).evaluate(split=split, protocol=chosen, filter=filter)
    kb = _kb(source, data_dir)  # a KB folder has a manifest, too
    return evaluate_baselines(link_task(kb, split, kb.timeline("calendar"), chosen, filter), split)


def compare(
    first: Run,
    *others: Run,
    split: str = "test",
    protocol: "str | Protocol" = "paper",
    decoder: str = "mean-mass",
    by_relation: bool = False,
    device: str = "auto",
    model: str | Iterable[str] = (),
) -> "Comparisons":
    """Whether the first of several runs and each of the others differ by more than chance, on the same queries.

    MRR and aeIOU@1, with a paired t-test and a bootstrap interval of the difference; `decoder` says how spans are
    predicted (mean-mass, grid, expected-aeiou).

    >>> import timeplex
    >>> timeplex.compare("runs/complex", "runs/timeplex", split="valid").table              # doctest: +SKIP
    """
    from timeplex.evaluation.report import compare_reports
    from timeplex.models.loading import own_models

    own_models(_listed(model))
    if not others:
        raise InputError("There is only one run to compare.", "Give at least two run folders.")
    reports = {}
    for run in (first, *others):
        report = evaluate(run, split=split, protocol=protocol, filter=None, device=device)
        if report.model is None:
            raise InputError(f"{run} is not a run folder.", "Make one with timeplex train.")
        reports[str(run) if isinstance(run, str | os.PathLike) else str(run.run.path)] = report
    return compare_reports(reports, decoder, by_relation)


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What models trained on one KB have learned of time, beyond ranks.

    orderings   relations that come before others, mined from train
    violations  by the name of a run: which of its top subjects break them
    """

    runs: "Sequence[TrainedRun]"
    split: str
    orderings: "list[Ordering]"
    violations: "dict[str, Violations]"

    @property
    def kb(self) -> TemporalKB:
        """The KB that all were trained on."""
        return self.runs[0].kb

    def examples(self, name: str, limit: int = 5) -> list[str]:
        """Breaches of a run: `(?, hasWonPrize, Nobel Prize, 1925): Barack Obama, but wasBornIn Honolulu 1961 (…)`."""
        kb, found = self.kb, self.violations[name]
        asked, known = kb.split(self.split)[found.query], kb.train[found.fact]
        sentences = []
        for row in range(min(limit, len(found.query))):
            when, then = dates.write([asked.begin[row], known.begin[row]], kb.granularity)
            question = f"(?, {kb.relations.label(int(asked.r[row]))}, {kb.entities.label(int(asked.o[row]))}, {when})"
            evidence = f"{kb.relations.label(int(known.r[row]))} {kb.entities.label(int(known.o[row]))} {then}"
            ordering = self.orderings[int(found.ordering[row])].text(kb.relations)
            sentences.append(f"{question}: {kb.entities.label(int(found.subject[row]))}, but {evidence} ({ordering})")
        return sentences

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = self.kb.relations
        mined = [
            {"first": names[of.first], "second": names[of.second]}
            | {"holds": of.holds, "cases": of.cases, "entities": of.entities}
            for of in self.orderings
        ]
        broken = {name: {"share": of.share, "queries": of.queries} for name, of in self.violations.items()}
        return {"kb": self.kb.name, "split": self.split, "orderings": mined, "violations": broken}

    def draw_distances(self, path: Path, years: "Years | None" = None) -> None:
        """Draw the distances of time embeddings (the paper's figure 2)."""
        from timeplex.evaluation.diagnostics import time_distances
        from timeplex.evaluation.plots import distance_picture

        distance_picture({run.path.name: time_distances(run.model, run.timeline, years) for run in self.runs}, path)

    def draw_across_time(self, path: Path, fact: tuple[str, str, str], years: "Years | None" = None) -> None:
        """Draw how likely each instant is for a fact, given by ids (the paper's figure 3)."""
        from timeplex.evaluation.diagnostics import across_time
        from timeplex.evaluation.plots import FactAcrossTime, across_time_picture

        kb, window = self.kb, years or (1850, 2010)
        s, r, o = kb.entities.id(fact[0]), kb.relations.id(fact[1]), kb.entities.id(fact[2])
        curves = across_time({run.path.name: (run.scorer, run.timeline) for run in self.runs}, (s, r, o), window)
        known = (kb.facts.s == s) & (kb.facts.r == r) & (kb.facts.o == o)
        gold = next(((begin, end) for *_, begin, end in kb.facts[known]), None)
        across_time_picture([FactAcrossTime(" ".join(fact), gold, curves)], path, window)


def diagnose(*runs: Run, split: str = "test", device: str = "auto", model: str | Iterable[str] = ()) -> Diagnosis:
    """What models trained on one KB have learned of time: orderings of relations, and who breaks them how often.

    >>> import timeplex
    >>> found = timeplex.diagnose("runs/complex", "runs/timeplex")                          # doctest: +SKIP
    >>> found.violations["timeplex"].share, found.examples("timeplex")                      # doctest: +SKIP
    """
    from timeplex.evaluation.diagnostics import top_subjects, violations
    from timeplex.evaluation.ranking import PlacedFacts
    from timeplex.models.loading import own_models
    from timeplex.patterns import orderings

    own_models(_listed(model))
    loaded = [_loaded(run, device).run for run in runs]
    if not loaded:
        raise InputError("There is no run to diagnose.", "Give at least one run folder.")
    kb = loaded[0].kb
    if any(other.kb != kb for other in loaded[1:]):
        raise InputError("The runs were not trained on the same KB.", "Diagnose them one by one.")
    facts, mined, broken = kb.split(split), orderings.mine(kb.train), {}
    for run in loaded:
        asked, on = PlacedFacts.of(facts, run.timeline), next(run.model.parameters()).device
        top = top_subjects(run.scorer, asked, entities=len(kb.entities), device=on)
        broken[run.path.name] = violations(top, facts, kb.train, mined)
    return Diagnosis(loaded, split, mined, broken)


# Audit -----------------------------------------------------------------------------------------------------------


def audit(
    kb: Any,
    *,
    rules: str | Path | Mapping[str, Any] | None = None,
    mute: Iterable[str] = (),
    since: "str | Path | pl.DataFrame | None" = None,
    runs: "Run | Iterable[Run]" = (),
    model: str | Iterable[str] = (),
    device: str = "auto",
    data_dir: str | Path | None = None,
    entities: bool = False,
    on_progress: "Progress | None" = None,
) -> "Findings":
    """Find the facts of a KB that are probably wrong, by rules mined from its own facts.

    rules  a TOML file with rules of your own, or a mapping of the same shape
    mute   names of rules to leave out
    since  the table of an earlier audit, whose findings are not told again; those of muted rules are passed over
    runs   trained runs: what they find implausible is added, as the rule `model`; each fact is judged by runs that
           have not learned it
    model  `path/to/file.py:name` of your own model, if a run has one
    entities  also look for objects that do not go with their subject; takes a minute or so
    on_progress  called with (steps done, all steps) by what takes long

    >>> import timeplex
    >>> findings = timeplex.audit("sample")
    >>> findings.to_polars().columns[:4]
    ['rank', 'suspicion', 'severity', 'rule']
    >>> timeplex.audit("sample", runs=["runs/sample"]).of("model")                          # doctest: +SKIP
    """
    from timeplex.auditing.audit import audit as by_rules
    from timeplex.auditing.base import MODEL

    facts, muted, given = _kb(kb, data_dir), _listed(mute), _listed(runs)
    findings = by_rules(facts, rules=rules, mute=muted, since=since, entities=entities, on_progress=on_progress)
    if not given or MODEL in muted:
        return findings
    from timeplex.models.loading import own_models

    own_models(_listed(model))
    return _with_models(findings, facts, [_loaded(run, device) for run in dict.fromkeys(given)])


def _with_models(findings: "Findings", kb: TemporalKB, runs: "Sequence[Trained]") -> "Findings":
    """The findings together with the facts of the same KB that trained runs find implausible."""
    import numpy as np

    from timeplex.answers.plausibility import implausible
    from timeplex.auditing.base import MODEL, Found

    by = implausible(runs, kb)
    # Its rows are those of the KB; an audit has the facts in an order of its own.
    place = np.argsort(findings.case.rows) if findings.case is not None else np.arange(len(kb))
    none: list[list[int]] = [[] for _ in range(len(by))]
    found = Found(MODEL, MODEL, place[by.row], by.severity, by.holds, by.cases, by.messages, none, by.suggestions)
    return findings.plus(found, notes=[by.note])


# Decisions -------------------------------------------------------------------------------------------------------


def apply(
    kb: Any,
    decisions: "str | Path | Iterable[Decision]",
    *,
    any_kb: bool = False,
    data_dir: str | Path | None = None,
) -> "Applied":
    """The KB that the decisions of a review ask for, and what became of each.

    `decisions` is the file that `timeplex serve --decisions` wrote, or decisions. Those on another KB are refused,
    unless `any_kb`: then what fits is done, and the rest is a conflict. Applying them again changes nothing.

    >>> import timeplex
    >>> done = timeplex.apply("sample", [])
    >>> done.count("changed"), done.conflicts, len(done.kb)
    (0, [], 4483)
    """
    from timeplex.decisions.applying import apply as carry_out
    from timeplex.decisions.journal import read as read_decisions

    facts = _kb(kb, data_dir)
    if isinstance(decisions, str | os.PathLike):
        return carry_out(facts, read_decisions(decisions, None if any_kb else facts).decisions)
    return carry_out(facts, decisions)


# Models ----------------------------------------------------------------------------------------------------------


def list_models(kb: Any = None, *, data_dir: str | Path | None = None) -> dict[str, Any]:
    """The models and gadgets by name: what each is, its options, and how many numbers a model would learn for a KB.

    Without a KB they are counted for the size of YAGO11k.

    >>> import timeplex
    >>> [model["name"] for model in timeplex.list_models()["models"]][:3]
    ['complex', 'de-simple', 'distmult']
    """
    from timeplex.gadgets import GADGETS
    from timeplex.models import MODELS, Space
    from timeplex.training.experiment import Experiment
    from timeplex.training.recipe import Recipe

    facts = None if kb is None else _kb(kb, data_dir)
    if facts is None:  # begins and ends spread evenly over the timeline
        plain = Space.plain(YAGO11K["entities"], 2 * YAGO11K["relations"], YAGO11K["instants"])
        space = replace(plain, mentions=plain.mentions * (2 * YAGO11K["facts"] // YAGO11K["instants"]))
    else:  # as training by default has it: with inverse relations and the observed instants
        space = Experiment(facts, Recipe(inverse=True)).space
    return {
        "kb": "yago11k" if facts is None else facts.name,
        "entities": space.entities,
        "relations": space.relations // 2,
        "instants": space.instants,
        "inverse": True,
        "models": [{**_described(model), "parameters": _parameters(model, space)} for model in MODELS.values()],
        "gadgets": [_described(gadget) for gadget in GADGETS.values()],
    }


def _described(kind: "type[Model] | type[Gadget]") -> dict[str, Any]:
    summary = (kind.__doc__ or "").strip().partition("\n")[0]
    return {"name": kind.name, "summary": summary, "options": kind.options_type().model_dump()}


def _parameters(model: "type[Model]", space: "Space") -> int:
    """How many numbers a model learns in a space.

    Tables have a row for each entity or do not depend on them (a law), so two small models tell it of any size.
    """
    one, two = (model(replace(space, entities=number), model.options_type()).parameter_count for number in (1, 2))
    return one + (space.entities - 1) * (two - one)


# What they take --------------------------------------------------------------------------------------------------


def _kb(source: Any, data_dir: str | Path | None = None) -> TemporalKB:
    return source if isinstance(source, TemporalKB) else read(source, data_dir=data_dir)


def _loaded(run: Any, device: str) -> "Trained":
    from timeplex.answers.trained import load

    return load(run, device) if _is_path(run) else run


def _is_path(source: object) -> bool:
    return isinstance(source, str | os.PathLike)


def _listed(given: Any) -> list[Any]:
    """One or several, as a list."""
    return [given] if _is_path(given) or not isinstance(given, Iterable) else list(given)
