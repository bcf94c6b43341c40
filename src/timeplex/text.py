"""Texts of anyone's making, made fit to be shown: what would act, or would not be seen, is written out."""

import difflib
import re
from collections.abc import Iterable

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
