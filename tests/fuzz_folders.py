"""KB and run folders that somebody has changed and given fitting checksums: refused in a sentence, or consistent.

    python -m tests.fuzz_folders --count 20000 --seed 1

Bytes are changed, JSON, Parquet and safetensors also as what they are; then all checksums are made to fit again. What
happens is counted; anything else than a refusal or a consistent object is printed with the numbers that repeat it.
"""

import argparse
import copy
import hashlib
import io
import json
import math
import random
import shutil
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from tests.builders import small_kb
from tests.memory import peak_bytes

import timeplex
from timeplex.answers import trained as asked
from timeplex.answers.calibration import Calibration
from timeplex.answers.dates import Dates
from timeplex.errors import TimeplexError
from timeplex.kb import spans, store
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.stats import describe
from timeplex.patterns.base import TimeQueries
from timeplex.training.checkpoint import POINTER, Stopped, state_digest
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Phase2, Recipe
from timeplex.training.run import RunFolder

Files = dict[str, bytes]
"""The files of a folder by their path in it."""

KINDS = ("kb", "run", "begun")


# The folders ----------------------------------------------------------------------------------------------------------


def make(place: Path) -> None:
    """A KB, a finished run with gadgets and what is fitted for it, and a run that was stopped: as small as can be."""
    kb = small_kb(300, valid=0.25)
    kb.save(place / "kb")
    gadgets: dict[str, dict[str, Any]] = {"recurrence": {}, "pair": {}}
    recipe = Recipe(options={"dimension": 4}, batch_size=80, epochs=2, precision="float32")
    whole = recipe.model_copy(update={"gadgets": Recipe(gadgets=gadgets).gadgets, "phase2": Phase2(epochs=1)})
    Trainer(kb, whole, place / "run", "cpu").fit()
    ready = timeplex.load(place / "run", "cpu")
    assert ready.calibration.who_facts
    assert ready.calibration.when_facts
    stopping = Trainer(kb, recipe, place / "begun", "cpu")

    def stop(now: object) -> None:
        stopping.stop_asked = stopping.state.step == 3

    try:
        stopping.fit(stop)
    except Stopped:
        return
    raise AssertionError("it was not stopped")


def read_files(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refit(files: Files) -> None:
    """Make every checksum fit again, as far as what states it is still what it was."""
    for name in [name for name in files if Path(name).name == POINTER]:
        _update(files, name, _refit_pointer)
    for name in ("calibration.json",):
        if name in files:
            _update(files, name, _refit_fitted)
    for name in sorted((name for name in files if Path(name).name == store.MANIFEST), key=len, reverse=True):
        _update(files, name, _refit_manifest)


def _update(files: Files, name: str, work: Callable[[Files, str, Any], None]) -> None:
    try:
        value = json.loads(files[name])
        work(files, name, value)
        files[name] = json.dumps(value).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def _refit_manifest(files: Files, name: str, value: Any) -> None:
    for each in value["sha256"]:
        content = files.get(str(Path(name).with_name(each)))
        if content is not None:
            value["sha256"][each] = hashlib.sha256(content).hexdigest()


def _refit_pointer(files: Files, name: str, value: Any) -> None:
    value["state_sha256"] = state_digest(value["state"])
    value["sha256"] = hashlib.sha256(files[str(Path(name).with_name(value["file"]))]).hexdigest()


def _refit_fitted(files: Files, name: str, value: Any) -> None:
    value["sha256"] = hashlib.sha256(json.dumps(value["fitted"], sort_keys=True).encode()).hexdigest()


# Changing bytes -------------------------------------------------------------------------------------------------------


def change_bytes(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(7):
            case 0 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case 1 if data:
                data[at % len(data)] = chance.choice((0, 1, 127, 128, 255))
            case 2:
                data[at:at] = chance.randbytes(chance.choice((1, 4, 8)))
            case 3:
                del data[at : at + chance.choice((1, 4, 100))]
            case 4:
                del data[at:]
            case 5:
                data[at:at] = data[at : at + chance.choice((8, 64, 1000))]
            case _:
                other = chance.randrange(len(data) + 1)
                data[at : at + 8] = data[other : other + 8]
    return bytes(data)


# Changing JSON --------------------------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, 2**31, 2**63, 10**30, 10**5000, -(10**18), 1e308, -1e308, 5e-324),
    *(math.nan, math.inf, -math.inf, "", "x", "\x00", "train", "../../etc/passwd", "evil.py:evil", "day", "float32"),
    *([], {}, [[]], {"": None}, ["x"] * 3, {"mrr": 1.0}),
)


def change_json(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines() if content.count(b"}\n{") else [content]
    which = chance.randrange(len(lines))
    value = json.loads(lines[which])
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        value = _changed(value, chance)
    sys.set_int_max_str_digits(0)
    lines[which] = json.dumps(value).encode()
    if chance.randrange(20) == 0:
        lines[which] = lines[which].replace(b"{", b'{"deep": ' + b"[" * 100_000 + b"]" * 100_000 + b", ", 1)
    return b"\n".join(lines)


def _changed(value: Any, chance: random.Random) -> Any:
    """The value with one change somewhere inside."""
    inner = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not inner or chance.randrange(6) == 0:
        alike = [odd for odd in ODD if isinstance(odd, type(value)) and not isinstance(odd, bool)] or ODD
        odd = copy.deepcopy(chance.choice(chance.choice((ODD, alike))))
        return chance.choice((odd, _nudged(value, chance)))
    value = copy.copy(value)
    key = chance.choice(inner)
    match chance.randrange(12):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[chance.choice((*inner, "extra", "format"))] = copy.deepcopy(value[key])
        case 2:
            other = chance.choice(inner)
            value[key], value[other] = value[other], value[key]
        case 3 if isinstance(value, list):
            value.append(value[key])
        case _:
            value[key] = _changed(value[key], chance)
    return value


def _nudged(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [value] if chance.randrange(2) else str(value) + "x"
    return chance.choice((value + 1, value - 1, -value, value * 1000, float(value), str(value)))


# Changing tables ------------------------------------------------------------------------------------------------------


def change_parquet(content: bytes, chance: random.Random) -> bytes:
    frame = pl.read_parquet(io.BytesIO(content))
    for _ in range(chance.choice((1, 1, 2))):
        frame = _changed_frame(frame, chance)
    file = io.BytesIO()
    frame.write_parquet(file, compression=chance.choice(("zstd", "snappy", "uncompressed")))
    return file.getvalue()


def _changed_frame(frame: pl.DataFrame, chance: random.Random) -> pl.DataFrame:
    if not frame.columns or not frame.height:
        return pl.concat([frame, frame]) if chance.randrange(2) else frame.with_columns(more=pl.lit(1))
    name, row = chance.choice(frame.columns), chance.randrange(frame.height)
    here = pl.int_range(pl.len()) == row
    match chance.randrange(20):
        case 0:
            kind = chance.choice((pl.Int64, pl.Int8, pl.Float32, pl.String, pl.Boolean, pl.Binary, pl.Categorical))
            return frame.with_columns(pl.col(name).cast(pl.String).cast(kind, strict=False))
        case 1:
            return frame.with_columns(pl.when(here).then(None).otherwise(pl.col(name)).alias(name))
        case 2:
            return frame.with_columns(more=pl.lit(1))
        case 3:
            return frame.drop(name)
        case 4:
            return frame.rename({name: "other"})
        case 5:
            return frame.slice(chance.randrange(frame.height + 1), chance.randrange(frame.height + 1))
        case 6:
            return pl.concat([frame, frame.slice(row, 1)])
        case 7:
            return frame.sample(fraction=1.0, shuffle=True, seed=chance.randrange(1000))
        case 8:
            return frame.select(pl.all().reverse())
        case 9:
            return frame.select([name, *(other for other in frame.columns if other != name)])
        case 10:
            return frame.with_columns(pl.col(name).implode().list.gather([0]))
        case _:
            return frame.with_columns(pl.when(here).then(_odd_literal(frame[name], chance)).otherwise(name).alias(name))


def _odd_literal(column: pl.Series, chance: random.Random) -> pl.Expr:
    if column.dtype.is_integer():
        values = (-1, 0, 10**6, spans.OPEN_BEGIN, spans.OPEN_END, column.len(), -(10**7), 9999, 20_000)
        return pl.lit(chance.choice(values), dtype=column.dtype)
    if column.dtype == pl.String:
        return pl.lit(chance.choice(("", "\x00", "train", "valid", "dev", "zzzz", "x" * 1000, column[0])))
    return pl.lit(None)


def change_tensors(content: bytes, chance: random.Random) -> bytes:
    if chance.randrange(2):
        return _changed_header(content, chance)
    tables = load_tensors(content)
    name = chance.choice(sorted(tables))
    table = tables[name].clone()
    match chance.randrange(8):
        case 0:
            del tables[name]
        case 1:
            tables["other"] = table
        case 2:
            tables[name] = table.to(chance.choice((torch.float16, torch.float64, torch.int64, torch.bfloat16)))
        case 3:
            tables[name] = table.flatten()
        case 4:
            tables[name] = torch.cat([table.flatten(), table.flatten()])
        case _:
            odd = (math.nan, math.inf, -math.inf, 1e30, 3e38, -1.0, 0.0, 1e9, -1e9, 1e-45, 700.0, 1e8)
            flat = table.flatten()
            if table.is_floating_point():
                flat[chance.randrange(len(flat))] = chance.choice(odd)
                if chance.randrange(3) == 0:
                    flat[:] = chance.choice(odd)
            else:
                flat[chance.randrange(len(flat))] = chance.choice((0, 1))
            tables[name] = flat.reshape(table.shape)
    return save_tensors(tables)


def _changed_header(content: bytes, chance: random.Random) -> bytes:
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    name = chance.choice(sorted(header))
    match chance.randrange(5):
        case 0:
            length = chance.choice((0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1, len(content)))
            return struct.pack("<Q", length) + content[8:]
        case 1:
            header[name]["dtype"] = chance.choice(("F16", "F64", "I64", "U8", "BOOL", "F8_E4M3", "X", ""))
        case 2:
            header[name]["shape"] = chance.choice(([], [0], [2**31, 2**31], [2**62, 2], [-1], [1, 1, 1], [10**9, 0]))
        case 3:
            header[name]["data_offsets"] = [chance.choice((0, 1, 4, 2**40, -1)), chance.choice((0, 4, 8, 2**63))]
        case _:
            header = _changed(header, chance)
    packed = json.dumps(header).encode()
    return struct.pack("<Q", len(packed)) + packed + data


STRUCTURED = {".json": change_json, ".jsonl": change_json, ".parquet": change_parquet, ".safetensors": change_tensors}


def change(files: Files, chance: random.Random) -> list[str]:
    """Change one file or two, and make the checksums fit again; the names of those that are changed."""
    own = [name for name in sorted(files) if not name.startswith("kb/")]  # a run's KB is read as any other
    names = list(dict.fromkeys(chance.choices([*sorted(files), *own, *own], k=chance.choice((1, 1, 1, 2)))))
    for name in names:
        work = STRUCTURED[Path(name).suffix] if chance.randrange(3) else change_bytes
        try:
            files[name] = work(files[name], chance)
        except (
            pl.exceptions.PolarsError,
            ValueError,
            TypeError,
            OverflowError,
            KeyError,
            RuntimeError,
            AttributeError,
        ):
            files[name] = change_bytes(files[name], chance)  # what cannot be changed so, or twice
    refit(files)
    return names


# What becomes of it ---------------------------------------------------------------------------------------------------


def use_kb(folder: Path) -> None:
    check_kb(TemporalKB.load(folder))


def check_kb(kb: TemporalKB) -> None:
    """All that code relies on."""
    assert "train" in kb.splits
    assert set(kb.splits) <= set(SPLITS)
    for names in (kb.entities, kb.relations):
        assert names.names.null_count() == 0
        assert list(names) == sorted(set(names), key=lambda name: name.encode())
    facts = kb.facts
    assert len(facts) == len(kb) == sum(map(len, kb.splits.values())) == kb.to_polars().height
    for column, number in ((facts.s, kb.entities), (facts.o, kb.entities), (facts.r, kb.relations)):
        assert np.all((column >= 0) & (column < len(number)))
    assert np.all(facts.begin <= facts.end)
    assert 0 <= kb.problems.set_aside <= kb.problems.rows_read
    described = describe(kb)
    assert json.loads(json.dumps(described.to_json(), allow_nan=False))
    assert len(kb.digest) == 64


def use_run(folder: Path) -> None:
    ready = timeplex.load(folder, "cpu")
    check_kb(ready.kb)
    run = ready.run
    for module in (run.model, *run.gadgets.values()):
        assert all(bool(torch.isfinite(table).all()) for table in module.state_dict().values())
    RunFolder(folder).metrics()
    RunFolder(folder).trace()
    if not len(ready.kb.entities) or not len(ready.kb.relations):
        return
    one = torch.zeros(1, dtype=torch.long)
    assert bool(torch.isfinite(run.scorer.objects(one, one, (one, one))).all())
    assert bool(torch.isfinite(run.scorer.times(one, one, one)).all())
    s, r = ready.kb.entities[0], ready.kb.relations[0]
    kept = Dates.restored(ready.kb, ready.keeper)  # learning anew would take seconds for each folder
    assert kept is None or kept.predict(TimeQueries(*ready.asking.triples(s, r, s))).probability.shape == (1,)
    at = int(ready.timeline.instants[0])
    likely = ready.probability(*_questions(ready, s, r, at))
    assert np.all((likely >= 0) & (likely <= 1))
    assert ready.calibration.note("rank")
    assert ready.calibration.note("when")


def _questions(ready: Any, s: str, r: str, at: int) -> tuple[Any, Any]:
    from timeplex.answers.rank import EntityQueries

    number = [np.array([each], np.int64) for each in (ready.kb.entities.id(s), ready.kb.relations.id(r), at, at)]
    return EntityQueries("object", *number), np.array([[0.1, 0.9]])


def use_begun(folder: Path) -> None:
    """Resume for a step."""
    run = RunFolder(folder)
    kb, recipe = run.kb(), run.recipe()
    from timeplex.training.experiment import Experiment

    run.check_checkpoint(Experiment(kb, recipe))
    run.trace()
    trainer = Trainer(kb, recipe, folder, "cpu")
    trainer.stop_asked = True
    try:
        trainer.fit(resume=True)
    except Stopped:
        state = trainer.state
        assert 0 < state.learning_rate <= recipe.learning_rate
        assert 0 <= state.epoch <= recipe.epochs
        assert -1 <= state.best_epoch < max(state.epoch, 1)
        assert 0 <= state.batch <= len(trainer.batches)
        assert min(state.step, state.seconds, state.looks_since_best) >= 0
        assert len(state.trace) == state.epoch


USES = {"kb": use_kb, "run": use_run, "begun": use_begun}


def fuzz(count: int, seed: int, place: Path) -> dict[str, Any]:
    """Change the folders so often, use them, and count what happens."""
    torch.set_num_threads(1)
    (place / "made").mkdir()
    make(place / "made")
    whole = {kind: read_files(place / "made" / kind) for kind in KINDS}
    for kind in KINDS:  # unchanged they are in order
        shutil.copytree(place / "made" / kind, place / "changed")
        USES[kind](place / "changed")
        shutil.rmtree(place / "changed")
    # A changed run is another one, for which all would be fitted anew; what is tested is how kept ones are read.
    asked.fit = lambda *given: Calibration()
    outcomes: Counter[str] = Counter()
    touched: Counter[str] = Counter()
    failures: list[str] = []
    folder = place / "changed"
    for number in range(count):
        chance = random.Random(seed * 1_000_003 + number)
        kind = chance.choice(KINDS)
        files = dict(whole[kind])
        names = change(files, chance)
        _keep_fitted(files)
        touched.update(f"{kind}/{Path(name).name if 'step-' not in name else 'step.safetensors'}" for name in names)
        write(folder, files)
        try:
            USES[kind](folder)
            outcomes["consistent"] += 1
        except TimeplexError as error:
            outcomes["refused"] += 1
            told = str(error)
            if "\n" in told or len(told) > 1500:
                failures.append(f"{number} {kind} {names}: told {told[:300]!r}")
        except BaseException as error:  # a panic is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            failures.append(f"{number} {kind} {names}: {type(error).__name__}: {str(error)[:300]}")
        finally:
            shutil.rmtree(folder)
    peak = peak_bytes() / 1e6
    return {**outcomes, "failures": failures, "peak_mb": round(peak), "files": dict(sorted(touched.items()))}


def _keep_fitted(files: Files) -> None:
    """Let what is kept for a run name the run as it is now, so that it is looked at."""
    if "calibration.json" not in files or f"kb/{store.MANIFEST}" not in files:
        return
    from timeplex.answers.calibration import FORMAT

    digest = hashlib.sha256(f"{FORMAT} {['pair', 'recurrence']} ".encode())
    for manifest in (store.MANIFEST, f"kb/{store.MANIFEST}"):
        digest.update(files[manifest])
    for name in ("calibration.json",):
        _update(files, name, lambda _, __, value: value.update(run=digest.hexdigest()))


def write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def main() -> None:
    """Run from the command line; exit code 1 if anything failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start = time.monotonic()
    with TemporaryDirectory() as place:
        found = fuzz(arguments.count, arguments.seed, Path(place))
    print(json.dumps({**vars(arguments), "seconds": round(time.monotonic() - start), **found}, indent=1))
    sys.exit(1 if found["failures"] else 0)


if __name__ == "__main__":
    main()
