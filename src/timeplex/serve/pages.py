"""The pages: every one has an address that holds its state, and the same as JSON and CSV beside it (`.json`, `.csv`).

They work without JavaScript; what the scripts in static/ add is comfort. Texts of anyone's making are written by the
templates alone, which escape all and make visible what would act on a screen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from timeplex import drawing
from timeplex.decisions import quickstatements
from timeplex.decisions.applying import Applied
from timeplex.decisions.applying import apply as carry_out
from timeplex.decisions.journal import Decisions, Kind, Stated, instants_of
from timeplex.drawing import Bar
from timeplex.errors import BusyError, InputError
from timeplex.files import to_json
from timeplex.kb import spans
from timeplex.models.scorer import Direction
from timeplex.serve.asked import Question, Triple
from timeplex.serve.limits import MOST_ROWS
from timeplex.serve.pictures import Pictures
from timeplex.serve.rendering import KIND_NAMES, Row, csv_of, drawn, environment, favicon, link, number_of, static
from timeplex.serve.review import KINDS, Item, Review
from timeplex.serve.service import Service
from timeplex.serve.turns import time_limit
from timeplex.text import counted, span, visible

HTML, JSON, CSV = "", ".json", ".csv"
FORMS = (HTML, JSON, CSV)
ON_PAGE = 60
"""Facts of an entity on a page."""
FINDINGS_ON_PAGE = 20
ANSWERS = 10
MOST_ON_AXIS = 40
"""Facts of evidence on one axis."""
MOST_DECADES = 30
SOON, PATIENCE = 0.2, 3.0
"""Seconds that a page waits for what is not needed to make it, and for what it is about."""


def routes(service: Service, decisions: Decisions | str | Path | None = None) -> APIRouter:
    """The routes of all pages, over a service; without decisions, or a file for them, the queue can only be read."""
    router = APIRouter(include_in_schema=False)
    opened = decisions if isinstance(decisions, Decisions) else Decisions(service.kb, decisions)
    pages = Pages(service, Review(service, opened))
    plain: dict[str, Callable[[Mapping[str, str]], tuple[str, Row, list[Row]]]] = {
        "/index": pages.home,
        "/search": pages.search,
        "/entity": pages.entity,
        "/who": pages.who,
        "/when": pages.when,
        "/findings": pages.findings,
        "/review": pages.review,
        "/decisions": pages.decided,
    }
    for path, page in plain.items():
        for form in FORMS:
            router.add_api_route(path + form, _route(pages, page, form), methods=["GET"])
    router.add_api_route("/", _route(pages, pages.home, HTML), methods=["GET"])
    router.add_api_route("/review", _posted(pages), methods=["POST"])
    router.add_api_route("/decisions/quickstatements.txt", _commands(pages), methods=["GET"])
    router.add_api_route("/static/{name}", static, methods=["GET"])
    router.add_api_route("/favicon.ico", favicon, methods=["GET"])
    return router


def _route(pages: "Pages", page: Callable[[Mapping[str, str]], Any], form: str) -> Callable[[Request], Any]:
    def answer(asked: Mapping[str, str]) -> Response:
        name, shown, table = page(asked)
        if "to" in shown and form == HTML:
            return RedirectResponse(shown["to"], 303)
        if form == JSON:
            shown = {key: value for key, value in shown.items() if key in shown.get("json", ())}
            return Response(to_json(shown, ensure_ascii=False, default=str), media_type="application/json")
        if form == CSV:
            return Response(csv_of(table), media_type="text/csv; charset=utf-8")
        return HTMLResponse(pages.render(name, shown, asked))

    async def handle(request: Request) -> Response:
        return await run_in_threadpool(answer, dict(request.query_params))

    return handle


def _posted(pages: "Pages") -> Callable[[Request], Any]:
    async def handle(request: Request) -> Response:
        body = (await request.body()).decode(errors="replace")
        try:
            form = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=20))
        except ValueError as error:
            raise InputError("The form has too many fields.", "Use the buttons of the page.") from error
        return await run_in_threadpool(pages.decide, form)

    return handle


def _commands(pages: "Pages") -> Callable[[Request], Any]:
    async def handle(request: Request) -> Response:
        found = await run_in_threadpool(lambda: quickstatements.commands(pages.applied()))
        text = "".join(f"{line}\n" for line in found.lines)
        return Response(text, media_type="text/plain; charset=utf-8")

    return handle


# The pages ------------------------------------------------------------------------------------------------------------


class Pages:
    """What each page shows: a template, what it is given (`json` names what of it is for programs), and a table."""

    def __init__(self, service: Service, review: Review) -> None:
        self.service, self.kb, self.queue = service, service.kb, review
        self.decisions, self.pictures = review.decisions, Pictures(service)

    def render(self, name: str, shown: Row, asked: Mapping[str, str]) -> str:
        """A page as HTML."""
        path = name.removesuffix(".html")
        alternative = {"alt": f"/{path}", "query": urlencode(asked, quote_via=quote)}
        common = {
            "kb_name": self.kb.name,
            "here": path,
            "learning": not self.service.ready,
            "progress": self.service.progress,
            "unit": self.kb.granularity.value,
            "relations": self._relation_names(),
        }
        return environment().get_template(name).render(**{**common, **alternative, **shown})

    def _relation_names(self) -> list[Row]:
        found: list[Row] = self.service.relations(limit=MOST_ROWS)["items"]
        return found

    # Home and search ----------------------------------------------------------------------------------------------

    def home(self, asked: Mapping[str, str]) -> tuple[str, Row, list[Row]]:
        """What the KB holds, and how good what answers is."""
        about, model = self.service.about(), self.service.model()
        relations = self._relation_names()
        some = self.service.search("", limit=12)["items"]
        columns = [
            (each["first"], each["facts"], f"{span(each['first'], each['last'])}: {counted(each['facts'], 'fact')}")
            for each in about["histogram"]
        ]
        shown = {
            "json": ("about", "model", "relations"),
            "title": self.kb.name,
            "about": about,
            "model": model,
            "relations": relations,
            "some": some,
            "columns": drawn(drawing.columns(columns, f"Facts of {self.kb.name} over time")),
            "histogram": columns,
            "figures": _figures(model),
            "calibration": _calibration(model),
            "findings": self._findings_known(),
            "writable": self.decisions.writable,
        }
        return "index.html", shown, relations

    def _proposals_known(self) -> bool:
        """Whether missing facts have been found; if nobody has looked for them, somebody does now."""
        try:
            with time_limit(PATIENCE):
                self.queue.proposals()
        except BusyError:
            return False
        return True

    def _findings_known(self) -> int | None:
        """How many facts are suspicious, if that is known already."""
        try:
            with time_limit(SOON):
                return self.service.findings_found().suspicious
        except BusyError:
            return None

    def search(self, asked: Mapping[str, str]) -> tuple[str, Row, list[Row]]:
        """Entities by a part of their name; who writes a whole name is led to it."""
        text, offset = asked.get("q", ""), number_of(asked, "offset", 0)
        found = self.service.search(text, limit=number_of(asked, "limit", 50, 200) or 1, offset=offset)
        for each in found["items"]:
            each["shown"] = visible(each["label"])
        shown = {"json": ("q", "found"), "title": f"Search: {text}", "q": text, "found": found}
        same = [each for each in found["items"] if text.casefold() in (each["id"].casefold(), each["label"].casefold())]
        if len(same) == 1 and not offset and text:
            shown["to"] = link("/entity", id=same[0]["id"])
        return "search.html", shown, found["items"]

    # Entity -------------------------------------------------------------------------------------------------------

    def entity(self, asked: Mapping[str, str]) -> tuple[str, Row, list[Row]]:
        """An entity: its facts on a timeline, its neighbours."""
        name, offset = asked.get("id", ""), number_of(asked, "offset", 0)
        begin, end, relation = asked.get("from", ""), asked.get("to", ""), asked.get("relation") or None
        whole = self.service.entity(name, limit=MOST_ROWS)
        me = {"id": whole["id"], "label": whole["label"]}
        self._suspected()
        at = f"{begin}..{end}" if begin or end else None
        found = self.service.facts(entity=me["id"], relation=relation, at=at, limit=ON_PAGE, offset=offset)
        window = self._window(begin, end)
        proposed = self._proposed(me["id"], found["items"], asked) if asked.get("proposals") else []
        axis = self.pictures.axis([*found["items"], *proposed], window)
        near = self.service.neighbours(me["id"])
        shown = {
            "json": ("entity", "facts", "proposed", "neighbours", "relations_here"),
            "title": me["label"],
            "entity": me,
            "facts": found,
            "proposed": proposed,
            "neighbours": near,
            "relations_here": whole["relations"],
            "total": whole["total"],
            "asked": dict(asked),
            "decades": self.pictures.decades(whole["items"]),
            "tracks": self.pictures.tracks([*found["items"], *proposed], axis, f"Facts of {me['label']}", me["id"]),
            "graph": self.pictures.graph(me, near),
        }
        return "entity.html", shown, [_flat(each) for each in found["items"]]

    def _suspected(self) -> None:
        """Let suspicions be found before facts are told, if that is quick."""
        if self._findings_known() is not None:
            self.service.finding(0) if self.service.findings_found().frame.height else None

    def _window(self, begin: str, end: str) -> tuple[int, int] | None:
        if not begin and not end:
            return None
        low, high = self.service.asking.span(f"{begin}..{end}")
        return low, high

    def _proposed(self, me: str, facts: Sequence[Row], asked: Mapping[str, str]) -> list[Row]:
        """What the patterns would add: dates that are missing in the facts, and facts that were found to be missing."""
        holes = [fact for fact in facts if fact["first"] is None or fact["last"] is None][:MOST_ON_AXIS]
        rows = [
            {name: fact[name]["id"] for name in ("subject", "relation", "object")}
            | {side: fact[side] for side in ("begin", "end")}
            for fact in holes
        ]
        told = self.service.fill(rows) if rows else []
        made = []
        for fact, filled in zip(holes, told, strict=True):
            begin, end = fact["begin"] or filled["begin"], fact["end"] or filled["end"]
            if (begin, end) != (fact["begin"], fact["end"]):
                made.append(self._as_proposal(fact, begin, end, filled["probability"], filled["reason"]))
        mine = [row for row in self.queue.found_proposals or [] if me in (row["subject"]["id"], row["object"]["id"])]
        made += [
            self._as_proposal(row, row["begin"], row["end"], row["probability"], row["reason"])
            for row in mine[:MOST_ON_AXIS]
        ]
        return made

    def _as_proposal(
        self, fact: Row, begin: str | None, end: str | None, probability: float | None, reason: str | None
    ) -> Row:
        first, last = (instants_of([date], self.kb, side)[0] for date, side in ((begin, "begin"), (end, "end")))
        return {
            **{name: fact[name] for name in ("subject", "relation", "object")},
            "begin": begin,
            "end": end,
            "first": None if first == spans.OPEN_BEGIN else first,
            "last": None if last == spans.OPEN_END else last,
            "suspicion": None,
            "row": None,
            "probability": probability,
            "reason": reason,
            "proposed": True,
        }

    # Who and when -------------------------------------------------------------------------------------------------

    def who(self, asked: Mapping[str, str]) -> tuple[str, Row, list[Row]]:
        """Who stands in a relation at a time: candidates, and the evidence for one of them on one axis."""
        given = {name: asked.get(name, "").strip() for name in ("subject", "relation", "object", "at")}
        k = number_of(asked, "k", ANSWERS, 100) or 1
        shown: Row = {
            "json": ("question", "likely", "answers", "company", "error", "explained"),
            "title": "Who?",
            "given": given,
            "k": k,
            "hide_known": bool(asked.get("hide_known")),
            "asked": dict(asked),
            "error": None,
            "answers": None,
        }
        if not (given["relation"] and (given["subject"] or given["object"])):
            return "who.html", shown, []
        if given["subject"] and given["object"]:
            shown["error"] = "Both a subject and an object are given. Leave out the one that you ask for."
            return "who.html", shown, []
        question = Question(
            given["relation"], given["subject"] or None, given["object"] or None, given["at"].strip() or ".."
        )
        (told,) = self.service.rank([question], k=k, hide_known=shown["hide_known"], why=True)
        shown |= told
        if "answers" not in told:
            return "who.html", shown, []
        shown["note"] = self.service.learned.note("rank")
        shown["title"] = self._question_text(told["question"])
        shown |= self._explained(told, asked)
        return "who.html", shown, [{**each, "why": "; ".join(each["why"])} for each in told["answers"]]

    def _question_text(self, question: Row) -> str:
        sides = [question[name]["label"] if question[name] else "?" for name in ("subject", "relation", "object")]
        return f"{' '.join(sides)}, {question['at']}"

    def _explained(self, told: Row, asked: Mapping[str, str]) -> Row:
        """The evidence for the answer that is looked at: the one that was chosen, else the first that is new."""
        answers = told["answers"]
        if not answers:
            return {"explained": None}
        new = [each for each in answers if each["probability"] is not None]
        wanted = asked.get("of", "") or (new or answers)[0]["id"]
        of: Direction = "object" if told["question"]["object"] is None else "subject"
        given = {name: told["question"][name]["id"] for name in ("subject", "object") if told["question"][name]}
        triple = Triple(**{**given, of: wanted}, relation=told["question"]["relation"]["id"])
        found = self.service.explain(triple, at=asked.get("at", "").strip() or "..", of=of)
        facts = {fact["row"]: fact for reason in found["reasons"] for fact in reason["facts"]}
        some = list(facts.values())[:MOST_ON_AXIS]
        question = told["question"]
        label = self._question_text({**question, of: found[of]})
        whole = self.service.asking.timeline
        covers_all = question["first"] <= whole.first and question["last"] >= whole.last
        span = told["likely"] or {"text": question["at"], "first": question["first"], "last": question["last"]}
        bar = Bar(drawing.escape(label), span["first"], span["last"], span["text"], "asked")
        times = [] if covers_all else [span]
        axis = self.pictures.axis([*some, *times])
        picture = self.pictures.tracks(some, axis, f"Evidence: {label}", "", [] if covers_all else [bar])
        found["facts"] = some
        found["most"] = max((abs(part["value"]) for part in found["parts"]), default=1.0) or 1.0
        return {"explained": found, "evidence": picture}

    def when(self, asked: Mapping[str, str]) -> tuple[str, Row, list[Row]]:
        """When a fact held: the curve, the span, the interval, what is stated, and the evidence."""
        given = {name: asked.get(name, "").strip() for name in ("subject", "relation", "object")}
        shown: Row = {
            "json": ("answer", "error"),
            "title": "When?",
            "given": given,
            "asked": dict(asked),
            "error": None,
            "answer": None,
        }
        if not all(given.values()):
            return "when.html", shown, []
        (told,) = self.service.when([Triple(**given)], curve=True, why=True)
        if "error" in told:
            return "when.html", shown | told, []
        labels = [told[name]["label"] for name in ("subject", "relation", "object")]
        shown |= {"answer": told, "title": " ".join(labels), "note": self.service.learned.note("when")}
        shown |= self.pictures.curve(told)
        row = {name: told[name]["id"] for name in ("subject", "relation", "object")}
        row |= {name: told[name] for name in ("begin", "end", "probability", "low", "high")}
        return "when.html", shown, [row | {"known": ", ".join(each["text"] for each in told["known"])}]

    # What is wrong ------------------------------------------------------------------------------------------------

    def findings(self, asked: Mapping[str, str]) -> tuple[str, Row, list[Row]]:
        """What is probably wrong, with facets."""
        offset, severity = number_of(asked, "offset", 0), number_of(asked, "severity", 0, 100)
        found = self.service.findings(
            rule=asked.get("rule") or None,
            relation=asked.get("relation") or None,
            entity=asked.get("entity") or None,
            min_severity=severity / 100,
            at=asked.get("at", "").strip() or None,
            limit=number_of(asked, "limit", FINDINGS_ON_PAGE, MOST_ROWS) or 1,
            offset=offset,
        )
        pictures = []
        for each in found["items"]:
            facts = [each["fact"] | {"kind": "suspicious"}, *(fact | {"kind": "known"} for fact in each["others"])]
            pictures.append(self.pictures.tracks(facts, self.pictures.axis(facts), each["message"]))
            decided = self.queue.decision("finding", each["fact"]["row"])
            each["decision"] = None if decided is None else asdict(decided)
        shown = {
            "json": ("found",),
            "title": "Findings",
            "found": found,
            "pictures": pictures,
            "asked": dict(asked),
            "severity": severity,
        }
        table = [{**_flat(each["fact"]), **{name: each[name] for name in _TOLD}} for each in found["items"]]
        return "findings.html", shown, table

    # The queue ----------------------------------------------------------------------------------------------------

    def review(self, asked: Mapping[str, str]) -> tuple[str, Row, list[Row]]:
        """One item of the queue after the other."""
        kind: Kind = next((each for each in KINDS if each == asked.get("kind")), "finding")
        number: int | None
        searching = kind == "proposal" and not self._proposals_known()
        if searching:
            number = None
        elif asked.get("item"):
            number = number_of(asked, "item", 0)
        else:
            number = self.queue.next(kind, number_of(asked, "after", 0) if asked.get("after") else None)
        shown: Row = {
            "json": ("kind", "left", "searching", "item_json", "counts"),
            "kind": kind,
            "kinds": KINDS,
            "searching": searching,
            "left": None if searching else self.queue.left(kind),
            "size": 0 if searching else len(self.queue.numbers(kind)),
            "counts": self.decisions.counts(),
            "writable": self.decisions.writable,
            "torn": self.decisions.torn,
            "last": self.decisions.last,
            "item": None,
            "item_json": None,
            "decision": None,
            "title": f"Review: {KIND_NAMES[kind]}",
            "asked": dict(asked),
            "labels": self._labels,
        }
        if number is None:
            return "review.html", shown, []
        item = self.queue.item(kind, number)
        before, after, place = self.queue.beside(kind, number)
        shown |= {
            "item": item,
            "item_json": asdict(item),
            "before": before,
            "after": after,
            "place": place,
            "decision": self.decisions.of(kind, item.fact),
            "picture": self.pictures.item(item),
            "dates": self._dates_of(item),
            "title": f"Review: {self._labels(item.fact)}",
        }
        row = {"kind": kind, "number": number, **asdict(item.fact), "probability": item.probability}
        return "review.html", shown, [row | {"why": "; ".join(each["message"] for each in item.why)}]

    def _labels(self, fact: Stated, part: str = "") -> str:
        """A fact in the words that people read, or one part of it."""
        entities, relations = self.kb.entities.labels, self.kb.relations.labels
        named = {name: entities.get(getattr(fact, name), getattr(fact, name)) for name in ("subject", "object")}
        named["relation"] = relations.get(fact.relation, fact.relation)
        whole = f"{named['subject']} {named['relation']} {named['object']} ({span(fact.begin, fact.end)})"
        return named[part] if part else whole

    def _dates_of(self, item: Item) -> tuple[str, str]:
        """What the form for other dates begins with: the first way that changes them, else those that there are."""
        ways = [way.new for way in item.ways if way.new is not None and way.action == "change"]
        ways = [new for new in ways if new.object == item.fact.object]
        shown = ways[0] if ways else item.fact
        return shown.begin or "", shown.end or ""

    def decide(self, form: Mapping[str, str]) -> Response:
        """Take a decision and go on to the next item."""
        kind = form.get("kind", "finding")
        if form.get("do") == "undo":
            undone = self.decisions.undo()
            if undone is None:
                raise InputError("There is nothing to undo.", "")
            number = self._number_of(undone.kind, undone.fact)
            return RedirectResponse(link("/review", kind=undone.kind, item=number), 303)
        number = number_of(form, "item", 0)
        self.queue.decide(kind, number, form.get("key", ""), dict(form))
        return RedirectResponse(link("/review", kind=kind, after=number), 303)

    def _number_of(self, kind: Kind, fact: Stated) -> int | None:
        """Where in the queue a fact is; None if it is not there any more."""
        return next((number for number in self.queue.numbers(kind) if self.queue.fact_of(kind, number) == fact), None)

    def applied(self) -> Applied:
        """What the decisions would make of the KB."""
        return carry_out(self.kb, list(self.decisions.current.values()))

    def decided(self, asked: Mapping[str, str]) -> tuple[str, Row, list[Row]]:
        """All that is decided, and what applying it would do."""
        done = self.applied()
        rows = [
            {
                "at": each.at,
                "kind": each.kind,
                "verdict": each.verdict,
                "action": each.action or None,
                **asdict(each.fact),
                **{f"new_{name}": value for name, value in (asdict(each.new) if each.new else _NONE).items()},
                "why": each.why,
                "note": each.note,
            }
            for each in reversed(self.decisions.current.values())
        ]
        outcomes = ("changed", "merged", "removed", "added", "conflict")
        shown = {
            "json": ("decisions", "outcome", "conflicts"),
            "title": "Decisions",
            "decisions": rows,
            "current": list(reversed(self.decisions.current.values()))[:MOST_ROWS],
            "labels": self._labels,
            "outcome": {name: done.count(name) for name in outcomes} | {"facts": len(done.kb), "before": len(self.kb)},
            "conflicts": done.conflicts,
            "commands": len(quickstatements.commands(done).lines),
            "writable": self.decisions.writable,
            "file": None if self.decisions.path is None else self.decisions.path.name,
            "counts": self.decisions.counts(),
        }
        return "decisions.html", shown, rows


_TOLD = ("rule", "severity", "suspicion", "message", "suggestion", "file", "line")
_NONE: dict[str, str | None] = dict.fromkeys(("subject", "relation", "object", "begin", "end"))


def _figures(model: Row) -> list[Row]:
    """The run and the baselines beside it: MRR and HITS on dev."""
    made = [] if not model["dev"] else [{"name": model["model"], "baseline": False, **model["dev"]}]
    for name, filters in (model["baselines"] or {}).items():
        first: Row = next(iter(filters.values()), {})
        made.append({"name": name, "baseline": True, **first.get("both", {})})
    return [each for each in made if {"mrr", "hits@1", "hits@10"} <= each.keys()]


def _calibration(model: Row) -> list[Row]:
    """By how much the probabilities of each question are off, on facts that were asked for."""
    names = {"rank@1": "who: the first answer", "top 10": "who: the first ten", "span overlaps gold": "when"}
    made = []
    for part in (model["calibration"] or {}).values():
        for name, told in part["measured"].items():
            if {"after", "right", "cases"} <= told.keys():
                made.append({"name": names.get(name, name), **told, "cases": int(told["cases"])})
    return made


def _flat(fact: Row) -> Row:
    """A fact as a row of a table."""
    named = {name: fact[name]["id"] for name in ("subject", "relation", "object")}
    return named | {name: fact[name] for name in ("begin", "end", "split", "suspicion") if name in fact}
