"""The recipe: everything that decides how a model is trained. A TOML file in, JSON saved with the run.

If little is said, the full TimePlex is trained by a recipe that suits the size of the KB (`recipe_for`).
"""

import os
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from timeplex.errors import InputError, UnknownNameError
from timeplex.files import parse_toml, read_toml
from timeplex.gadgets import GADGETS
from timeplex.kb.facts import TemporalKB
from timeplex.kb.split import split_randomly
from timeplex.models.base import Model, tuned
from timeplex.models.loading import file_digest, model_class, names_file, own_model
from timeplex.text import did_you_mean, quoted

SHIPPED = Path(str(files("timeplex") / "recipes"))
"""The recipes that come with timeplex: <dataset>/<model>.toml."""

MOST_EXTENDED = 10
"""A recipe extends at most so many others."""

LARGE = 1_000_000
"""The most that counts (epochs, facts in a batch) and weights can be: more is a slip or would not fit anywhere."""

Count = Annotated[int, Field(ge=1, le=LARGE)]
Number = Annotated[int, Field(ge=0, le=LARGE)]
Weight = Annotated[float, Field(ge=0, le=LARGE)]
Negatives = Annotated[
    Number | None,
    Field(description="Entities drawn as negatives for a batch; 0 is all of them; none given: by size."),
]
TimeWeight = Annotated[Weight, Field(description="Weight of the loss term log Pr(t | s, r, o).")]


class Phase2(BaseModel):
    """How gadgets are trained, after the model, which stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    together: bool = Field(False, description="Train all gadgets at once, not each alone with the model.")
    epochs: Count = Field(3, description="How often all facts are seen.")
    batch_size: Count = Field(500, description="Facts in a batch.")
    negatives: Negatives = None
    time_weight: TimeWeight = 0.0


class Recipe(BaseModel):
    """Settings of a training. Each field is a key of the TOML file and of `--set key=value`.

    Counts and weights are at most a million, a seed is less than 2³², and no number is infinite. A learning rate may be
    any: one that is too large is met as divergence.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, protected_namespaces=()
    )

    model: str = Field("timeplex-base", description="The name of a model (a file is given by --model alone).")
    model_sha256: str | None = Field(
        None, pattern="^[0-9a-f]{64}$", description="SHA-256 of the file of a model of your own; filled in by itself."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Settings of the model itself.")

    timeline: Literal["observed", "calendar"] = Field("observed", description="Which instants have embeddings.")
    instants: Literal["sample", "begin", "enumerate"] = Field(
        "sample", description="The instant of a span in training: drawn anew each epoch, the begin, or each in turn."
    )
    inverse: bool = Field(True, description="Train (o, r⁻¹, s) beside (s, r, o), and ask subject queries that way.")

    loss: Literal["softmax", "margin"] = Field("softmax", description="Cross-entropy, or a margin to negatives.")
    negatives: Negatives = None
    frequent: Number = Field(
        0, description="So many frequent entities are always negatives; the drawn ones stand for the others."
    )
    margin: float = Field(10.0, gt=0, le=LARGE, description="How far a fact must score above its negatives.")
    time_weight: TimeWeight = 0.5

    l2: Weight = Field(
        0.0,
        description="Weight of the squared embeddings of a batch's facts.",
        json_schema_extra=tuned(low=1e-4, high=1.0),
    )
    n3: Weight = Field(0.0, description="Weight of the cubed embeddings of a batch's facts.")
    smooth: Weight = Field(
        0.0,
        description="Weight of the differences of consecutive time vectors.",
        json_schema_extra=tuned(low=1e-4, high=10.0),
    )
    smooth_power: int = Field(3, ge=2, le=5, description="The power of these differences.")

    optimizer: Literal["adagrad", "adam"] = Field("adagrad", description="How gradients become steps.")
    learning_rate: float = Field(
        0.1, gt=0, description="Size of the steps.", json_schema_extra=tuned(low=1e-4, high=1.0)
    )
    batch_size: Count = Field(
        1500,
        description="Facts in a batch (before their inverses are added).",
        json_schema_extra=tuned(low=100, high=5000),
    )
    epochs: Count = Field(50, description="How often all facts are seen, at most.")

    metric: Literal["mrr", "loss"] = Field("mrr", description="What decides on dev: MRR (higher) or loss (lower).")
    validate_every: Count = Field(1, description="Epochs between looks at dev.")
    patience: Count = Field(10, description="Stop after so many looks at dev without a new best.")
    plateau: Count = Field(3, description="Lower the learning rate after so many looks without a new best.")
    plateau_factor: float = Field(0.1, gt=0, le=1, description="What the learning rate is then multiplied with.")

    gadgets: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings of each gadget that is added to the model, by its name."
    )
    phase2: Phase2 = Field(default_factory=Phase2, description="How gadgets are trained.")

    precision: Literal["auto", "float32", "bfloat16"] = Field("auto", description="Numbers of the large products.")
    seed: int = Field(0, ge=0, lt=2**32, description="Decides all random choices.")

    @field_validator("model_sha256")
    @classmethod
    def _same_file(cls, recorded: str | None, info: Any) -> str | None:
        if "model" not in info.data:
            return recorded
        name = info.data["model"]
        digest = file_digest(model_class(name))
        if recorded is not None and recorded != digest:
            problem = "is not from a file" if digest is None else f"is from another file, with SHA-256 {digest}"
            raise InputError(
                f"The model {name!r} here {problem}.",
                f"Give --model path/to/file.py:{name} with the file whose SHA-256 is {recorded}.",
            )
        return digest

    @field_validator("options")
    @classmethod
    def _known_options(cls, options: dict[str, Any], info: Any) -> dict[str, Any]:
        if "model" in info.data:
            return model_class(info.data["model"]).options_type(**options).model_dump()
        return options

    @field_validator("gadgets")
    @classmethod
    def _known_gadgets(cls, gadgets: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name in gadgets:
            if name not in GADGETS:
                raise ValueError(f"there is no gadget {name!r}; there are {', '.join(sorted(GADGETS))}")
        return {name: GADGETS[name].options_type(**options).model_dump() for name, options in gadgets.items()}

    @model_validator(mode="after")
    def _consistent(self) -> "Recipe":
        if self.loss == "margin" and not self.negatives:
            raise ValueError("loss = margin needs negatives of at least 1")
        if self.frequent and self.negatives == 0:
            raise ValueError("frequent needs negatives of at least 1, which stand for the other entities")
        if self.loss == "margin" and self.frequent:
            raise ValueError("frequent must be 0 with loss = margin, which weighs no negatives")
        if self.loss == "margin" and self.time_weight:
            raise ValueError("time_weight must be 0 with loss = margin, which has no term for time")
        return self

    @property
    def title(self) -> str:
        """The model and its gadgets, such as `timeplex-base + recurrence`."""
        return " + ".join([self.model, *self.gadgets])

    def without_gadgets(self) -> "Recipe":
        """The recipe of phase 1 alone."""
        return self.model_copy(update={"gadgets": {}, "phase2": Phase2()})

    def with_settings(self, settings: Iterable[str] | Mapping[str, Any]) -> "Recipe":
        """The recipe with some settings, as texts `key=value` or as {key: value}.

        `options.alpha` reaches into the model's options.

        >>> Recipe().with_settings({"epochs": 20}) == Recipe().with_settings(["epochs=20"])
        True
        """
        given = settings.items() if isinstance(settings, Mapping) else [_setting(text) for text in settings]
        values = self.model_dump()
        for key, value in given:
            place = values
            *path, last = key.split(".")
            for part in path:
                if not isinstance(place.get(part), dict):
                    raise InputError(f"The recipe has no table {quoted(part)}.", f"Its keys are {', '.join(values)}.")
                place = place[part]
            if key == "model":
                place |= {"options": {}, "model_sha256": None}  # another model has other options
            place[last] = value
        return parse(values, "settings" if isinstance(settings, Mapping) else "--set")


def _setting(text: str) -> tuple[str, Any]:
    """The key and the value in `key=value`, as TOML would read it; a bare word is a text."""
    key, sign, value = (part.strip() for part in text.partition("="))
    if not sign:
        raise InputError(f"{quoted(text)} is not a setting.", "Write it as key=value, such as epochs=20.")
    try:
        return key, parse_toml(f"value = {value}")["value"]
    except ValueError:
        return key, value


def parse(values: dict[str, Any], source: str) -> Recipe:
    """A recipe from plain values; what is wrong is named by its key."""
    try:
        return Recipe(**values)
    except ValidationError as error:
        first = error.errors()[0]
        problem = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:  # settings that do not go together
            raise InputError(f"{source}: {problem}.", "Change one of them.") from error
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            fields = ", ".join(Recipe.model_fields)
            raise InputError(f"{source}: there is no key {quoted(key)}.", f"The keys are {fields}.") from error
        raise InputError(f"{source}: {key}: {problem}.", f"It was given {quoted(first['input'])}.") from error


def read(given: str | Path, own: type[Model] | None = None) -> Recipe:
    """Read a shipped recipe, by its name such as `yago11k/timeplex`, or a TOML file, by its path.

    `extends = "other.toml"` begins with another one of the same folder. `own` is a model of the caller's own, which the
    file may name or leave out.
    """
    path = _located(Path(given))
    values = _values(path)
    if own is not None:
        stated = plain_name(values.get("model", own.name))
        if stated != own.name:
            raise InputError(f"{path} is for the model {stated!r}, not {own.name!r}.", "Leave out one of them.")
        values["model"] = own.name
    return parse(values, str(path))


def _located(given: Path) -> Path:
    """The file of a recipe. A shipped name always means the shipped one: no folder that is named like a data set can
    put a file of its own in its place.
    """
    name = given.as_posix()
    shipped = [path.relative_to(SHIPPED).with_suffix("").as_posix() for path in SHIPPED.glob("*/*.toml")]
    if name in shipped:
        return SHIPPED / f"{name}.toml"
    if given.suffix != ".toml" and not os.path.exists(given):  # noqa: PTH110 - `Path.exists` raises for a long name
        hint = did_you_mean(name, shipped) or "Give a TOML file, or a name such as 'yago11k/timeplex'."
        raise UnknownNameError(f"There is no recipe {quoted(name)}.", hint)
    return given


def plain_name(model: Any) -> Any:
    """The name in `path/to/file.py:name`; anything else is left as it is."""
    return model.rpartition(":")[2] if isinstance(model, str) and names_file(model) else model


def _values(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """What a recipe file says, with what it extends; `seen` are those that lead here."""
    if path in seen or len(seen) > MOST_EXTENDED:
        raise InputError(f"{path} extends itself.", "Name another recipe.")
    values = read_toml(path)
    if "extends" not in values:
        return values
    name = values.pop("extends")
    if not isinstance(name, str) or Path(name).name != name:
        raise InputError(f"{path}: extends is {quoted(name)}.", "Name a recipe of the same folder.")
    other = path.parent / name
    return {**_values(other, (*seen, path)), **values}


TIMEPLEX, TIMEPLEX_BASE = "timeplex", "timeplex-base"
"""TimePlex, the paper's full model, is its base model with the gadgets below: no class of its own, but a name."""

TIMEPLEX_GADGETS: dict[str, dict[str, Any]] = {
    "recurrence": {"try_weights": (0.3, 1.0, 3.0, 5.0)},
    "pair": {"form": "published-code", "try_weights": (0.3, 1.0, 3.0)},
}
"""Their weights differ much from KB to KB, so that dev decides. The form of pair is the one that did better on YAGO11k,
and on the sample."""

LEAST_FACTS = 20
"""A KB with fewer facts is not split."""


def with_dev(kb: TemporalKB) -> TemporalKB:
    """The KB itself if it has dev facts or hardly any facts; else split at random, 8 : 1 : 1, with seed 0."""
    if len(kb.valid) or len(kb) < LEAST_FACTS:
        return kb
    return split_randomly(kb, valid=0.1, test=0.1, seed=0)


def recipe_for(
    kb: TemporalKB,
    model: str | None = None,
    recipe: Recipe | str | Path | None = None,
    settings: Iterable[str] | Mapping[str, Any] = (),
) -> Recipe:
    """A recipe, one by its name or path, or one that suits the KB (for a model, if it is named); with some settings.

    `model` may be `path/to/file.py:name`, also beside a file: no recipe can name one.
    """
    own = own_model(model) if model is not None and names_file(model) else None
    if own is not None and own.name == TIMEPLEX:
        problem = f"The name {TIMEPLEX!r} means {TIMEPLEX_BASE} with all gadgets."
        raise InputError(problem, "Register your model by another name.")
    if recipe is not None and model is not None and own is None:
        raise InputError("Both a recipe and a model are given.", "A recipe names its model: leave out --model.")
    name = own.name if own is not None else model or TIMEPLEX
    if recipe is None:
        recipe = suitable(kb, name)
    elif not isinstance(recipe, Recipe):
        recipe = read(recipe, own)
    return recipe.with_settings(settings)


def suitable(kb: TemporalKB, model: str = TIMEPLEX) -> Recipe:
    """Small KBs get short embeddings, small batches and many epochs; large ones the paper's settings.

    The batch is a fifteenth of the facts (64 to 1500), so that an epoch has enough steps to learn from.
    """
    facts, full = len(kb.train), model == TIMEPLEX
    dimension = 50 if facts < 2_000 else 100 if facts < 15_000 else 200
    batch_size = min(1500, max(64, facts // 15))
    return Recipe(
        model=TIMEPLEX_BASE if full else model,
        options={"dimension": dimension},
        batch_size=batch_size,
        epochs=100,
        l2=0.02 if facts < 15_000 else 0.01,
        time_weight=0.5,
        gadgets=TIMEPLEX_GADGETS if full else {},
        phase2=Phase2(together=True, epochs=3) if full else Phase2(),
    )
