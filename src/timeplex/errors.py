"""The few exceptions that a user of timeplex sees, each with a sentence that says what to do."""

import signal


class TimeplexError(Exception):
    """Something that the user can act on.

    `problem` says in one sentence what is wrong, `hint` what to do about it. The command line prints
    both and leaves with `exit_code`. Where the way out is an argument in Python and an option on the command line,
    `option_hint` is what the command line says instead of the hint.
    """

    exit_code = 2

    def __init__(self, problem: str, hint: str = "", option_hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.option_hint = option_hint

    def __str__(self) -> str:
        return f"{self.problem} {self.hint}".strip()

    def for_command_line(self) -> str:
        """The sentence with what to do about it, in terms of options."""
        return f"{self.problem} {self.option_hint or self.hint}".strip()


class InputError(TimeplexError):
    """A file, table or argument that cannot be used as it is."""


class UnreadableDatesError(InputError):
    """A table too many of whose dates cannot be read; nothing was made of it."""

    exit_code = 3


class UnknownNameError(TimeplexError):
    """A name (entity, relation, dataset, column) that is not there; the hint names the closest ones."""


class DownloadError(TimeplexError):
    """A file that could not be fetched from its public source."""


class DamagedError(TimeplexError):
    """Stored data whose checksum or counts are not what they should be."""


class DivergedError(TimeplexError):
    """A training whose numbers grew beyond all bounds before there was anything to keep."""


class BusyError(TimeplexError):
    """What cannot be answered now, but some seconds later."""

    def __init__(self, problem: str, hint: str = "", retry_after: int = 5) -> None:
        super().__init__(problem, hint or f"Ask again in {retry_after} seconds.")
        self.retry_after = retry_after


class Stopped(Exception):  # noqa: N818 - not an error: the user asked for it
    """Training was stopped by Ctrl-C or another signal, after a checkpoint."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped by signal {number}")
        self.code = 128 + number
        """The exit code that says so."""
