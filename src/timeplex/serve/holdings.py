"""What a KB holds, as plain values: entities, relations, facts, neighbours. Nothing is asked of patterns here."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from timeplex.answers.learned import Learned
from timeplex.answers.trained import Trained
from timeplex.errors import InputError
from timeplex.kb import spans
from timeplex.kb.facts import SPLITS, Facts
from timeplex.kb.names import Names
from timeplex.kb.stats import describe
from timeplex.serve.limits import FACETS, MOST_NEIGHBOURS, ROWS, Row, check_page, check_text, page
from timeplex.text import Describer
from timeplex.typing import Bools, Ints


class Holdings:
    """A KB to be looked at. Names are ids or labels, and an unknown one is an error that tells near ones."""

    def __init__(self, learned: Learned) -> None:
        self.learned, self.kb = learned, learned.kb
        # What would be made on first use, perhaps by two at once, is made now.
        self._facts = self.kb.facts
        self.asking, self._words = learned.asking, Describer(self.kb, self._facts)
        self._split = np.repeat(
            np.arange(len(SPLITS)), [len(self.kb.splits.get(name, Facts.empty())) for name in SPLITS]
        )
        mentioned = np.concatenate([self._facts.s, self._facts.o])
        self._facts_of_entity = np.bincount(mentioned, minlength=len(self.kb.entities))
        date = self._facts.date
        self._place = np.empty(len(date), np.int64)  # of each fact in the order of dates
        self._place[np.lexsort((self._facts.r, date))] = np.arange(len(date))

    @property
    def ready(self) -> bool:
        """Whether questions about who and when are answered at once."""
        raise NotImplementedError

    def about(self) -> Row:
        """What the KB holds: counts, its facts over time, its relations."""
        return {**self._about, "ready": self.ready, "run": self.run is not None, "model": self.model_name}

    @cached_property
    def _about(self) -> Row:
        stats = describe(self.kb).to_json()
        told: tuple[str, ...] = (
            "name",
            "granularity",
            "facts",
            "splits",
            "entities",
            "relations",
            "first",
            "last",
            "both_ends_known",
        )
        told += ("events", "open_begins", "open_ends", "problems")
        return {
            **{name: stats[name] for name in told},
            "histogram": [{"first": first, "last": last, "facts": facts} for first, last, facts in stats["histogram"]],
        }

    @cached_property
    def _by_relation(self) -> list[Row]:
        rows = describe(self.kb).to_json()["by_relation"]
        return [{"id": row.pop("relation"), **row} for row in rows]

    @property
    def run(self) -> "Trained | None":
        """The run that answers; None for a plain KB."""
        return self.learned if isinstance(self.learned, Trained) else None

    @property
    def model_name(self) -> str:
        """What answers: `timeplex`, or `patterns` for a plain KB."""
        return str(self.learned.about["model"])

    def relations(self, limit: int = ROWS, offset: int = 0) -> Row:
        """The relations with what is counted of each, most frequent first."""
        check_page(limit, offset)
        return page(self._by_relation, limit, offset)

    def search(self, text: str = "", limit: int = ROWS, offset: int = 0) -> Row:
        """Entities whose id or label holds a text, best first; if none does, those that look most like it.

        An empty text gives all, those with the most facts first. `near` says that what came is only like the text.
        """
        check_page(limit, offset)
        check_text(text, "What is searched for")
        names = self.kb.entities
        found, near = names.search(text, self._facts_of_entity), False
        if not len(found) and text.strip():
            found, near = np.array(names.closest(text, 5), np.int64), True
        return {**page(found, limit, offset, self._many_entities), "near": near}

    def _many_entities(self, numbers: Ints) -> list[Row]:
        return [self._entity(int(number)) | {"facts": int(self._facts_of_entity[number])} for number in numbers]

    def _entity(self, number: int) -> Row:
        return {"id": self.kb.entities[number], "label": self.kb.entities.label(number)}

    def _relation(self, number: int) -> Row:
        return {"id": self.kb.relations[number], "label": self.kb.relations.label(number)}

    def entity(self, name: str, limit: int = ROWS, offset: int = 0) -> Row:
        """An entity: its facts by date, and how many of each relation."""
        check_page(limit, offset)
        number = self._find(self.kb.entities, name, "entity")
        rows = self._by_date(self._facts.of_entity(number))
        relation, count = np.unique(self._facts.r[rows], return_counts=True)
        order = np.argsort(-count, kind="stable")
        counts = [self._relation(int(relation[at])) | {"facts": int(count[at])} for at in order[:FACETS]]
        return {**self._entity(number), **page(rows, limit, offset, self.facts_of), "relations": counts}

    def neighbours(self, name: str, limit: int = MOST_NEIGHBOURS) -> Row:
        """The entities that an entity has facts with, those with the most facts first, and the facts between them."""
        if not 1 <= limit <= MOST_NEIGHBOURS:
            raise InputError(f"{limit} neighbours cannot be given.", f"Give a number from 1 to {MOST_NEIGHBOURS}.")
        number = self._find(self.kb.entities, name, "entity")
        rows = self._facts.of_entity(number)
        other = np.where(self._facts.s[rows] == number, self._facts.o[rows], self._facts.s[rows])
        each, count = np.unique(other, return_counts=True)
        chosen = each[np.argsort(-count, kind="stable")][:limit]
        items = []
        for neighbour in chosen.tolist():
            between = self._by_date(rows[other == neighbour])
            items.append({**self._entity(neighbour), "facts": len(between), "first": self.facts_of(between[:1])[0]})
        return {"entity": self._entity(number), "total": len(each), "items": items}

    def facts(
        self,
        *,
        entity: str | None = None,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,
        at: str | None = None,
        limit: int = ROWS,
        offset: int = 0,
    ) -> Row:
        """The facts that are of an entity, a subject, a relation, an object, and that hold at a time, by date."""
        check_page(limit, offset)
        facts, mask = self._facts, None
        for name, column in ((subject, facts.s), (object, facts.o)):
            if name is not None:
                mask = both(mask, column == self._find(self.kb.entities, name, "entity"))
        if relation is not None:
            mask = both(mask, facts.r == self._find(self.kb.relations, relation, "relation"))
        if entity is not None:
            number = self._find(self.kb.entities, entity, "entity")
            mask = both(mask, (facts.s == number) | (facts.o == number))
        if at is not None:
            check_text(at, "A time")
            begin, end = self.asking.span(at)
            mask = both(mask, (facts.begin <= end) & (facts.end >= begin) & facts.dated)
        rows = self._by_date(np.arange(len(facts)) if mask is None else np.flatnonzero(mask))
        return page(rows, limit, offset, self.facts_of)

    def facts_of(self, rows: Sequence[int] | Ints) -> list[Row]:
        """Facts by their rows in `kb.facts`, as plain values.

        `row` names the fact in this KB; `first` and `last` are instants to draw by, None where an end is open;
        `suspicion` is None for what nothing is found against, or as long as nothing has been looked for.
        """
        facts, suspicion = self._facts, self._suspicion_of_rows()
        told = []
        for row in (int(each) for each in rows):
            begin, end = int(facts.begin[row]), int(facts.end[row])
            told.append(
                {
                    "row": row,
                    "subject": self._entity(int(facts.s[row])),
                    "relation": self._relation(int(facts.r[row])),
                    "object": self._entity(int(facts.o[row])),
                    "begin": self.kb.date(begin),
                    "end": self.kb.date(end),
                    "first": None if begin == spans.OPEN_BEGIN else begin,
                    "last": None if end == spans.OPEN_END else end,
                    "split": SPLITS[self._split[row]],
                    "text": self._words.fact(row),
                    "suspicion": suspicion.get(row),
                }
            )
        return told

    def _by_date(self, rows: Ints) -> Ints:
        """Rows in the order of their dates, those without one last."""
        return rows[np.argsort(self._place[rows])]

    def _find(self, names: Names, name: str, what: str) -> int:
        check_text(name, "A name")
        return names.find(name, what, in_part=True)

    def _suspicion_of_rows(self) -> Mapping[int, float]:
        """How suspicious facts are, by their rows; nothing as long as nothing has been looked for."""
        return {}


def both(mask: Bools | None, other: Bools) -> Bools:
    """Where two masks hold; None is no mask."""
    return other if mask is None else mask & other
