"""The training loop: epochs of batches, looks at dev, early stopping, checkpoints that resume bit by bit.

Every random choice depends on (seed, epoch, batch) alone, so a run that was cut off and resumed goes through the same
numbers as one that was not (on the same machine, versions and number of threads).
"""

import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from timeplex.errors import DamagedError, DivergedError, InputError
from timeplex.evaluation.ranking import rank
from timeplex.files import to_json, write_whole
from timeplex.gadgets import Gadget
from timeplex.kb.facts import TemporalKB
from timeplex.models.scorer import DIRECTIONS
from timeplex.text import quoted
from timeplex.training import checkpoint
from timeplex.training.batches import Batch, Batches, Candidates, Negatives, random
from timeplex.training.checkpoint import Listener, Progress, State, Stopped
from timeplex.training.experiment import Experiment, dev_metrics, dtype, multiply_adds, precision, units
from timeplex.training.gadget_training import GadgetTrainer, diverged_gadgets
from timeplex.training.objective import Diverged, Objective, RowAdagrad, check_tables, dense_optimizer, finite_loss
from timeplex.training.recipe import Recipe
from timeplex.training.run import RunFolder, TrainedRun, machine
from timeplex.training.tracking import Tracking

CHECKPOINT_SECONDS = 60.0
STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def _base(folder: Path, kb: TemporalKB, recipe: Recipe) -> TrainedRun:
    """A finished run whose model can be taken for phase 1 of a recipe."""
    base = RunFolder(folder).load()
    if base.kb != kb:
        raise InputError(f"{folder} was trained on another KB.", "Give a run of the same KB, or none.")
    if base.recipe.without_gadgets() != recipe.without_gadgets():
        raise InputError(f"{folder} was trained by another recipe.", "All but its gadgets must be the same.")
    return base


def choose_device(name: str = "auto") -> torch.device:
    """The device of that name; `auto` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise InputError(f"{quoted(name)} is not a device.", "Use auto, cpu or cuda.") from error
    return device


class Trainer:
    """Trains one model by one recipe, with a run folder or in memory."""

    def __init__(
        self,
        kb: TemporalKB,
        recipe: Recipe,
        folder: Path | None = None,
        device: str = "auto",
        base: Path | None = None,
    ) -> None:
        """`base` is a finished run of the same recipe without gadgets, whose model is taken instead of training one."""
        if len(kb.train) == 0:
            raise InputError(f"{kb.name} has no training facts.", "Import or split it first.")
        if len(kb.timeline("observed")) == 0:
            raise InputError(
                f"No fact of {kb.name} has a date, so that there is nothing to learn of time.",
                "Import it with the column of dates (--begin, --end) and, if none could be read, with --date-format.",
            )
        self.setup = Experiment(kb, recipe)
        self.recipe = recipe
        self.run = None if folder is None else RunFolder(folder)
        self.device = choose_device(device)
        self.model = self.setup.new_model().to(self.device)
        self.setup.check_batch(self.model)
        groups = self.model.instant_groups()
        self.batches = Batches(
            self.setup.train, recipe, None if groups is None else groups.cpu().numpy(), self.model.by_instant
        )
        self.negatives = Negatives(recipe, self.setup.train, len(kb.entities), self.model.by_instant)
        rows = min(recipe.batch_size, len(self.batches.facts))
        size = multiply_adds(self.model, rows, self.negatives.candidates)
        self.precision = precision(recipe.precision, units(self.device), size)
        self.by_rows = self.negatives.number > 0 and recipe.optimizer == "adagrad"
        self.rows = RowAdagrad(self.model, recipe) if self.by_rows else None
        dense = [
            parameter
            for name, parameter in self.model.named_parameters()
            if not (self.by_rows and name in self.model.entity_tables)
        ]
        self.optimizer = dense_optimizer(dense, recipe)
        self.state = State(
            learning_rate=recipe.learning_rate,
            precision=self.precision.name,
            precision_reason=self.precision.reason,
        )
        self.best: dict[str, Tensor] = {}
        self.gadgets: dict[str, Gadget] = {}
        self.base = None if base is None else _base(base, kb, recipe)
        self.stop_asked = False
        self.stop_signal = int(signal.SIGINT)

    def fit(
        self,
        on_progress: Listener | None = None,
        *,
        resume: bool = False,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        tracking: Tracking | None = None,
    ) -> dict[str, Any]:
        """Train to the end and return the metrics; `resume` goes on from the last checkpoint of the run folder."""
        with nullcontext() if self.run is None else self.run.in_training(self.recipe, resume=resume):
            return self._fit(on_progress, resume, checkpoint_seconds, tracking or Tracking({}))

    def _fit(
        self, on_progress: Listener | None, resume: bool, checkpoint_seconds: float, tracking: Tracking
    ) -> dict[str, Any]:
        found = checkpoint.read(self.run.checkpoint) if self.run is not None and resume else None
        if found is not None:
            self._restore(*found)
        elif self.base is not None:
            self._adopt(self.base)
        if self.run is not None and not resume:
            with self.run.beginning(self.setup.kb, self.recipe):
                if self.base is not None:
                    self._checkpoint()  # so that a resume has its model, whenever this process ends
        try:
            tracking.begin(self.recipe)
            try:
                self._train(on_progress, checkpoint_seconds, tracking)
            except Diverged as found:
                self._fall_back(found)
            metrics = self._finish(on_progress)
        except BaseException:
            tracking.stop()
            raise
        tracking.finish(self.recipe, self.state.trace, metrics)
        return metrics

    def _train(self, on_progress: Listener | None, checkpoint_seconds: float, tracking: Tracking) -> None:
        """Go through the epochs that are left."""
        numbers = dtype(self.state.precision)  # that of the checkpoint, if there is one
        objective = Objective(self.model, self.recipe, len(self.setup.kb.relations), numbers)
        saved = begun = time.monotonic()
        before = self.state.seconds
        with self._stopping():
            while not self._is_done():
                while self.state.batch < len(self.batches):
                    self._step(objective)
                    now = time.monotonic()
                    self.state.seconds = before + now - begun
                    if on_progress is not None:
                        on_progress(self._progress())
                    if self.run is not None and (self.stop_asked or now - saved >= checkpoint_seconds):
                        self._checkpoint()
                        saved = now
                    if self.stop_asked:
                        raise Stopped(self.stop_signal)
                self._end_epoch()
                tracking.update(self.state.trace)
                if on_progress is not None:
                    on_progress(self._progress())

    def _step(self, objective: Objective) -> None:
        state = self.state
        key = (self.recipe.seed, state.epoch, state.batch)
        generator = random(*key, 1)
        torch.manual_seed(int(generator.integers(2**62)))  # for dropout
        batch = self.batches.batch(state.epoch, state.batch, self.device)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._backward(objective, batch, self.negatives.draw(generator, self.device))
        self.optimizer.step()
        self.model.after_step()
        state.loss_sum += finite_loss(loss)
        state.step += 1
        state.batch += 1

    def _backward(self, objective: Objective, batch: Batch, candidates: Candidates | None) -> Tensor:
        if self.rows is not None and candidates is not None:
            return self.rows.step(batch, candidates, objective)
        loss = objective(batch, candidates)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _end_epoch(self) -> None:
        """Write the trace of the epoch, and look at dev if it is time."""
        state, recipe = self.state, self.recipe
        check_tables(self.model)
        loss = state.loss_sum / max(state.batch, 1)
        line: dict[str, Any] = {"epoch": state.epoch + 1, "step": state.step, "loss": loss, "lr": state.learning_rate}
        last = state.epoch + 1 == recipe.epochs
        if last or (state.epoch + 1) % recipe.validate_every == 0:
            line["dev"] = dev_metrics(self.setup, self.model, self.device) if len(self.setup.kb.valid) else {}
            self._judge(line["dev"].get("mrr", -loss) if recipe.metric == "mrr" else -loss)
        line["seconds"] = round(state.seconds, 1)
        state.trace.append(line)
        state.epoch, state.batch, state.loss_sum = state.epoch + 1, 0, 0.0
        self._write_trace()

    def _judge(self, value: float) -> None:
        """Keep the tables if they are the best so far; else lower the learning rate after some patience."""
        state, recipe = self.state, self.recipe
        if state.best is None or value > state.best:
            state.best, state.best_epoch = value, state.epoch
            state.looks_since_best = state.looks_since_lowered = 0
            self.best = {name: table.detach().clone() for name, table in self.model.state_dict().items()}
            return
        state.looks_since_best += 1
        state.looks_since_lowered += 1
        if state.looks_since_lowered >= recipe.plateau:
            state.looks_since_lowered = 0
            self._set_learning_rate(state.learning_rate * recipe.plateau_factor)

    def _set_learning_rate(self, rate: float) -> None:
        self.state.learning_rate = rate
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.rows is not None:
            self.rows.learning_rate = rate

    def _is_done(self) -> bool:
        """Whether no epoch is to be added: all are done, no better one is expected, or there can be none."""
        state = self.state
        return bool(
            state.epoch >= self.recipe.epochs or state.looks_since_best >= self.recipe.patience or state.diverged
        )

    def _fall_back(self, found: Diverged) -> None:
        """End training with the best tables before it diverged; without any, there is nothing to be kept."""
        problem = f"Training diverged in epoch {self.state.epoch + 1}: {found}."
        hint = f"Set a smaller learning_rate than {self.recipe.learning_rate:g}"
        if not self.best:
            raise DivergedError(problem, f"{hint}, in another run folder.") from found
        self.model.load_state_dict(self.best)
        for table in self._optimizer_tables().values():
            table.zero_()  # they are not needed any more, and a checkpoint holds finite numbers only
        self.state.diverged = (
            f"{problem} The tables of epoch {self.state.best_epoch + 1} are kept. {hint} to go on longer."
        )

    def _progress(self) -> Progress:
        state = self.state
        looks = [line["dev"]["mrr"] for line in state.trace if line.get("dev")]
        ended = state.batch == 0
        return Progress(
            ended=ended,
            epoch=state.epoch if ended else state.epoch + 1,
            epochs=self.recipe.epochs,
            batch=len(self.batches) if ended else state.batch,
            batches=len(self.batches),
            loss=state.trace[-1]["loss"] if ended else state.loss_sum / state.batch,
            dev=looks[-1] if looks else None,
            best=max(looks) if looks else None,
            seconds=state.seconds,
        )

    def _finish(self, on_progress: Listener | None) -> dict[str, Any]:
        """Go back to the best tables, train the gadgets if there are any, and write the run."""
        if self.best:
            self.model.load_state_dict(self.best)
        self.model.train(False)
        best = next((line for line in self.state.trace if line["epoch"] == self.state.best_epoch + 1), {})
        phase2 = self._phase2(on_progress) if self.recipe.gadgets else {}
        metrics = {
            "dev": phase2.get("dev", best.get("dev", {})),
            "protocol": "published-code",
            "best_epoch": self.state.best_epoch + 1,
            "epochs": self.state.epoch,
            "seconds": round(self.state.seconds, 1),
            "precision": self.state.precision,
            "precision_reason": self.state.precision_reason,
            "parameters": self.model.parameter_count + phase2.get("parameters", 0),
            "machine": machine(),
        }
        diverged = [self.state.diverged, *diverged_gadgets(phase2.get("trace", []))]
        if any(diverged):
            metrics["diverged"] = " ".join(filter(None, diverged))
        if phase2:
            metrics["phase2"] = {"base_dev": best.get("dev", {}), **phase2}
        if self.run is not None:
            self._write_trace()
            self.run.finish(self.recipe, self.model, self.gadgets, metrics)
        return metrics

    def _phase2(self, on_progress: Listener | None) -> dict[str, Any]:
        """Train the gadgets. A run that is cut off here goes on from the end of phase 1."""
        self._checkpoint()
        begun = time.monotonic()

        def listen(now: Progress) -> None:
            if self.stop_asked:
                raise Stopped(self.stop_signal)
            if on_progress is not None:
                on_progress(now)

        with self._stopping():
            self.gadgets, trace = GadgetTrainer(self.setup, self.model, self.device).fit(listen)
        learned = sum(each.numel() for gadget in self.gadgets.values() for each in gadget.parameters())
        return {
            "dev": dev_metrics(self.setup, self.model, self.device, self.gadgets) if len(self.setup.kb.valid) else {},
            "weights": {name: float(gadget.strength) for name, gadget in self.gadgets.items()},
            "parameters": learned,
            "seconds": round(time.monotonic() - begun, 1),
            "trace": trace,
        }

    def _adopt(self, base: TrainedRun) -> None:
        """Take a trained model as the result of phase 1."""
        metrics, trace = RunFolder(base.path).metrics(), RunFolder(base.path).trace()
        if not (len(trace) == metrics["epochs"] <= self.recipe.epochs):
            raise DamagedError(f"{base.path} does not say what each of its epochs gave.", checkpoint.AGAIN)
        self.model.load_state_dict(base.model.state_dict())
        self.best = {name: table.detach().clone() for name, table in self.model.state_dict().items()}
        self.state.trace = trace
        self.state.epoch, self.state.best_epoch = metrics["epochs"], metrics["best_epoch"] - 1
        self.state.seconds, self.state.precision = metrics["seconds"], metrics["precision"]
        self.state.precision_reason = metrics.get("precision_reason", "")
        self.state.looks_since_best = self.recipe.patience  # so that no epoch is added

    # Checkpoints ------------------------------------------------------------------------------------------

    def _tensors(self) -> dict[str, Tensor]:
        """Everything that a resume needs, by name."""
        tensors = {f"model.{name}": table for name, table in self.model.state_dict().items()}
        tensors |= {f"best.{name}": table for name, table in self.best.items()}
        return tensors | self._optimizer_tables()

    def _optimizer_tables(self) -> dict[str, Tensor]:
        """What the optimiser keeps, by name."""
        tensors: dict[str, Tensor] = {}
        for number, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(value) for name, value in values.items()}
        if self.rows is not None:
            tensors |= {f"rows.{name}": table for name, table in self.rows.sums.items()}
        return tensors

    def _checkpoint(self) -> None:
        if self.run is not None:
            checkpoint.write(self.run.checkpoint, self._tensors(), asdict(self.state))

    def _restore(self, tensors: dict[str, Tensor], found: dict[str, Any]) -> None:
        state = checkpoint.parse_state(found)
        self._check(tensors, state)
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}, "rows": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor.to(self.device)
        self.model.load_state_dict(parts["model"])
        self.best = parts["best"]
        values: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimizer"].items():
            number, _, key = name.partition(".")
            values.setdefault(int(number), {})[key] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": values})
        if self.rows is not None:
            self.rows.sums = parts["rows"]
        self.state = state
        self._set_learning_rate(self.state.learning_rate)

    def _check(self, tensors: dict[str, Tensor], state: State) -> None:
        """Refuse a checkpoint that is not one of this recipe and KB."""
        source = "The checkpoint"
        if not state.is_possible(self.recipe.epochs, len(self.batches), self.recipe.learning_rate):
            raise DamagedError(f"{source} says what no training by this recipe can.", checkpoint.AGAIN)
        expected = self._expected(with_best=state.best_epoch >= 0, begun=state.step > 0)
        if set(tensors) != set(expected):
            raise DamagedError(f"{source} holds the tables of another model.", checkpoint.AGAIN)
        for name, tensor in tensors.items():
            learned = name.startswith(("model.", "best."))
            checkpoint.check(
                tensor, expected[name], name, source, checkpoint.LARGEST if learned else sys.float_info.max
            )
            is_sum = not learned and not name.endswith(".exp_avg")
            if is_sum and not bool((tensor >= 0).all()):
                raise DamagedError(f"{source} holds a sum of squares below 0, in {name}.", checkpoint.AGAIN)

    def _expected(self, *, with_best: bool, begun: bool) -> dict[str, Tensor]:
        """What `_tensors` gives in the course of training, by name, with numbers of no meaning."""
        own = self.model.state_dict()
        expected = {f"model.{name}": table for name, table in own.items()}
        expected |= {f"best.{name}": table for name, table in own.items()} if with_best else {}
        adam = self.recipe.optimizer == "adam"
        if begun or not adam:
            sums = ("exp_avg", "exp_avg_sq") if adam else ("sum",)
            for number, parameter in enumerate(self.optimizer.param_groups[0]["params"]):
                expected |= {f"optimizer.{number}.{name}": parameter for name in sums}
                expected[f"optimizer.{number}.step"] = torch.zeros(())
        if self.rows is not None:
            expected |= {f"rows.{name}": table for name, table in self.rows.sums.items()}
        return expected

    def _write_trace(self) -> None:
        if self.run is not None:
            lines = "".join(to_json(line) + "\n" for line in self.state.trace)
            write_whole(self.run.path / "trace.jsonl", lines.encode())

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """While training, a signal that ends a process only asks to stop; the loop then saves and leaves."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(number: int, frame: object) -> None:
            self.stop_asked, self.stop_signal = True, number

        # One that is ignored stays so: `nohup` asks for it.
        before = {each: signal.getsignal(each) for each in STOPPING if signal.getsignal(each) != signal.SIG_IGN}
        try:
            for each in before:
                signal.signal(each, ask)
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


ENOUGH = 0.4
"""Seconds of work after which no more is measured."""

FEW = 32
"""Facts that a measurement begins with."""


class Estimate(NamedTuple):
    """Seconds that an epoch takes, and those that the gadgets take in all; each with the looks at dev."""

    epoch: float
    gadgets: float


def estimate(trainer: Trainer) -> Estimate:
    """About how long the training takes on this machine as busy as it is now; nothing of the training is changed."""
    with _unchanged(trainer):
        epoch = 0.0 if trainer.base is not None else _batches(trainer) + _look(trainer) / trainer.recipe.validate_every
        return Estimate(epoch, _gadgets(trainer) if trainer.recipe.gadgets else 0.0)


@contextmanager
def _unchanged(trainer: Trainer) -> Iterator[None]:
    """Leave the model, its buffers and the random numbers as they were."""
    model = trainer.model
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.random.fork_rng(devices=[trainer.device] if trainer.device.type == "cuda" else []):
        yield
    model.zero_grad(set_to_none=True)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(before[name])


def _batches(trainer: Trainer) -> float:
    """The loss and gradient of all batches of an epoch.

    The first batch is slower than others, and is left out. Where tables depend on the instant, so is a batch with
    the many instants of a distant past: that is why the median is taken.
    """
    objective = Objective(trainer.model, trainer.recipe, len(trainer.setup.kb.relations), trainer.precision.dtype)
    candidates = trainer.negatives.draw(random(trainer.recipe.seed), trainer.device)
    took: list[float] = []
    for number in range(min(4, len(trainer.batches))):
        if sum(took[1:]) > ENOUGH:
            break
        start = time.perf_counter()
        objective(trainer.batches.batch(0, number, trainer.device), candidates).backward()  # type: ignore[no-untyped-call]
        took.append(time.perf_counter() - start)
    return statistics.median(took[1:] or took) * len(trainer.batches)


def _gadgets(trainer: Trainer) -> float:
    """Phase 2: the gadgets are made, learn in groups, and are looked at on dev with each weight that is to be tried."""
    start = time.perf_counter()
    second, settings = GadgetTrainer(trainer.setup, trainer.model, trainer.device), trainer.recipe.phase2
    gadgets = second.new_gadgets()
    seconds, facts = time.perf_counter() - start, len(trainer.setup.train)
    for group in second.groups(gadgets):
        batch = min(settings.batch_size, facts)
        learning = _scaled(lambda rows, group=group: second.trial(group, rows), batch) * facts / batch  # type: ignore[misc]
        tried = [len({gadget.options.weight, *gadget.options.try_weights}) for gadget in group.values()]
        looks = settings.epochs + sum(number for number in tried if number > 1)
        seconds += settings.epochs * learning + looks * _look(trainer, group)
    return seconds + _look(trainer, gadgets)


def _look(trainer: Trainer, gadgets: dict[str, Gadget] | None = None) -> float:
    """A look at dev; not counted where a single question takes long, because every instant has its own table."""
    setup = trainer.setup
    if not len(setup.kb.valid) or trainer.model.by_instant:
        return 0.0
    queries, scorer = setup.dev_task.queries, setup.scorer(trainer.model, gadgets)

    def ranks(rows: int) -> None:
        for direction in DIRECTIONS:
            rank(scorer, queries.rows(0, rows), {}, direction, entities=len(setup.kb.entities), device=trainer.device)

    return _scaled(ranks, len(queries))


def _scaled(work: Callable[[int], object], whole: int) -> float:
    """About how long `work(whole)` takes, from less of it: some rows, and more, until that takes a while."""
    rows = FEW
    while True:
        rows = min(rows, whole)
        start = time.perf_counter()
        work(rows)
        took = time.perf_counter() - start
        if rows == whole or took > ENOUGH:
            return took * whole / rows
        rows *= 4
