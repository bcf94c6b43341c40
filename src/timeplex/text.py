"""How things are said to people: counts, spans, lengths and facts; and how texts of anyone's making are shown safely.

A span is `1990–2001`, `1990` for one instant, `1990–` and `–2001` with an open end, `no dates` with two.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timeplex.kb.facts import Facts, TemporalKB

JOINERS, SELECTORS = "\u200c\u200d", "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Unseen, but Persian, Indic scripts, Mongolian and emoji are not written without them."""

ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    f"|(?:^|(?<=[{JOINERS}]))[{JOINERS}{SELECTORS}]|(?<=[{SELECTORS}])[{SELECTORS}]"
)
"""What moves the cursor, sets colours or titles, turns the direction of writing around, cannot be printed, or is not
seen at all (a soft hyphen, tag characters): two names that differ in it would look the same. A joiner or selector may
follow what is seen, but not another one."""


def visible(text: object) -> str:
    """The text with each character that a terminal acts upon, or that nobody sees, written out, such as \\x1b."""
    return ACTING.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def quoted(value: object, most: int = 120) -> str:
    """A value of anyone's making as an error quotes it: not long, however long, deep or large the value is."""
    try:
        text = (
            f"a text of {len(value):,} characters" if isinstance(value, str) and len(value) > 10 * most else repr(value)
        )
    except (ValueError, RecursionError):  # a number of too many digits, tables in tables
        text = f"something too large to show ({type(value).__name__})"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """`Did you mean 'bornIn' or 'bornOn'?`; nothing if none of the known names is near."""
    close = difflib.get_close_matches(name, list(known), n=most)
    return f"Did you mean {' or '.join(quoted(each) for each in close)}?" if close else ""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 fact`, `2,000 facts`; `plural` is for nouns that do not just take an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def span(begin: str | None, end: str | None) -> str:
    """A span of two written dates, None for an open end: see the module's docstring."""
    if begin is None and end is None:
        return "no dates"
    return begin if begin is not None and begin == end else f"{begin or ''}–{end or ''}"


COARSER = {"day": ((730.5, 365.25, "year"), (61, 30.4375, "month")), "month": ((24, 12, "year"),)}
"""From how many of a unit on how many of them make one of a coarser unit: nobody thinks in 36,403 days."""


def length(number: float, unit: str) -> str:
    """A length of time, in the unit that people would use: `1 year`, `28 years`, `3.5 months`, `45 days`."""
    for least, of, coarser in COARSER.get(unit, ()):
        if abs(number) >= least:
            return exactly(number / of, coarser)
    return exactly(number, unit)


def lengths(low: float, high: float, unit: str) -> str:
    """From one length to another: `19 to 50 years`, `45 days to 2 years`."""
    first, last = length(low, unit), length(high, unit)
    if first == last:
        return last
    number, of = first.split(" ")
    same = of.rstrip("s") == last.split(" ")[1].rstrip("s")
    return f"{number if same else first} to {last}"


def exactly(number: float, unit: str) -> str:
    """A length of time in its own unit: `1,461 days`."""
    text = _number(number)
    return f"{text} {unit}{'' if text == '1' else 's'}"


def _number(number: float) -> str:
    """Whole from ten on, with one decimal below unless that is 0; large ones with commas."""
    return f"{number:,.0f}" if abs(number) >= 10 else f"{number:.1f}".removesuffix(".0")


@dataclass(frozen=True, eq=False)
class Describer:
    """Says facts of a KB, and what they are made of, in its names and its unit of time. `row` is a place in `facts`."""

    kb: "TemporalKB"
    facts: "Facts"

    def entity(self, entity: int) -> str:
        """An entity by its number."""
        return self.kb.entities.label(int(entity))

    def relation(self, relation: int) -> str:
        """A relation by its number."""
        return self.kb.relations.label(int(relation))

    def date(self, instant: float) -> str:
        """A calendar instant."""
        return self.kb.date(int(instant)) or "no date"

    def span(self, begin: int, end: int) -> str:
        """A span of calendar instants, whose ends may be open."""
        return span(self.kb.date(int(begin)), self.kb.date(int(end)))

    def length(self, number: float) -> str:
        """A number of instants: `1 year`, `28 years`."""
        return length(number, self.kb.granularity.value)

    def lengths(self, low: float, high: float) -> str:
        """From one number of instants to another, as `lengths` says it."""
        return lengths(low, high, self.kb.granularity.value)

    def exactly(self, number: float) -> str:
        """A number of instants as just that many: `1,461 days`."""
        return exactly(number, self.kb.granularity.value)

    def spread(self, mean: float, sigma: float, cases: int) -> str:
        """Mean and standard deviation: `28 ± 8 years`; one case alone has no deviation. The sign is left out."""
        if cases == 1:
            return self.length(abs(mean))
        return f"{_number(abs(mean))} ± {_number(sigma)} {self.kb.granularity.value}s"

    def apart(self, gap: float) -> str:
        """Where something lies from something else: `26 years before`, `3 days after`, `at the same time`."""
        if gap == 0:
            return "at the same time"
        return f"{self.length(abs(gap))} {'after' if gap > 0 else 'before'}"

    def triple(self, row: int) -> str:
        """`Ada bornIn London`."""
        of = self.facts
        return f"{self.entity(of.s[row])} {self.relation(of.r[row])} {self.entity(of.o[row])}"

    def fact(self, row: int) -> str:
        """`Ada bornIn London (1815)`."""
        return f"{self.triple(row)} ({self.span(self.facts.begin[row], self.facts.end[row])})"

    @property
    def at(self) -> str:
        """`in` for a year or a month, `on` for a day."""
        return "on" if self.kb.granularity.value == "day" else "in"

    def dated(self, row: int) -> str:
        """A fact with the date that gaps are counted from, the begin or else the end.

        `Ada livesIn London began 1815`, `… in 1815` for an event, `… ended 1815` if only that is known.
        """
        begin, end = (self.kb.date(int(side[row])) for side in self.facts.span)
        if begin is None:
            return self.triple(row) if end is None else f"{self.triple(row)} ended {end}"
        return f"{self.triple(row)} {self.at if begin == end else 'began'} {begin}"
