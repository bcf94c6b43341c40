"""Who asks at the same time is answered together, in turns, in time, and not harmed by others."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.patience import patience

from timeplex.errors import BusyError, InputError
from timeplex.serve.turns import MOST_TOGETHER, Turns, seconds_left, still_time, time_limit


class Slow:
    """Doubles numbers, and knows in which batches it was asked, and that it is never asked by two at once."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.inside, self.open = threading.Lock(), threading.Event()

    def __call__(self, asked: Sequence[int]) -> list[int]:
        assert self.inside.acquire(blocking=False), "two at once"
        try:
            self.batches.append(list(asked))
            assert self.open.wait(patience(20))
            if -13 in asked:
                raise InputError("-13 is no number.")
            return [2 * each for each in asked]
        finally:
            self.inside.release()


def waiting(turns: Turns, number: int) -> None:
    """Wait until so many stand in the line."""
    until = time.monotonic() + patience(20)
    while len(turns._waiting) != number:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_what_waits_together_is_answered_together_and_each_gets_its_own() -> None:
    turns, slow = Turns(), Slow()
    numbers = range(2 * MOST_TOGETHER)
    with ThreadPoolExecutor(len(numbers) + 1) as pool:
        first = pool.submit(turns.ask, "double", -1, slow)
        while not slow.batches:
            time.sleep(0.001)
        others = [pool.submit(turns.ask, "double", number, slow) for number in numbers]
        waiting(turns, len(numbers))
        slow.open.set()
        assert first.result() == -2
        assert [each.result() for each in others] == [2 * number for number in numbers]
    assert [len(batch) for batch in slow.batches] == [1, MOST_TOGETHER, MOST_TOGETHER]


def test_other_kinds_are_not_mixed() -> None:
    turns, slow = Turns(), Slow()
    with ThreadPoolExecutor(5) as pool:
        running = [pool.submit(turns.ask, "a", 0, slow)]
        while not slow.batches:
            time.sleep(0.001)
        running += [pool.submit(turns.ask, kind, number, slow) for number, kind in enumerate("abab", start=1)]
        waiting(turns, 4)
        slow.open.set()
        assert sorted(each.result() for each in running) == [0, 2, 4, 6, 8]
    assert sorted(sorted(batch) for batch in slow.batches) == [[0], [1, 3], [2, 4]]


def test_one_bad_question_harms_nobody_else() -> None:
    turns, slow = Turns(), Slow()
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(turns.ask, "a", 0, slow)]
        while not slow.batches:
            time.sleep(0.001)
        running += [pool.submit(turns.ask, "a", number, slow) for number in (12, -13, 14)]
        waiting(turns, 3)
        slow.open.set()
        assert [running[at].result() for at in (0, 1, 3)] == [0, 24, 28]
        with pytest.raises(InputError, match="-13"):
            running[2].result()
    assert turns.ask("a", 1, slow) == 2


def test_who_cannot_wait_is_told_and_leaves_the_line() -> None:
    turns, slow = Turns(), Slow()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(turns.ask, "a", 0, slow)
        while not slow.batches:
            time.sleep(0.001)
        with time_limit(0.05), pytest.raises(BusyError, match=r"Others are being answered\. Ask again"):
            turns.ask("a", 1, slow)
        slow.open.set()
        assert first.result() == 0
    assert slow.batches == [[0]]
    assert turns.alone(lambda: 7) == 7


def test_the_time_limit_is_that_of_the_context() -> None:
    assert seconds_left() is None
    still_time()
    with time_limit(60):
        assert 0 < (seconds_left() or 0) <= 60
        with time_limit(0), pytest.raises(BusyError):
            still_time()
        still_time()
    assert seconds_left() is None


def test_answers_come_from_one_thread_which_ends_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, names = Turns(), list[int]()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(turns.alone, lambda: names.append(threading.get_ident())) for _ in range(40)]
        assert not any(each.result() for each in asked)
    assert len(names) == 40
    assert len(set(names)) == 1
    monkeypatch.setattr("timeplex.serve.turns.IDLE_SECONDS", 0.01)
    other = Turns()
    assert other.alone(lambda: 1) == 1
    until = time.monotonic() + patience(20)
    while other._at_work:
        assert time.monotonic() < until
        time.sleep(0.005)
    assert other.alone(lambda: 2) == 2
