"""Who asks at the same time is answered in turns, and what waits together is answered together.

One batch of questions costs far less than the questions one by one, so eight clients wait hardly longer than one. Who
cannot be answered before a deadline is told to ask again (`errors.BusyError`).
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from timeplex.errors import BusyError

MOST_TOGETHER = 64
"""A batch has so many askers at most."""

IDLE_SECONDS = 10.0
"""The thread that answers ends after so long without a question."""

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)

Question = TypeVar("Question")
Answer = TypeVar("Answer")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """What is asked inside, in this context, must be answered by then."""
    before = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(before)


def seconds_left() -> float | None:
    """Until the time limit, if there is one."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def still_time() -> None:
    """Raise a `BusyError` if the time limit is over: nobody waits for the answer any more."""
    if seconds_left() == 0.0:
        raise BusyError("The answer takes longer than a request may.", "Ask for less in one request.")


@dataclass(eq=False)
class _Asked(Generic[Question, Answer]):
    """Somebody who waits: what for, and what came of it."""

    kind: Any
    question: Question
    answer: Callable[[Sequence[Question]], Sequence[Answer]]
    found: Answer | None = None
    error: BaseException | None = None
    done: bool = False


class Turns:
    """One batch at a time; who came first is first.

    Answers are found in one thread, which ends when nobody asks: memory that many threads had used would not come back.
    """

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiting: list[_Asked[Any, Any]] = []
        self._at_work = False

    def ask(self, kind: Any, question: Question, answer: Callable[[Sequence[Question]], Sequence[Answer]]) -> Answer:
        """The answer to a question, found together with what others ask of the same kind.

        `kind` says everything besides the question that the answer depends on; `answer` answers many of one kind.
        """
        mine = _Asked[Question, Answer](kind, question, answer)
        with self._change:
            self._waiting.append(mine)
            if not self._at_work:
                self._at_work = True
                threading.Thread(target=self._work, name="timeplex-answers", daemon=True).start()
            self._change.notify_all()
            while not mine.done:
                if not self._change.wait(seconds_left()) and seconds_left() == 0.0:
                    if mine in self._waiting:
                        self._waiting.remove(mine)
                    raise BusyError("Others are being answered.")
        if mine.error is not None:
            raise mine.error
        found: Any = mine.found
        return found  # type: ignore[no-any-return]

    def alone(self, work: Callable[[], Answer]) -> Answer:
        """What work gives, done while nothing else is."""
        return self.ask(object(), work, lambda asked: [each() for each in asked])

    def _work(self) -> None:
        """Answer, a batch after the other, until nobody has asked for a while."""
        while batch := self._next():
            _answer_all(batch)
            with self._change:
                for each in batch:
                    each.done = True
                self._change.notify_all()

    def _next(self) -> "list[_Asked[Any, Any]]":
        """Who has waited longest, and who waits for the same; none after a while without anybody."""
        with self._change:
            if not self._waiting:
                self._change.wait_for(lambda: self._waiting, IDLE_SECONDS)
            if not self._waiting:
                self._at_work = False
                return []
            kind = self._waiting[0].kind
            batch = [each for each in self._waiting if each.kind == kind][:MOST_TOGETHER]
            self._waiting = [each for each in self._waiting if each not in batch]
            return batch


def _answer_all(batch: "list[_Asked[Any, Any]]") -> None:
    """Answer all; if that fails, each by itself, so that nobody suffers from what another asks."""
    try:
        for asked, found in zip(batch, batch[0].answer([each.question for each in batch]), strict=True):
            asked.found = found
    except BaseException as error:
        if len(batch) == 1:
            batch[0].error = error
            return
        for asked in batch:
            _answer_all([asked])


class OnceInBackground:
    """Work that is done once, in a thread of its own, and what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self.finished = work, threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="timeplex-search", daemon=True)
        self.thread.start()

    @property
    def done(self) -> bool:
        """Whether there is a value."""
        return self.finished.is_set() and self.error is None

    def _run(self) -> None:
        try:
            self.value = self._work()
        except BaseException as error:
            self.error = error
        finally:
            self.finished.set()
