"""A process that has everything imported and forks: a command then costs a twentieth of a second, not five.

It has used no thread yet (polars and torch do not survive a fork otherwise). Requests and answers are lines of JSON.
"""

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Server:
    """The side of the test."""

    def __init__(self) -> None:
        calm = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "COLUMNS": "200", "MPLBACKEND": "Agg"}
        ours = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}  # it is slow
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.durability.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**kept, **calm, "PYTHONPATH": ours},
            text=True,
        )

    def start(self, folder: Path, *arguments: str | Path, **options: Any) -> int:
        """Start a command in a folder; the id of its process. See `_child` for the options."""
        return int(self._ask({"folder": str(folder), "arguments": [*map(str, arguments)], "options": options}))

    def wait(self, process: int) -> int:
        """The exit code; below zero for a signal."""
        return int(self._ask({"wait": process}))

    def run(self, folder: Path, *arguments: str | Path, **options: Any) -> int:
        """Run a command to its end."""
        return self.wait(self.start(folder, *arguments, **options))

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def report(folder: Path) -> dict[str, Any]:
    """What the last command in a folder did: `steps`, `escaped`, `out`, `err`."""
    beside = folder.with_name(folder.name + ".report")
    found: dict[str, Any] = pickle.loads(beside.read_bytes()) if beside.exists() else {"steps": []}
    for name in ("out", "err"):
        found[name] = folder.with_name(f"{folder.name}.{name}").read_text()
    return found


IMPORTED = (
    *("matplotlib.pyplot", "narwhals._polars.dataframe", "pydantic.type_adapter", "PIL.JpegImagePlugin", "scipy.stats"),
    *("rich.console", "rich.table", "rich._emoji_codes", "typer._adapters"),
    *("timeplex.auditing.audit", "timeplex.auditing.page", "timeplex.cli.main", "timeplex.evaluation.plots"),
    *("timeplex.evaluation.report", "timeplex.answers.trained", "timeplex.reproduce.runner", "timeplex.training.tune"),
)

# The side of the server -----------------------------------------------------------------------------------------------


def _child(
    folder: str,
    arguments: list[str],
    how: str = "count",
    at: int = 0,
    exchange: bool = True,
    stdout: str = "",
    checkpoint_seconds: float | None = None,
    benchmark: str = "",
) -> int:
    """Run one command. `stdout` may be `broken` (nobody reads it), `full` or `closed`; `benchmark` is a KB for each."""
    from tests.durability.shim import Shim

    os.chdir(folder)
    _redirect(folder, stdout)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # whoever runs the tests may ignore them (nohup)
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    from timeplex.cli.main import run
    from timeplex.reproduce import runner
    from timeplex.training import loop

    if benchmark:
        read = runner.read
        runner.read = lambda dataset, data_dir=None: read(benchmark)  # type: ignore[assignment]
    if checkpoint_seconds is not None:
        loop.Trainer.fit.__kwdefaults__["checkpoint_seconds"] = checkpoint_seconds
    shim = Shim(how, at)
    shim.install(exchange=exchange)
    sys.argv = ["timeplex", *arguments]
    code: Any = None
    try:
        run()
    except SystemExit as leaving:
        code = leaving.code
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        found = {"steps": shim.steps, "count": shim.count, "escaped": shim.escaped}
        Path(folder + ".report").write_bytes(pickle.dumps(found))
    return int(code or 0)


def _redirect(folder: str, stdout: str) -> None:
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - as the process has it
    os.dup2(sys.stdin.fileno(), 0)
    for descriptor, name in ((1, "out"), (2, "err")):
        target = os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, descriptor)
        os.close(target)
        stream = open(descriptor, "w", closefd=False)  # noqa: SIM115
        setattr(sys, f"std{name}", stream)
    if stdout == "broken":
        reading, writing = os.pipe()
        os.dup2(writing, 1)
        os.close(writing)
        os.close(reading)
    elif stdout == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    elif stdout == "closed":
        os.close(1)
        sys.stdout = None  # type: ignore[assignment]


def _serve() -> None:
    import optuna
    import torch

    for name in IMPORTED:
        with nullcontext() if name.startswith("timeplex.") else suppress(ImportError):  # other versions lack some
            import_module(name)
    torch.set_num_threads(1)
    torch.optim.Adagrad([torch.zeros(1, requires_grad=True)])  # which imports much
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    gc.freeze()  # so that a child does not copy what it only looks at
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                code = 99
                try:
                    code = _child(request["folder"], request["arguments"], **request["options"])
                except SystemExit as leaving:  # a signal that came when the command was done
                    code = int(leaving.code or 0)
                finally:
                    os._exit(code)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
