"""The file of decisions: what can be decided, how it is written and read back, and what it comes to.

The file is CSV, a line a decision, and each line is on the disk before anyone is told that it was taken. A line ends
with the digest of the KB that it is about, so that one that was cut off is known from one that was not: of a file that
ends anywhere, all lines that are whole count. In a field a backslash begins an escape (`\\\\`, `\\n`, `\\x3d`,
`\\u202e`) for what would break the line, hide from the eye, or start a formula in a spreadsheet.

    kind      finding (the fact may be wrong), hole (a date of it is missing) or proposal (it is not in the KB)
    verdict   accept, reject, skip, or undo of the last one on the same item
    action    what accepting does: change the fact into the new one, remove it, or add the new one
"""

import csv
import datetime
import hashlib
import io
import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from timeplex.errors import InputError
from timeplex.files import Growing, open_regular
from timeplex.kb import date_spellings, dates, spans
from timeplex.kb.dates import State
from timeplex.kb.facts import TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.store import FORMULA
from timeplex.text import ACTING, counted, quoted, span

Verdict = Literal["accept", "reject", "skip", "undo"]
Kind = Literal["finding", "hole", "proposal"]
Action = Literal["", "change", "remove", "add"]

FACT = ("subject", "relation", "object", "begin", "end")
NEW = ("new_subject", "new_object", "new_begin", "new_end")
COLUMNS = ("at", "kind", "verdict", "action", *FACT, *NEW, "why", "note", "kb")
MOST_BYTES = 64_000_000
MOST_NOTE = 2000
"""No note has more characters."""
DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Stated:
    """A fact by its names and written dates; None is an open end."""

    subject: str
    relation: str
    object: str
    begin: str | None = None
    end: str | None = None

    def __str__(self) -> str:
        return f"{self.subject} {self.relation} {self.object} ({span(self.begin, self.end)})"


@dataclass(frozen=True)
class Decision:
    """What was decided of one item: see the module's docstring. `why` are the rules or the reason that were shown."""

    kind: Kind
    verdict: Verdict
    fact: Stated
    action: Action = ""
    new: Stated | None = None
    why: str = ""
    note: str = ""
    at: str = ""

    @property
    def item(self) -> tuple[Kind, Stated]:
        """What it is about."""
        return self.kind, self.fact

    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        if self.kind not in get_args(Kind) or self.verdict not in get_args(Verdict):
            return "its kind or verdict is not known"
        actions = ("add",) if self.kind == "proposal" else ("change", "remove", "add")
        if (self.verdict == "accept") != (self.action in actions) or (self.verdict != "accept" and self.action):
            return "its action does not go with its verdict"
        if (self.new is not None) != (self.action in ("change", "add")):
            return "its new fact does not go with its action"
        if not (self.fact.subject and self.fact.relation and self.fact.object):
            return "a name is missing"
        if self.new is not None and not (self.new.subject and self.new.object):
            return "a name is missing"
        return ""


# The file -------------------------------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    """A text in one line that no spreadsheet takes for a formula: `unescaped` is the inverse."""
    text = ACTING.sub(lambda found: _written_out(found[0]), text.replace("\\", "\\\\"))
    places = [found.end() for found in FORMULA.finditer(text)]
    for place in reversed(places):
        text = f"{text[:place]}{_written_out(text[place])}{text[place + 1 :]}"
    return text


def _written_out(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


ESCAPE = re.compile(r"\\(?:(\\)|(n)|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def unescaped(text: str) -> str:
    """The text that was escaped."""

    def meant(found: "re.Match[str]") -> str:
        if found[1] or found[2]:
            return found[1] or "\n"
        number = int(found[3] or found[4] or found[5], 16)
        return chr(number) if number < 0x110000 else found[0]

    return ESCAPE.sub(meant, text)


def _line(values: Iterable[str]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(values)
    return buffer.getvalue().encode("utf-8", "replace")


def line_of(decision: Decision, of: str) -> bytes:
    """A decision as a line of the file, about the KB of a digest."""
    new, fact = decision.new, decision.fact
    news = ("", "", "", "") if new is None else (new.subject, new.object, new.begin or "", new.end or "")
    values = (
        *(decision.at, decision.kind, decision.verdict, decision.action),
        *(fact.subject, fact.relation, fact.object, fact.begin or "", fact.end or "", *news),
        *(decision.why, decision.note),
    )
    return _line([*map(escaped, values), of])


HEADER = _line(COLUMNS)


def _decision(values: Sequence[str]) -> Decision:
    row = {name: unescaped(value) for name, value in zip(COLUMNS, values, strict=True)}
    fact = Stated(row["subject"], row["relation"], row["object"], row["begin"] or None, row["end"] or None)
    new = None
    if row["new_subject"] or row["new_object"]:
        dates = row["new_begin"] or None, row["new_end"] or None
        new = Stated(row["new_subject"], fact.relation, row["new_object"], *dates)
    head: tuple[Any, Any, Any] = (row["kind"], row["verdict"], fact)
    action: Any = row["action"]
    return Decision(*head, action, new, row["why"], row["note"], row["at"])


@dataclass(frozen=True)
class Read:
    """What a file of decisions holds. `whole` bytes of it count; `torn` says whether a line was cut off after them."""

    decisions: tuple[Decision, ...]
    digest: str
    whole: int
    torn: bool


def parse(content: bytes, source: object) -> Read:
    """The decisions of a file, in order. A last line that was cut off does not count; any other damage is an error."""
    first, _, rest = content.partition(b"\n")
    if len(content) > MOST_BYTES:
        raise InputError(f"{source} is larger than {MOST_BYTES:,} bytes.", "Give a file of decisions.")
    if HEADER.startswith(content) and content != HEADER:
        return Read((), "", 0, bool(content))  # cut off before the first decision
    if first.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r") != HEADER.rstrip(b"\n"):
        raise InputError(
            f"{source} is not a file of decisions.", "Give one that `timeplex serve --decisions` wrote, or a new name."
        )
    whole, digests = len(first) + 1, dict[str, None]()
    found: list[Decision] = []
    lines = rest.split(b"\n")
    for number, line in enumerate(lines, start=2):
        last = number == len(lines) + 1
        if not line.strip():
            if last:
                return Read(tuple(found), next(iter(digests), ""), whole, bool(line))
            whole += len(line) + 1
            continue
        try:
            values = next(csv.reader([line.decode().rstrip("\r")], strict=True))
            complete = len(values) == len(COLUMNS) and DIGEST.fullmatch(values[-1]) is not None
        except (UnicodeDecodeError, csv.Error):
            values, complete = [], False
        if last and not complete:
            return Read(tuple(found), next(iter(digests), ""), whole, True)
        decision = _decision(values) if complete else None
        problem = "it has other columns" if decision is None else decision.problem()
        if problem or decision is None:
            raise InputError(f"Line {number:,} of {source} is not a decision: {problem}.", "Correct it, or remove it.")
        digests[values[-1]] = None
        found.append(decision)
        whole += len(line) + (0 if last else 1)
        if len(digests) > 1:
            raise InputError(f"{source} has decisions on several KBs.", "Keep those on one KB in a file.")
    return Read(tuple(found), next(iter(digests), ""), whole, False)


def read(path: str | Path, kb: TemporalKB | None = None) -> Read:
    """A file of decisions; one on another KB than the given one is refused."""
    path = Path(path)
    try:
        with open_regular(path) as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist.", "Check the path.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from error
    found = parse(content, path)
    if kb is not None:
        _same_kb(found, kb, path)
    return found


def digest(kb: TemporalKB) -> str:
    """SHA-256 of the named facts of a KB, whatever their order and splits: a run has split the KB that it was given."""
    texts = pl.all().fill_null("")
    facts = kb.to_polars().drop("split").unique()
    # The lengths of the texts stand first, so that no name, whatever is in it, can pass for two.
    lines = facts.select(fact=pl.concat_str(texts.str.len_bytes(), texts, separator=":"))["fact"].sort()
    return hashlib.sha256("".join([kb.granularity, *lines]).encode()).hexdigest()


def _same_kb(found: Read, kb: TemporalKB, path: Path) -> None:
    if found.digest and found.digest != digest(kb):
        raise InputError(
            f"{path} has decisions on another KB than this one ({kb.name}, {counted(len(kb), 'fact')}).",
            "Give the KB that they were made on, or another file.",
            "Give the KB that they were made on, or apply what fits with --any-kb.",
        )


def replay(decisions: Iterable[Decision]) -> dict[tuple[Kind, Stated], Decision]:
    """What is decided in the end, in the order in which it was: the last verdict on each item that was not undone."""
    stacks: dict[tuple[Kind, Stated], list[Decision]] = {}
    order: dict[tuple[Kind, Stated], None] = {}
    for decision in decisions:
        stack = stacks.setdefault(decision.item, [])
        if decision.verdict == "undo":
            if stack:
                stack.pop()
            continue
        stack.append(decision)
        order.pop(decision.item, None)
        order[decision.item] = None
    return {item: stacks[item][-1] for item in order if stacks[item]}


class Decisions:
    """A file of decisions that is open for more; without a path nothing can be decided."""

    def __init__(self, kb: TemporalKB, path: str | Path | None = None) -> None:
        """Open the file, which is made if it is not there, and replay it; it is locked until `close`."""
        self.kb, self.path = kb, None if path is None else Path(path)
        self._file: Growing | None = None
        self._lock, self._digest = threading.Lock(), digest(kb)
        self._all: list[Decision] = []
        self.torn = False
        self.current: dict[tuple[Kind, Stated], Decision] = {}
        if self.path is not None:
            self._open(self.path)

    def _open(self, path: Path) -> None:
        if path.is_dir():
            raise InputError(f"{path} is a folder.", "Give the name of a file.")
        file = Growing(path)
        try:
            content = file.content(MOST_BYTES)
            found = parse(content, path)
            _same_kb(found, self.kb, path)
            self.torn = found.torn
            if found.torn:
                file.cut(found.whole)
            if not found.whole:
                file.add(HEADER)
            elif not content[: found.whole].endswith(b"\n"):
                file.add(b"\n")  # the line is whole, only its end is missing
        except BaseException:
            file.close()
            raise
        self._file = file
        self._all = list(found.decisions)
        self.current = replay(self._all)

    @property
    def writable(self) -> bool:
        """Whether something can be decided."""
        return self._file is not None

    def __len__(self) -> int:
        return len(self._all)

    def of(self, kind: Kind, fact: Stated) -> Decision | None:
        """What is decided of an item."""
        return self.current.get((kind, fact))

    @property
    def last(self) -> Decision | None:
        """The decision that was taken last, of those that stand."""
        return next(reversed(self.current.values()), None)

    def counts(self) -> dict[str, int]:
        """How many items have each verdict."""
        found = Counter(decision.verdict for decision in self.current.values())
        return {verdict: found[verdict] for verdict in ("accept", "reject", "skip")}

    def add(self, decision: Decision) -> Decision:
        """Take a decision: it is on the disk when this returns. The time is put in."""
        if self._file is None:
            raise InputError("Nothing can be decided: no file for decisions was named.", "Start with --decisions FILE.")
        if len(decision.note) > MOST_NOTE:
            raise InputError(f"The note has more than {MOST_NOTE:,} characters.", "Write a shorter one.")
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        taken = replace(decision, at=decision.at or now)
        problem = taken.problem() or _date_problem(taken, self.kb)
        if problem:
            raise InputError(f"That cannot be decided: {problem}.", "Correct it.")
        with self._lock:
            self._file.add(line_of(taken, self._digest))
            self._all.append(taken)
            self.current = replay(self._all)
        return taken

    def undo(self, kind: Kind | None = None, fact: Stated | None = None) -> Decision | None:
        """Take back the last decision on an item, or the last of all; what was taken back, None if there is nothing."""
        found = self.last if kind is None or fact is None else self.of(kind, fact)
        if found is not None:
            self.add(Decision(found.kind, "undo", found.fact))
        return found

    def close(self) -> None:
        """Let other processes have the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _date_problem(decision: Decision, kb: TemporalKB) -> str:
    if decision.new is None:
        return ""
    try:
        placed([decision.new], kb)
    except InputError as error:
        return error.problem.rstrip(".")
    return ""


# What a fact is called, and where it lies ----------------------------------------------------------------------------

Row = tuple[int, int, int, int, int]
"""Subject, relation, object, begin and end of a fact, as numbers and instants."""


def placed(stated: Sequence[Stated], kb: TemporalKB) -> list[Row | None]:
    """Facts as numbers and instants; None where the KB does not have a name. Dates that cannot be are an error."""
    begins = instants_of([each.begin for each in stated], kb, "begin")
    ends = instants_of([each.end for each in stated], kb, "end")
    found: list[Row | None] = []
    for each, begin, end in zip(stated, begins, ends, strict=True):
        if begin > end:
            raise InputError(f"{_short(each)} ends before it begins.", "Give the earlier date first.")
        names = ((kb.entities, each.subject), (kb.relations, each.relation), (kb.entities, each.object))
        known = [_number(*pair) for pair in names]
        found.append(None if -1 in known else (*known, begin, end))  # type: ignore[arg-type]
    return found


def _short(fact: Stated) -> str:
    return str(fact) if len(str(fact)) <= 200 else "A fact"


def _number(names: Names, name: str) -> int:
    return names.id(name) if name in names else -1


def instants_of(texts: Sequence[str | None], kb: TemporalKB, side: str) -> list[int]:
    """The instants of written begins or ends, open where there is none: a coarse date begins early and ends late."""
    missing = spans.OPEN_BEGIN if side == "begin" else spans.OPEN_END
    distinct = list(dict.fromkeys(text for text in texts if text))
    parsed = date_spellings.parse(pl.Series(distinct, dtype=pl.String))
    for text, state in zip(distinct, parsed.state.tolist(), strict=True):
        if state != State.KNOWN:
            raise InputError(f"{quoted(text)} is not a date.", "Write it as 2000, 2000-05 or 2000-05-17.")
    place = dict(zip(distinct, dates.place(parsed, kb.granularity)[side == "end"].tolist(), strict=True))
    return [place[text] if text else missing for text in texts]
