"""What the explorer answers, as plain values: one `Service` for pages, REST and agents.

Names are ids or labels, and an unknown one is an error that tells near ones. Every answer is bounded by the limits
below. A service may be asked by many threads at once: what waits together is answered together (`turns`).

>>> import timeplex
>>> from timeplex.serve.service import Service
>>> service = Service(timeplex.learn("sample"))
>>> service.search("kohl")["items"][0]["label"]
'Helmut Kohl'
"""

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import polars as pl

from timeplex.answers.learned import Learned
from timeplex.answers.rank import EntityQueries
from timeplex.answers.resolve import ANY_TIME, ELSEWHEN, when_table
from timeplex.answers.single import WhenAnswer
from timeplex.auditing.base import says
from timeplex.auditing.findings import Findings
from timeplex.errors import BusyError, InputError, Stopped, TimeplexError, UnknownNameError
from timeplex.kb import spans
from timeplex.models.scorer import Direction
from timeplex.patterns.base import TimeQueries
from timeplex.serve.asked import Question, Triple, joined
from timeplex.serve.findings_table import FindingsTable, counts, where_all
from timeplex.serve.holdings import Holdings
from timeplex.serve.limits import (
    BARS,
    DISCOVERIES,
    MOST_ANSWERS,
    MOST_EXPLAINED,
    MOST_IN_ALL,
    MOST_QUESTIONS,
    MOST_ROWS,
    OTHERS,
    REASONS,
    ROWS,
    Row,
    check_number,
    check_page,
    check_text,
    page,
)
from timeplex.serve.turns import OnceInBackground, Turns, seconds_left, still_time
from timeplex.typing import Ints, Progress

NEEDED = ("dates", "links")
"""What `Learned` learns: when, and who."""

Found = TypeVar("Found")


class Service(Holdings):
    """A KB, or a run, to be looked at and asked by many.

    `start` learns what is not learned yet in a thread of its own; what needs it waits, or is told to ask again.
    """

    def __init__(self, learned: Learned) -> None:
        super().__init__(learned)
        # Who and when do not wait for each other; nothing that they read is changed once it is learned.
        self._turns, self._dating, self._keeping = Turns(), Turns(), threading.Lock()
        self._stopping, self._step, self._learning = threading.Event(), threading.Condition(), False
        self._thread: threading.Thread | None = None
        self._progress: tuple[int, int | None] = (0, None)
        self._kept: dict[Any, OnceInBackground] = {}

    # Learning ----------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether questions about who and when are answered at once."""
        return all(each in vars(self.learned) for each in NEEDED)

    @property
    def progress(self) -> tuple[int, int | None]:
        """How far learning has come: steps done, of how many."""
        return self._progress

    def start(self, showing: Callable[[], AbstractContextManager[Progress | None]] = nullcontext) -> None:
        """Learn what is not learned yet, and find what is wrong, while others look at the KB already.

        Learning goes on inside of `showing`, which gives what is told of its progress. What fails is told to who asks.
        """

        def work() -> None:
            with suppress(Stopped, TimeplexError):
                if not self.ready:
                    with showing() as on_progress:
                        self._learn(on_progress)
                self.findings_found()
                self._baselines()

        self._thread = threading.Thread(target=work, name="timeplex-learning", daemon=True)
        self._thread.start()

    def close(self, wait: float = 10.0) -> None:
        """Stop learning, and wait for it to end."""
        self._stopping.set()
        for thread in (self._thread, *(each.thread for each in list(self._kept.values()))):
            if thread is not None:
                thread.join(wait)

    def _learn(self, on_progress: Progress | None = None) -> None:
        """Learn what is not learned yet, unless somebody does so already."""

        def tell(done: int, total: int | None) -> None:
            self._progress = done, total
            self._tell(done, total)
            if on_progress is not None:
                on_progress(done, total)

        with self._step:
            if self._learning:
                return
            self._learning = True
        try:
            self.learned.on_progress = tell
            for each in NEEDED:
                getattr(self.learned, each)
                with self._step:
                    self._step.notify_all()
        finally:
            with self._step:
                self._learning = False
                self._step.notify_all()

    def _tell(self, done: int, total: int | None) -> None:
        if self._stopping.is_set():
            raise Stopped

    def _learned(self, *needed: str) -> Learned:
        """What answers, once it has learned what is needed: `dates` tell when, `links` who; all if none is named."""
        needed = needed or NEEDED
        while not all(each in vars(self.learned) for each in needed):
            with self._step:
                if self._learning and not self._step.wait(seconds_left()):
                    done, total = self._progress
                    far = f" ({done:,} of {total:,} steps)" if total else ""
                    raise BusyError(f"The patterns of {self.kb.name} are being learned{far}.", retry_after=10)
                others_learn = self._learning
            if not others_learn:
                self._learn()
        return self.learned

    # Who and when ------------------------------------------------------------------------------------------------

    def rank(
        self, questions: Sequence[Question], *, k: int = 10, hide_known: bool = False, why: bool = False
    ) -> list[Row]:
        """The likeliest answers to each question, in their order; a question that cannot be asked has an `error`.

        question  subject, relation, object (what is asked for is None) and at, the span that was understood
        likely    the span in which it most likely held, where a time is asked for at which the KB states no answer
        answers   rank, id, label, probability (None for what is stated), known (spans, or None) and with `why` reasons
        company   the share of such facts that have company, if the KB states an answer for that time already
        """
        check_number(k, 1, MOST_ANSWERS, "answers")
        check_number(len(questions), 1, MOST_QUESTIONS, "questions")
        check_number(k * len(questions), 1, MOST_EXPLAINED if why else MOST_IN_ALL, "answers in all")
        learned, resolved, told = self._learned(), dict[int, EntityQueries](), dict[int, Row]()
        place: dict[Direction, list[int]] = {"object": [], "subject": []}
        for number, question in enumerate(questions):
            try:
                resolved[number] = self._question(question)
            except (InputError, UnknownNameError) as error:
                told[number] = {"error": str(error)}
            else:
                place[resolved[number].direction].append(number)
        for direction, numbers in place.items():
            if numbers:
                asked = joined(direction, [resolved[number] for number in numbers])
                answers = self._turns.ask((direction, k, hide_known), asked, self._ranked(k, hide_known=hide_known))
                told |= dict(zip(numbers, answers, strict=True))
        if why:
            for number in place["object"] + place["subject"]:
                self._tell_why(learned, resolved[number], told[number]["answers"])
        return [told[number] for number in range(len(questions))]

    def _question(self, question: Question) -> EntityQueries:
        still_time()
        for name in (question.subject, question.relation, question.object, question.at):
            if name is not None:
                check_text(name, "A name or a date")
        asked = {"subject": question.subject, "object": question.object}
        return self.asking.questions(relation=question.relation, at=question.at, **asked)

    def _ranked(self, k: int, *, hide_known: bool) -> Callable[[Sequence[EntityQueries]], list[list[Row]]]:
        """Answers many askers at once, each of whom may have several questions of one direction."""

        def answer(asked: Sequence[EntityQueries]) -> list[list[Row]]:
            together = joined(asked[0].direction, asked)
            frame = self.learned.ranked(together, k, hide_known=hide_known)
            answers: list[list[Row]] = [[] for _ in range(len(together))]
            for row in frame.iter_rows(named=True):
                query = row.pop("query")
                row["label"] = row.pop("entity")
                answers[query].append(row)
            meant = self.learned.meant(together)
            told = []
            for at, rows in enumerate(answers):
                one = slice(at, at + 1)
                told.append(self._told(together.rows(one), meant.rows(one), rows))
            starts = np.cumsum([0, *(len(each) for each in asked)])
            return [told[start:stop] for start, stop in itertools.pairwise(starts)]

        return answer

    def _told(self, asked: EntityQueries, meant: EntityQueries, answers: list[Row]) -> Row:
        given, relation = self._entity(int(asked.given[0])), self._relation(int(asked.r[0]))
        begin, end = int(asked.begin[0]), int(asked.end[0])
        stated = any(row["known"] and not row["known"].endswith(ELSEWHEN) for row in answers)
        likely = int(meant.begin[0]), int(meant.end[0])
        return {
            "question": {
                "subject": given if asked.direction == "object" else None,
                "relation": relation,
                "object": given if asked.direction == "subject" else None,
                "at": self.asking.span_text(begin, end),
                "first": begin,
                "last": end,
            },
            "likely": None if stated or likely == (begin, end) else self._spanned(*likely),
            "answers": answers,
            "company": float(self.learned.company.share[asked.direction][asked.r[0]]) if stated else None,
        }

    def _spanned(self, begin: int, end: int) -> Row:
        return {"text": self.asking.span_text(begin, end), "first": begin, "last": end}

    def _tell_why(self, learned: Learned, asked: EntityQueries, answers: list[Row]) -> None:
        still_time()
        numbers = [self.kb.entities.id(row["id"]) for row in answers]
        reasons = self._turns.alone(lambda: learned.ranking_reasons(learned.meant(asked), numbers))
        for row, why in zip(answers, reasons, strict=True):
            row["why"] = why

    def when(self, triples: Sequence[Triple], *, curve: bool = False, why: bool = False) -> list[Row]:
        """When facts held, if they did, in their order; one that cannot be asked has an `error`.

        begin, end, probability, low, high  as `Learned.when`
        known   what the KB states: {text, begin, end, first, last} each; the span is that of a further time then
        curve   with `curve`: {first, last, width, unit, probability: […], outside}, equal parts of the window about it
        why     with `why`: the facts that speak for the begin: {sentence, fact} each
        """
        check_number(len(triples), 1, MOST_QUESTIONS, "questions")
        learned, numbers, told = self._learned("dates"), list[tuple[int, int, int]](), dict[int, Row]()
        for number, triple in enumerate(triples):
            try:
                numbers.append(self._triple(triple))
            except (InputError, UnknownNameError) as error:
                told[number] = {"error": str(error)}
        places = [number for number in range(len(triples)) if number not in told]
        if places:
            columns = np.array(numbers, np.int64).reshape(-1, 3)
            told |= dict(zip(places, self._dating.ask("when", columns, self._dated), strict=True))
        if curve or why:
            for place, numbered in zip(places, numbers, strict=True):
                still_time()
                told[place] |= self._dating.alone(lambda numbered=numbered: self._curve(learned, numbered, curve, why))  # type: ignore[misc]
        return [told[number] for number in range(len(triples))]

    def _triple(self, triple: Triple) -> tuple[int, int, int]:
        still_time()
        for name in (triple.subject, triple.relation, triple.object):
            check_text(name, "A name")
        s, r, o = self.asking.triples(triple.subject, triple.relation, triple.object)
        return int(s[0]), int(r[0]), int(o[0])

    def _dated(self, asked: Sequence[Ints]) -> list[list[Row]]:
        """Answers many askers at once, each of whom may ask for several triples, (n, 3)."""
        s, r, o = np.concatenate(asked).T
        found = self.learned.dates.predict(TimeQueries(s, r, o))
        rows = when_table(self.kb, s, r, o, found).drop("subject", "relation", "object", "known").to_dicts()
        place, fact = self._facts.of_triples(s, r, o)
        known: dict[int, list[int]] = {}
        for at, row in zip(place.tolist(), fact.tolist(), strict=True):
            known.setdefault(at, []).append(row)
        for at, row in enumerate(rows):
            row["subject"], row["object"] = self._entity(int(s[at])), self._entity(int(o[at]))
            row["relation"] = self._relation(int(r[at]))
            row["first"], row["last"] = int(found.begin[at]), int(found.end[at])
            row["known"] = self._spans(known.get(at, []))
        starts = np.cumsum([0, *(len(each) for each in asked)])
        return [rows[start:stop] for start, stop in itertools.pairwise(starts)]

    def _spans(self, rows: list[int]) -> list[Row]:
        facts = self._by_date(np.array(rows, np.int64))[:MOST_ROWS]
        each = dict.fromkeys((int(self._facts.begin[row]), int(self._facts.end[row])) for row in facts)
        return [
            {
                "text": self._words.span(begin, end),
                "begin": self.kb.date(begin),
                "end": self.kb.date(end),
                "first": None if begin == spans.OPEN_BEGIN else begin,
                "last": None if end == spans.OPEN_END else end,
            }
            for begin, end in each
        ]

    def _curve(self, learned: Learned, triple: tuple[int, int, int], curve: bool, why: bool) -> Row:
        s, r, o = triple
        names = self.kb.entities[s], self.kb.relations[r], self.kb.entities[o]
        found, told = WhenAnswer(learned, *names), Row()
        if curve:
            bars, width = found.bars(BARS)
            low, high = found.window
            begin, end = found.edges
            told["curve"] = {
                "first": low,
                "last": high,
                "begin": begin,
                "end": end,
                "width": width,
                "unit": self.kb.granularity.value,
                "probability": bars,
                "outside": max(0.0, 1.0 - sum(bars)),
            }
        if why:
            evidence = found.evidence(REASONS)
            facts = self.facts_of(list(evidence))
            told["why"] = [
                {"sentence": said, "fact": fact} for said, fact in zip(evidence.values(), facts, strict=True)
            ]
        return told

    def explain(self, triple: Triple, at: str = ANY_TIME, of: Direction = "object") -> Row:
        """Why an answer is likely: what each pattern adds to its score, and the facts behind it."""
        learned = self._learned()
        s, r, o = self._triple(triple)
        check_text(at, "A time")
        names = self.kb.entities[s], self.kb.relations[r], self.kb.entities[o]
        found = self._turns.alone(lambda: learned.explain(*names, at=at, direction=of))
        return {
            "subject": self._entity(s),
            "relation": self._relation(r),
            "object": self._entity(o),
            "at": found.at,
            "of": of,
            "score": found.score,
            "probability": found.probability,
            "note": found.note,
            "parts": [{"name": part.name, "value": part.value} for part in found.parts],
            "reasons": [
                {"part": each.part, "sentence": each.sentence, "facts": self.facts_of(each.rows)}
                for each in found.reasons
            ],
        }

    def explain_all(self, triples: Sequence[Triple], ways: Sequence[tuple[str, Direction]]) -> list[Row]:
        """`explain` for many, each with its time and its direction; one that cannot be asked has an `error`."""
        check_number(len(triples), 1, MOST_QUESTIONS, "questions")
        told = []
        for triple, (at, of) in zip(triples, ways, strict=True):
            try:
                told.append(self.explain(triple, at, of))
            except (InputError, UnknownNameError) as error:
                told.append({"error": str(error)})
        return told

    def fill(self, rows: Sequence[Mapping[str, str | None]], *, min_probability: float = 0.0) -> list[Row]:
        """Rows with subject, relation, object, begin and end, None where one is missing, with what is predicted.

        object, begin, end (None where nothing is predicted), probability, still_going_on, reason.
        """
        check_number(len(rows), 1, MOST_QUESTIONS, "rows")
        for row in rows:
            for text in row.values():
                if text is not None:
                    check_text(text, "A name or a date")
        roles = ("subject", "relation", "object", "begin", "end")
        table = pl.DataFrame(
            [{role: row.get(role) for role in roles} for row in rows], schema=dict.fromkeys(roles, pl.String)
        )
        learned = self._learned()
        filled: pl.DataFrame = self._turns.alone(lambda: learned.fill(table, min_probability=min_probability))
        predicted = [pl.col(f"{role}_predicted").alias(role) for role in ("object", "begin", "end")]
        return filled.select(*predicted, "probability", "still_going_on", "reason").to_dicts()

    def discover(
        self, relations: Sequence[str] = (), *, min_probability: float = 0.1, limit: int = ROWS, offset: int = 0
    ) -> Row:
        """The likeliest facts that the KB does not state, best first; at most `MOST_ANSWERS` are there.

        The search takes from seconds to minutes, and is remembered; who waits too long for it is told to ask again.
        """
        check_page(limit, offset)
        if not 0 <= min_probability <= 1:
            raise InputError(f"{min_probability} is not a probability.", "Give a number from 0 to 1.")
        check_number(len(relations), 0, MOST_QUESTIONS, "relations")
        numbers = sorted({self._find(self.kb.relations, name, "relation") for name in relations})
        learned, names = self._learned(), [self.kb.relations[number] for number in numbers]

        def work() -> pl.DataFrame:
            return learned.discover(relation=names, min_probability=0.0, limit=MOST_ANSWERS, on_progress=self._tell)

        found = self._remembered(("discover", *numbers), work, f"Missing facts of {self.kb.name} are being looked for.")
        rows = found.filter(pl.col("probability") >= min_probability).to_dicts()
        return page(rows, limit, offset, self._proposals)

    def _proposals(self, rows: list[Row]) -> list[Row]:
        told = []
        for row in rows:
            s, r, o = self.kb.entities.id(row["subject"]), self.kb.relations.id(row["relation"]), row["object"]
            first, last = (None if row[side] is None else self.asking.span(row[side])[0] for side in ("begin", "end"))
            named = {"subject": self._entity(s), "relation": self._relation(r)}
            named["object"] = self._entity(self.kb.entities.id(o))
            told.append({**row, **named, "first": first, "last": last})
        return told

    # What is wrong -----------------------------------------------------------------------------------------------

    def findings_found(self) -> Findings:
        """The audit, made once."""

        def work() -> Findings:
            from timeplex.api import audit

            return audit(self.kb)

        return self._remembered("findings", work, f"What is wrong in {self.kb.name} is being looked for.")

    def findings(
        self,
        *,
        rule: str | None = None,
        relation: str | None = None,
        entity: str | None = None,
        min_severity: float = 0.0,
        at: str | None = None,
        limit: int = ROWS,
        offset: int = 0,
    ) -> Row:
        """What is probably wrong, most suspicious fact first, and how much of it there is by rule and relation.

        The counts of a facet are those with all other filters applied.
        """
        check_page(limit, offset)
        table = self._findings_table
        masks = {
            "severity": table.severity >= min_severity,
            "rule": np.ones(len(table), bool) if rule is None else table.rule == rule,
            "relation": np.ones(len(table), bool),
            "entity": np.ones(len(table), bool),
            "at": np.ones(len(table), bool),
        }
        facts = self._facts
        if relation is not None:
            masks["relation"] = facts.r[table.rows] == self._find(self.kb.relations, relation, "relation")
        if entity is not None:
            number = self._find(self.kb.entities, entity, "entity")
            masks["entity"] = (facts.s[table.rows] == number) | (facts.o[table.rows] == number)
        if at is not None:
            check_text(at, "A time")
            begin, end = self.asking.span(at)
            masks["at"] = (facts.begin[table.rows] <= end) & (facts.end[table.rows] >= begin)
        found = np.flatnonzero(where_all(masks))
        by_rule = table.rule[where_all(masks, "rule")]
        by_relation = facts.r[table.rows[where_all(masks, "relation")]]
        facets = {
            "rule": [{"id": name, "says": says(name), "findings": count} for name, count in counts(by_rule)],
            "relation": [self._relation(number) | {"findings": count} for number, count in counts(by_relation)],
        }
        notes = list(table.findings.notes)
        shown = page(found, limit, offset, self._many_findings)
        return {**shown, "suspicious": len(np.unique(table.rows[found])), "facets": facets, "notes": notes}

    def finding(self, number: int) -> Row:
        """A finding by its number in the whole list."""
        if not 0 <= number < len(self._findings_table):
            raise UnknownNameError(f"There is no finding {number:,}.", f"There are {len(self._findings_table):,}.")
        return self._many_findings(np.array([number]))[0]

    @property
    def _findings_table(self) -> "FindingsTable":
        findings = self.findings_found()
        with self._keeping:
            if "table" not in self.__dict__:
                self.__dict__["table"] = FindingsTable(findings)
            table: FindingsTable = self.__dict__["table"]
            return table

    def _many_findings(self, numbers: Ints) -> list[Row]:
        table = self._findings_table
        told = []
        for number in numbers.tolist():
            row = table.findings.frame.row(number, named=True)
            kept = ("rank", "suspicion", "severity", "rule", "message", "support", "confidence", "suggestion", "cause")
            told.append(
                {
                    "number": number,
                    **{name: row[name] for name in kept},
                    "says": says(row["rule"]),
                    "file": None if row["file"] is None else row["file"].replace("\\", "/").rpartition("/")[2],
                    "line": row["line"],
                    "fact": self.facts_of([int(table.rows[number])])[0],
                    "others": self.facts_of(table.others(number)[:OTHERS]),
                }
            )
        return told

    def _suspicion_of_rows(self) -> Mapping[int, float]:
        kept = self._kept.get("findings")
        return self._findings_table.suspicion if kept is not None and kept.done else {}

    # How good it is ----------------------------------------------------------------------------------------------

    def model(self) -> Row:
        """The model card: what answers, how good it is on dev, beside baselines, and what was calibrated."""
        card: Row = {"model": self.model_name, "kb": self.kb.name, "ready": self.ready, "run": None, "dev": None}
        card |= {"protocol": None, "training": None, "baselines": None, "calibration": None, "notes": []}
        if self.run is not None:
            card |= self._run_card
        kept = self._kept.get("baselines")
        if kept is not None and kept.done and kept.error is None:
            card["baselines"], card["protocol"] = kept.value, card["protocol"] or str(self._protocol)
        if self.ready:
            parts: dict[str, Any] = {"rank": self.learned.links, "when": self.learned.dates}
            card["calibration"] = {name: {"facts": of.cases, "measured": of.measured} for name, of in parts.items()}
            card["notes"] = [self.learned.note("rank"), self.learned.note("when")]
        return card

    @cached_property
    def _run_card(self) -> Row:
        run = self.run.run  # type: ignore[union-attr]
        from timeplex.training.run import RunFolder

        metrics = RunFolder(run.path).metrics()
        dev = metrics.get("phase2", metrics).get("dev")
        told = ("best_epoch", "epochs", "seconds", "parameters", "precision")
        training = {name: metrics[name] for name in told if name in metrics}
        return {"run": run.path.name, "dev": dev, "protocol": str(self._protocol), "training": training}

    @cached_property
    def _protocol(self) -> Any:
        from timeplex.evaluation.protocol import PAPER, PROTOCOLS
        from timeplex.training.run import RunFolder

        if self.run is None:
            return PAPER
        return PROTOCOLS.get(RunFolder(self.run.run.path).metrics().get("protocol", ""), PAPER)

    def _baselines(self) -> Any:
        """The dev figures of what a model must beat, by the protocol of the run; None without dev facts."""

        def work() -> Any:
            from timeplex.evaluation.report import evaluate_baselines, link_task

            if not len(self.kb.valid):
                return None
            task = link_task(self.kb, "valid", self.learned.timeline, self._protocol, None)
            return evaluate_baselines(task, "valid").as_dict()["baselines"]

        return self._remembered("baselines", work, "Baselines are being measured.")

    # What is made once -------------------------------------------------------------------------------------------

    def _remembered(self, key: Any, work: Callable[[], Found], doing: str) -> Found:
        """What `work` gives, which is done once, in a thread of its own, for all who ask for it.

        Who cannot wait so long is told to ask again; an error is told once, and the next one tries again.
        """
        with self._keeping:
            kept = self._kept.get(key)
            if kept is None:
                if isinstance(key, tuple):
                    self._make_room()
                kept = self._kept[key] = OnceInBackground(work)
        if not kept.finished.wait(seconds_left()):
            raise BusyError(doing, retry_after=10)
        if kept.error is not None:
            with self._keeping:
                self._kept.pop(key, None)
            raise kept.error
        value: Found = kept.value
        return value

    def _make_room(self) -> None:
        """Forget the oldest search, and let no second one begin while one goes on."""
        searches = [key for key in self._kept if isinstance(key, tuple)]
        if any(not self._kept[key].done for key in searches):
            raise BusyError("Another search for missing facts goes on.", retry_after=10)
        if len(searches) >= DISCOVERIES:
            del self._kept[searches[0]]
