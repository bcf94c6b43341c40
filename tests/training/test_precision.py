"""Which numbers the products have: decided by what is known, never by a stopwatch."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.builders import small_kb

from timeplex.errors import InputError
from timeplex.kb.facts import TemporalKB
from timeplex.models import MODELS
from timeplex.models.base import Model, Space
from timeplex.models.loading import model_class
from timeplex.training import experiment as module
from timeplex.training import recipe as recipes
from timeplex.training.batches import random
from timeplex.training.experiment import LARGE, SETTING, Units, multiply_adds, precision, units
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe

CPU = torch.device("cpu")
FAST, SLOW = Units(True, "it has"), Units(False, "it has not")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return small_kb(300)


@pytest.mark.parametrize(
    ("wanted", "known", "size", "chosen", "reason"),
    [
        ("auto", FAST, LARGE, torch.bfloat16, "it has"),
        ("auto", FAST, LARGE - 1, torch.float32, "small"),
        ("auto", SLOW, LARGE, torch.float32, "it has not"),
        ("auto", SLOW, 0, torch.float32, "small"),
        ("float32", FAST, LARGE, torch.float32, "the recipe says so"),
        ("bfloat16", SLOW, 0, torch.bfloat16, "the recipe says so"),
    ],
)
def test_the_decision(wanted: str, known: Units, size: int, chosen: torch.dtype, reason: str) -> None:
    found = precision(wanted, known, size)
    assert found.dtype == chosen
    assert reason in found.reason
    assert found.name == str(chosen).removeprefix("torch.")


def test_what_the_processor_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for has in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda has=has: has, raising=False)
        assert units(CPU).fast is has
        assert ("no units" in units(CPU).known) is not has


def test_a_torch_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Then the kernel is asked, and where that cannot be asked, there are no units."""
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported", raising=False)
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(module, "Path", lambda path: file)
    assert units(CPU).fast is False
    for flags, has in (("fpu avx512_bf16 sse", True), ("fpu avx512f amx_bf16", False)):
        file.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
        assert units(CPU).fast is has


def test_gpus_by_their_generation_and_others_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for generation, has in ((7, False), (8, True), (9, True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, of=generation: (of, 0))
        assert units(torch.device("cuda")).fast is has
    assert units(torch.device("mps")).fast is False


def test_the_environment_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, has in (("1", True), ("0", False)):
        monkeypatch.setenv(SETTING, said)
        assert [units(torch.device(name)).fast for name in ("cpu", "cuda", "mps")] == [has] * 3
        assert f"{SETTING} is {said}" in units(CPU).known
    monkeypatch.setenv(SETTING, "yes")
    with pytest.raises(InputError, match="1 or 0"):
        units(CPU)


def test_nothing_is_timed_and_no_process_is_started(monkeypatch: pytest.MonkeyPatch, kb: TemporalKB) -> None:
    for name in ("perf_counter", "monotonic", "time"):
        monkeypatch.setattr(f"time.{name}", lambda: pytest.fail("the clock was read"))
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **options: pytest.fail("a process was started"))
    assert Trainer(kb, Recipe(options={"dimension": 8})).precision.dtype == torch.float32


ENTITIES = {"yago11k": 10_623, "wikidata12k": 12_554, "icews14": 7_128, "icews05-15": 10_488}


def makes_large_products(recipe: Recipe) -> bool:
    """Few drawn negatives are compared one by one, and so are the tables of single instants."""
    drawn = recipe.loss == "margin" or (recipe.negatives and not recipe.frequent)
    return not drawn and not model_class(recipe.model).by_instant


def test_recipes_of_the_benchmarks_use_the_units_that_there_are() -> None:
    """As they always did, so that recorded results mean the same."""
    checked = 0
    for path in sorted(recipes.SHIPPED.rglob("*.toml")):
        recipe = recipes.read(path)
        kind = model_class(recipe.model)
        if makes_large_products(recipe):
            model = kind(Space.plain(2, 2, 3), kind.options_type(**recipe.options))
            candidates = (recipe.negatives or 0) + recipe.frequent or ENTITIES[path.parent.name]
            assert multiply_adds(model, recipe.batch_size, candidates) >= 2 * LARGE, path
            checked += 1
    assert checked >= 20


def test_the_size_is_that_of_the_product() -> None:
    model: Model = MODELS["complex"](Space.plain(7, 2, 3), MODELS["complex"].options_type(dimension=5))
    assert multiply_adds(model, 3, 7) == 3 * 10 * 7  # (3, 10) times (10, 7)


@pytest.mark.parametrize(
    ("settings", "candidates"), [({}, None), ({"negatives": 4}, 4), ({"negatives": 4, "frequent": 3}, 7)]
)
def test_the_candidates_of_a_query(settings: dict[str, int], candidates: int | None, kb: TemporalKB) -> None:
    negatives = Trainer(kb, Recipe(options={"dimension": 4}, **settings)).negatives  # type: ignore[arg-type]
    drawn = negatives.draw(random(0), CPU)
    assert negatives.candidates == (candidates or len(kb.entities))
    assert drawn is None or len(drawn.entities) == candidates


def tables(trainer: Trainer) -> str:
    digest = hashlib.sha256()
    for table in trainer.model.state_dict().values():
        digest.update(table.numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("model", sorted(MODELS))
def test_small_kbs_are_the_same_with_and_without_units(
    model: str, kb: TemporalKB, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for said in ("0", "1"):
        monkeypatch.setenv(SETTING, said)
        extra = {"loss": "margin", "negatives": 5, "time_weight": 0} if model in ("hyte", "transe") else {}
        trainer = Trainer(kb, Recipe(model=model, options={"dimension": 6}, epochs=2, batch_size=64, **extra))  # type: ignore[arg-type]
        metrics = trainer.fit()
        assert (metrics["precision"], "small" in metrics["precision_reason"]) == ("float32", True)
        found.append(tables(trainer))
    assert found[0] == found[1]


def test_large_products_follow_the_setting(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the law above is not kept by a setting that does nothing."""
    monkeypatch.setattr(module, "LARGE", 0)
    found = {}
    for said, name in (("0", "float32"), ("1", "bfloat16")):
        monkeypatch.setenv(SETTING, said)
        trainer = Trainer(kb, Recipe(options={"dimension": 6}, epochs=1, batch_size=64))
        metrics = trainer.fit()
        assert (metrics["precision"], metrics["precision_reason"]) == (name, f"{SETTING} is {said}")
        found[name] = tables(trainer)
    assert found["float32"] != found["bfloat16"]


def isa_after_import(**environment: str) -> str:
    code = "import timeplex, os, sys; print(os.environ['ONEDNN_MAX_CPU_ISA'], 'torch' in sys.modules)"
    variables = {"PYTHONPATH": ":".join(sys.path), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_units_that_some_machines_only_announce_are_not_used() -> None:
    """AMX is kept off before torch is there, unless the user says otherwise."""
    assert isa_after_import() == "AVX512_CORE_BF16 False"
    assert isa_after_import(ONEDNN_MAX_CPU_ISA="AVX512_CORE_AMX") == "AVX512_CORE_AMX False"
