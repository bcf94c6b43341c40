"""Which runs the tables and figures of the paper need."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from timeplex.datasets.benchmarks import BENCHMARKS
from timeplex.errors import InputError
from timeplex.text import did_you_mean

DATASETS = ("yago11k", "wikidata12k", "icews14", "icews05-15")
"""By size, so that the first results come soon."""

LASTING = ("yago11k", "wikidata12k")
"""The data sets with facts that last; times are predicted for these."""

MODELS = {
    "complex": "ComplEx",
    "ta": "TA",
    "hyte": "HyTE",
    "de-simple": "DE-SimplE",
    "tnt-complex": "TNT-ComplEx",
    "timeplex-base": "TimePlex (base)",
    "timeplex": "TimePlex",
}
"""Names of recipes, in the order of the paper's tables, and how they are written. A base comes before what needs it."""

BASE = {"timeplex": "timeplex-base"}
"""Models whose training begins with a finished run of another."""

SEEDS = {"yago11k": 3}
"""How many seeds a data set has; else one."""

LATER = frozenset(("icews05-15", model) for model in ("ta", "hyte", "de-simple"))
"""Runs of many hours on two cores: made only if their model is named."""

PAIRS = (("timeplex-base", "timeplex"), ("tnt-complex", "timeplex"), ("tnt-complex", "timeplex-base"))
"""Models that are compared: is the second better than the first?"""

Needs = tuple[Sequence[str], Sequence[str]]
"""Data sets and models: a run for each pair."""

TABLES: Mapping[str, Needs] = {
    "link": (DATASETS, tuple(MODELS)),
    "time": (LASTING, ("hyte", "tnt-complex", "timeplex-base", "timeplex")),
    "ordering": (LASTING, ("complex", "hyte", "tnt-complex", "timeplex-base", "timeplex")),
    "filter": (LASTING, ("tnt-complex", "timeplex")),
    "ablation": (LASTING, ("timeplex",)),
    "classes": (("yago11k",), ("tnt-complex", "timeplex")),
    "params": (DATASETS, ("hyte", "de-simple", "tnt-complex", "timeplex-base", "timeplex")),
    "stats": (DATASETS, ()),
}
FIGURES: Mapping[str, Needs] = {
    "distance": (LASTING, ("timeplex-base",)),
    "across-time": (("yago11k",), ("timeplex", "timeplex-base", "tnt-complex")),
}


@dataclass(frozen=True)
class Cell:
    """A run: a model trained on a data set with a seed."""

    dataset: str
    model: str
    seed: int

    def __str__(self) -> str:
        return f"{self.model} on {self.dataset}, seed {self.seed}"

    @property
    def work(self) -> int:
        """How much work it is, roughly: training facts."""
        return BENCHMARKS[self.dataset].facts["train"]

    @property
    def base(self) -> "Cell | None":
        """The run that its training begins with."""
        return Cell(self.dataset, BASE[self.model], self.seed) if self.model in BASE else None

    @property
    def is_compared(self) -> bool:
        """Whether its differences to other runs are looked at."""
        return self.seed == 0 and any(self.model in pair for pair in PAIRS)


@dataclass(frozen=True)
class Request:
    """What is asked for. Nothing named of a kind means all of it; a table named alone means no figure."""

    tables: tuple[str, ...]
    figures: tuple[str, ...]
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    seeds: int | None = None

    @classmethod
    def of(
        cls,
        tables: Sequence[str] = (),
        figures: Sequence[str] = (),
        datasets: Sequence[str] = (),
        models: Sequence[str] = (),
        seeds: int | None = None,
    ) -> "Request":
        """Check the names."""
        everything = not tables and not figures
        return cls(
            _known("table", tables, TABLES) if tables or not everything else tuple(TABLES),
            _known("figure", figures, FIGURES) if figures or not everything else tuple(FIGURES),
            _known("data set", datasets, DATASETS) or DATASETS,
            _known("model", models, MODELS) or tuple(MODELS),
            seeds,
        )

    def cells(self) -> list[Cell]:
        """The runs that are needed: by data set, then by seed, then as the paper orders models."""
        needs = [TABLES[name] for name in self.tables] + [FIGURES[name] for name in self.figures]
        wanted = {(dataset, model) for datasets, models in needs for dataset in datasets for model in models}
        if self.models == tuple(MODELS):
            wanted -= LATER
        return [
            Cell(dataset, model, seed)
            for dataset in DATASETS
            for seed in range(self.seeds or SEEDS.get(dataset, 1))
            for model in MODELS
            if (dataset, model) in wanted and dataset in self.datasets and model in self.models
        ]


def _known(kind: str, names: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """The names, each once, in the order of the known ones."""
    known = list(known)
    for name in names:
        if name not in known:
            hint = f"{did_you_mean(name.lower(), known)} Use one of: {', '.join(known)}.".lstrip()
            raise InputError(f"There is no {kind} {name!r}.", hint)
    return tuple(name for name in known if name in names)
