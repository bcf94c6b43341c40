"""What the KB already says of an answer or of a fact, as a text."""

import numpy as np

from timeplex.inference.asking import span_texts
from timeplex.inference.who import Known, Questions
from timeplex.kb.dates import Granularity, Ints
from timeplex.kb.facts import Facts, pair_key

ELSEWHEN = " (another time)"


def known_answers(
    known: Known, questions: Questions, query: Ints, entity: Ints, granularity: Granularity
) -> list[str | None]:
    """For candidates of questions, (m,), the spans at which they are stated; None for those that are new.

    Those that meet the time of the question come alone: `2000–2003`; if there are none, the others are marked:
    `1995–1999 (another time)`.
    """
    texts: list[str | None] = [None] * len(query)
    asked, fact, meets = known.of(questions)
    stated, wanted = pair_key(asked, known.answers(questions.direction)[fact]), pair_key(query, entity)
    # Few of the facts that answer a question are about one of its best candidates.
    order = np.argsort(wanted)
    where = np.searchsorted(wanted, stated, sorter=order)
    there = np.flatnonzero(where < len(wanted))
    place = order[where[there]]
    same = wanted[place] == stated[there]
    place, fact, meets = place[same], fact[there][same], meets[there][same]
    # An answer that holds at the time is not said to hold at others.
    now = np.zeros(len(query), np.bool_)
    now[place[meets]] = True
    shown = meets | ~now[place]
    for row, text in spans_texts(known.facts, place[shown], fact[shown], granularity).items():
        texts[row] = text if now[row] else text + ELSEWHEN
    return texts


def known_spans(facts: Facts, s: Ints, r: Ints, o: Ints, granularity: Granularity) -> list[str | None]:
    """For each (s, r, o) the spans at which it is stated, None if it is not: (n,)."""
    query, fact = facts.of_triples(s, r, o)
    texts: list[str | None] = [None] * len(s)
    for row, text in spans_texts(facts, query, fact, granularity).items():
        texts[row] = text
    return texts


def spans_texts(facts: Facts, key: Ints, fact: Ints, granularity: Granularity) -> dict[int, str]:
    """The spans of the facts of each key in order, each once: `1990–1994, 2000–`; key and fact: (n,)."""
    begin, end = facts.begin[fact], facts.end[fact]
    order = np.lexsort((end, begin, key))
    spans = list(zip(begin[order].tolist(), end[order].tolist(), strict=True))
    distinct = list(dict.fromkeys(spans))
    written = dict(zip(distinct, span_texts(distinct, granularity), strict=True))
    texts: dict[int, dict[str, None]] = {}
    for each, span in zip(key[order].tolist(), spans, strict=True):
        texts.setdefault(each, {})[written[span]] = None
    return {each: ", ".join(said) for each, said in texts.items()}
