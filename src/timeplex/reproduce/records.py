"""Which runs the tables and figures of the paper need, and what was measured of them, as JSON.

results/<dataset>/<model>.json has a part for each seed, and their means over it. All figures are fractions of 1. Of
models that are compared the rank of every test fact is kept, too, so that they can be compared, and others with them,
when their runs are gone: results/<dataset>/ranks/<model>.parquet has the columns `subject` and `object`, in the order
of the test facts, seed 0, by `published-code`. A file is written whole or not at all.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from timeplex.datasets.benchmarks import BENCHMARKS
from timeplex.errors import DamagedError, InputError
from timeplex.files import locked, make_folder, to_json, write_whole
from timeplex.text import did_you_mean

if TYPE_CHECKING:
    import polars as pl

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

PATTERNS = "timeplex-patterns"
"""Beyond the paper: patterns, with the base model's scores beside them (`beyond`)."""

PATTERN_DATASETS = ("sample", *DATASETS)

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


def pattern_cells(datasets: Sequence[str] = (), seeds: int | None = None) -> list[Cell]:
    """The cells of `timeplex-patterns`: of these data sets, or of all."""
    named = _known("data set", datasets, PATTERN_DATASETS) or PATTERN_DATASETS
    return [Cell(dataset, PATTERNS, seed) for dataset in named for seed in range(seeds or SEEDS.get(dataset, 1))]


def _known(kind: str, names: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """The names, each once, in the order of the known ones."""
    known = list(known)
    for name in names:
        if name not in known:
            hint = f"{did_you_mean(name.lower(), known)} Use one of: {', '.join(known)}.".lstrip()
            raise InputError(f"There is no {kind} {name!r}.", hint)
    return tuple(name for name in known if name in names)


# What was measured ----------------------------------------------------------------------------------------------------


Values = dict[str, Any]

SAID = ("recipe", "seconds", "phase2_seconds", "epochs", "best_epoch", "parameters", "machine")
"""The parts that the training said of itself."""

MEASURED = (
    *("test", "valid", "filters", "ordering", "decoders", "valid_decoders", "decoder_classes", "ablation"),
    *("valid_stages", "without", "baselines", "baseline_time"),  # of patterns
)
"""The parts of a seed's figures whose means are taken."""

TEST_MRR = ("by_seed", "0", "test", "published-code", "mrr")
"""Where a record has what models are compared by."""

SHIPPED = Path(str(files("timeplex") / "reproduce" / "results"))
"""What was recorded before the release: a part of the wheel, made of results/ of the repository."""

OTHER = ("stats", "significance")
"""Files of a data set that are no models."""


@dataclass(frozen=True)
class Results:
    """The folder of records."""

    folder: Path

    def record(self, dataset: str, model: str) -> Values | None:
        """What is known of a model on a data set."""
        return self.read(f"{dataset}/{model}")

    def has(self, cell: Cell) -> bool:
        """Whether the run was measured."""
        found = self.record(cell.dataset, cell.model)
        return found is not None and str(cell.seed) in found["by_seed"]

    def read(self, name: str) -> Values | None:
        """A file of the folder, by its name without `.json`; None if there is none."""
        path = self.folder / f"{name}.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DamagedError(f"{path} cannot be read.", "Correct or delete it.") from error
        if not isinstance(found, dict):
            raise DamagedError(f"{path} is not a record.", "Correct or delete it.")
        return found

    def write(self, name: str, values: Values) -> None:
        """Write a file of the folder."""
        data = (to_json(values, indent=1, ensure_ascii=False) + "\n").encode()
        write_whole(self.folder / f"{name}.json", data)

    def ranks(self, dataset: str, model: str) -> "pl.DataFrame | None":
        """The ranks of the test facts; None if they are not kept."""
        import polars as pl

        path = self.folder / dataset / "ranks" / f"{model}.parquet"
        try:
            return pl.read_parquet(path) if path.is_file() else None
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DamagedError(f"{path} cannot be read.", "Delete it, and evaluate the run with --again.") from error

    def write_ranks(self, cell: Cell, ranks: "pl.DataFrame") -> None:
        """Keep the ranks of the test facts."""
        buffer = BytesIO()
        ranks.write_parquet(buffer)
        write_whole(self.folder / cell.dataset / "ranks" / f"{cell.model}.parquet", buffer.getvalue())

    def add(self, cell: Cell, measured: Values) -> None:
        """Add the figures of a run, or put them in place of older ones."""
        make_folder(self.folder)
        with locked(self.folder, wait=True):  # another process may add a seed of the same model
            before = self.record(cell.dataset, cell.model)
            parts: Values = dict(before["by_seed"]) if before is not None else {}
            parts[str(cell.seed)] = measured
            self.write(f"{cell.dataset}/{cell.model}", combine(cell.dataset, cell.model, parts))

    def comparisons(self, dataset: str) -> Values:
        """Which models were compared, and how they differ; not those of which one was measured anew since."""
        recorded = self.read(f"{dataset}/significance") or {"pairs": {}}
        found = {}
        for first, second in PAIRS:
            pair = recorded["pairs"].get(pair_name(first, second))
            now = [_at(self.record(dataset, model), TEST_MRR) for model in (first, second)]
            then = None if pair is None else [pair["first"], pair["second"]]
            if then and all(b is not None and abs(a - b) < 1e-9 for a, b in zip(then, now, strict=True)):
                found[pair_name(first, second)] = pair
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is recorded."""
        names = [f"{dataset}/{name}" for dataset in PATTERN_DATASETS for name in (*MODELS, PATTERNS, *OTHER)]
        return not any((self.folder / f"{name}.json").is_file() for name in names)


def pair_name(first: str, second: str) -> str:
    """What a comparison is called: is the second better than the first?"""
    return f"{second} against {first}"


def combine(dataset: str, model: str, by_seed: Values) -> Values:
    """The record of a model: means over the seeds, with the time figures of one decoder.

    The decoder is the one with the highest aeIOU@1 on dev, where each half of the facts was judged by thresholds of the
    other half; of equal ones the first.
    """
    seeds = sorted(by_seed, key=int)
    parts = [{name: by_seed[seed][name] for name in (*SAID, *MEASURED) if name in by_seed[seed]} for seed in seeds]
    first = parts[0]
    usual = len(seeds) == SEEDS.get(dataset, 1)
    whole: Values = {
        "dataset": dataset,
        "model": model,
        "command": command(dataset=[dataset], model=[model], seeds=[] if usual else [len(seeds)]) + " --again",
        "recipe": first["recipe"],
        "seeds": [int(seed) for seed in seeds],
        "seconds": {seed: part["seconds"] for seed, part in zip(seeds, parts, strict=True)},
        "machine": first["machine"],
        "parameters": first["parameters"],
        **{name: mean([part[name] for part in parts]) for name in MEASURED if all(name in part for part in parts)},
    }
    if whole.get("valid_decoders"):
        decoder = max(whole["valid_decoders"], key=lambda name: float(whole["valid_decoders"][name]["aeiou@1"]))
        whole["decoder"] = decoder
        for part in (whole, *parts):
            part["time"] = part["decoders"][decoder]
            part["valid_time"] = part["valid_decoders"][decoder]
            part["classes"] = part["decoder_classes"][decoder]
            if "ablation" in part:
                part["ablation"] = {
                    name: {**rest, "aeiou@1": rest["decoders"][decoder]} for name, rest in part["ablation"].items()
                }
    return {**whole, "by_seed": dict(zip(seeds, parts, strict=True))}


def command(**options: Sequence[object]) -> str:
    """A call of the verb with options such as `table=["link"]`."""
    words = [f"--{name} {value}" for name, values in options.items() for value in values]
    return " ".join(["timeplex reproduce", *words])


def mean(parts: Sequence[Any]) -> Any:
    """The mean of numbers; of tables the mean of each key that all have. What is the same in all is kept as it is."""
    first = parts[0]
    if isinstance(first, dict):
        return {name: mean([part[name] for part in parts]) for name in first if all(name in part for part in parts)}
    return first if all(part == first for part in parts) else fmean(parts)


def figure(record: Values | None, *path: str) -> tuple[float, float | None] | None:
    """Mean and standard deviation over the seeds of what lies at a path in a record; None if there is none."""
    if record is None:
        return None
    found = [_at(part, path) for part in record["by_seed"].values()]
    values = [value for value in found if value is not None]
    if not values:
        return None
    return fmean(values), stdev(values) if len(values) > 1 else None


def _at(values: Any, path: Sequence[str]) -> float | None:
    for step in path:
        if not isinstance(values, dict) or step not in values:
            return None
        values = values[step]
    return float(values)


@cache
def published() -> dict[str, Any]:
    """Everything: table → data set → model → number, or metric → number; percent, as printed."""
    return tomllib.loads(files("timeplex.reproduce").joinpath("published.toml").read_text(encoding="utf-8"))


def printed(table: str, *path: str) -> float | None:
    """The number at a path of a table; None if the paper has none."""
    values: Any = published()[table]
    for step in path:
        values = values.get(step, {})
    return None if values == {} else float(values)
