"""Recipes and settings of anyone's making: one sentence, soon, whatever they say."""

import os
import time
from pathlib import Path

import pytest

import timeplex
from timeplex.auditing.own_rules import read_own_rules
from timeplex.errors import TimeplexError
from timeplex.training import recipe as recipes
from timeplex.training.experiment import Experiment
from timeplex.training.recipe import Recipe

HUGE = "1" + "0" * 5000
SETTINGS = [
    *(f"{key}={value}" for key in ("epochs", "learning_rate", "seed") for value in ("nan", "inf", "-1", "1e400", "[]")),
    *(f"{key}={value}" for key in ("l2", "n3", "smooth", "margin", "time_weight") for value in ("nan", "inf", "1e300")),
    *(f"{key}={10**12}" for key in ("epochs", "batch_size", "negatives", "frequent", "seed", "patience", "plateau")),
    *(f"options.dimension={value}" for value in (10**12, 10**30, -1, 1.5, "nan", "{}", "[1]", HUGE)),
    *(f"options.{key}=nan" for key in ("alpha", "beta", "gamma", "spread")),
    *(
        f"gadgets.pair={value}"
        for value in ("3", "[]", "{x=1}", "{weight=nan}", "{penalty=inf}", "{try_weights=[nan]}")
    ),
    "gadgets.pair={try_weights=[" + "1," * 200 + "]}",
    "gadgets.recurrence={minimum=" + "9" * 30 + "}",
    *("", "=", "=1", ".=1", "..=1", "a.b.c=1", "options.dimension.x=1", "phase2=1", "phase2.epochs=inf", "options=3"),
    *(
        "model=",
        "model=[]",
        "model=1979-05-27",
        "model=\0",
        "model=\udcff",
        "options.model=x",
        "gadgets.x={}",
        "gadgets=1",
    ),
    *("epochs=1979-05-27", 'epochs="""', "epochs=#", "epochs= ", "epochs=\x1b[31m", "\udcff=1"),
    *(f"epochs={text}" for text in (HUGE, "0x" + "f" * 5000, "[" * 10**5, "{a=" * 10**5, "a." * 10**5, "x" * 10**6)),
    *("learning_rate=0x" + "f" * 3000, "x" * 10**6, "x" * 10**6 + "=1", "epochs=1\n[value]\nx=1"),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda text: ascii(text[:40]))
def test_a_hostile_setting_is_one_short_sentence(setting: str) -> None:
    begun = time.process_time()
    with pytest.raises(TimeplexError) as caught:
        Recipe().with_settings([setting])
    assert time.process_time() - begun < 5
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


FILES = {
    "nested arrays": b"a = " + b"[" * 10**5,
    "nested tables": b"a = " + b"{a = " * 10**5,
    "deep key": b"a." * 10**5 + b"a = 1",
    "huge integer": b"epochs = " + HUGE.encode(),
    "huge hexadecimal": b"epochs = 0x" + b"f" * 10**5,
    "date": b"epochs = 1979-05-27T00:00:00Z",
    "not a number": b"l2 = nan",
    "infinite": b"l2 = inf",
    "duplicate": b"epochs = 1\nepochs = 2",
    "binary": bytes(range(256)),
    "not UTF-8": b'model = "\xff"',
    "NUL": b"epochs = 1\0",
    "101 MB": b"#" * 101_000_000,
    "extends a number": b"extends = 3",
    "extends far away": b'extends = "../x.toml"',
    "extends a device": b'extends = "/dev/zero"',
    "extends NUL": b'extends = "\\u0000"',
    "unknown table": b"[[evil]]\nx = 1",
}


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_a_hostile_file_is_one_short_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "hostile.toml"
    path.write_bytes(data)
    begun = time.process_time()
    for read in (recipes.read, lambda path: read_own_rules(path, timeplex.generate(100, seed=0))):
        with pytest.raises(TimeplexError) as caught:
            read(path)
        assert len(str(caught.value)) < 1000 + len(str(path))
        assert "\n" not in str(caught.value)
    assert time.process_time() - begun < 10


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path / "pipe.toml", tmp_path, Path("/dev/zero"), tmp_path / "none.toml"):
        with pytest.raises(TimeplexError):
            recipes.read(path)
        with pytest.raises(TimeplexError):
            read_own_rules(path, timeplex.generate(100, seed=0))


def test_a_long_chain_of_recipes_ends(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number}.toml").write_text(f'extends = "{number + 1}.toml"')
    with pytest.raises(TimeplexError, match="extends"):
        recipes.read(tmp_path / "0.toml")


@pytest.mark.parametrize("value", [10**30, -(10**30), 10**5000], ids=["large", "negative", "huge"])
def test_own_rules_have_numbers_that_can_be_compared(value: int) -> None:
    kb = timeplex.generate(100, seed=0)
    for rules in (
        {"duration": [{"relation": kb.relations[0], "at_most": value}]},
        {"dates": [{"from": value, "to": 2000}]},
    ):
        with pytest.raises(TimeplexError):
            read_own_rules(rules, kb)


def test_embeddings_that_cannot_fit_are_refused() -> None:
    kb = timeplex.generate(100_000, seed=0)
    with pytest.raises(TimeplexError, match="GB that are allowed"):
        Experiment(kb, Recipe(options={"dimension": 100_000})).new_model()
