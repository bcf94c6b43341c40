"""Tools for language-model agents (Model Context Protocol): the functions of `Service`, read-only, with short answers.

An answer has at most `MOST` rows and about `LETTERS` letters of JSON, so that it never floods who reads it; what was
left out is said as `left_out`. What cannot be asked is said in a sentence that tells how to go on.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, Literal

from anyio import CapacityLimiter, to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import Field
from starlette.types import Receive, Scope, Send

from timeplex import __version__
from timeplex.errors import TimeplexError, UnknownNameError
from timeplex.files import to_json
from timeplex.serve.asked import Question, Triple
from timeplex.serve.limits import LONGEST_NAME, Row
from timeplex.serve.service import Service
from timeplex.serve.turns import time_limit
from timeplex.text import visible

MOST = 50
"""Rows in an answer."""
FEW = 10
"""Rows if one does not say."""
LETTERS = 24_000
"""Of an answer as JSON, about."""
LONGEST = 400
"""Letters of a text in an answer."""
SECONDS = 25.0
"""For an answer."""
AT_ONCE = 16
"""So many tools work at the same time."""

ABOUT = """Facts with time spans: {facts:,} facts of {entities:,} entities and {relations:,} relations, \
{first} to {last}. Relations: {names}. Search an entity first if you are not sure of its name. \
A probability says how often such answers are right; `known` is what the knowledge base itself states. \
Times are written 2000, 2000-05, 2000..2003 or 2000.. ."""

Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Number = Annotated[int, Field(ge=1, le=MOST)]


def server(service: Service) -> MCPServer[Any]:
    """An MCP server with the tools of a service."""
    made: MCPServer[Any] = MCPServer("timeplex", version=__version__, instructions=_about(service), log_level="ERROR")
    limiter = CapacityLimiter(AT_ONCE)
    read_only = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    for tool in _tools(service, limiter):
        made.add_tool(tool, description=inspect.cleandoc(tool.__doc__ or ""), annotations=read_only)
    return made


class Mounted:
    """The server as an application for /mcp, which answers while it is `running`.

    Each request stands for itself and is answered by JSON, so that nobody keeps a connection, or a session, open. Names
    of hosts are checked by `safety.Guard`.
    """

    def __init__(self, made: MCPServer[Any]) -> None:
        self._made = made

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """As long as the application lives; it may do so again."""
        unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._made.streamable_http_app(stateless_http=True, json_response=True, transport_security=unchecked)
        async with self._made.session_manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._made.session_manager.handle_request(scope, receive, send)


def _about(service: Service) -> str:
    about, names = service.about(), [_short(row["label"]) for row in service.relations(MOST)["items"]]
    return ABOUT.format(**about, names=", ".join(names))


def _tools(service: Service, limiter: CapacityLimiter) -> "list[Callable[..., Awaitable[Row]]]":
    async def ask(work: Callable[..., Row], *given: Any, **named: Any) -> Row:
        """What a function of the service answers, in a thread, in time, and not too long."""

        def timed() -> Row:
            with time_limit(SECONDS):
                return work(*given, **named)

        try:
            return bounded(await to_thread.run_sync(timed, limiter=limiter))
        except UnknownNameError as error:
            raise ToolError(f"{_short(str(error))} Find the right name with search_entity.") from None
        except TimeplexError as error:
            raise ToolError(_short(str(error))) from None

    async def search_entity(text: Name, limit: Number = FEW) -> Row:
        """Find entities by a part of their name or id, best first.

        If nothing holds the text, entities with similar names come, and `near` is true. Use the `id` in other tools.
        """
        return await ask(service.search, text, limit)

    async def facts_at(
        entity: Name,
        at: Annotated[Name | None, Field(description="2000, 2000-05, 2000..2003")] = None,
        relation: Name | None = None,
        limit: Number = FEW,
    ) -> Row:
        """The facts that the knowledge base states about an entity, by date; if a time is given, those that hold then.

        Look here before you ask for predictions. `suspicion` is how likely a fact is wrong, if anything is against it.
        """
        return await ask(partial(_facts, service), entity=entity, at=at, relation=relation, limit=limit)

    async def rank(
        relation: Name,
        subject: Name | None = None,
        object: Name | None = None,
        at: Name = "..",
        k: Number = FEW,
        hide_known: bool = False,
    ) -> Row:
        """Who or what stands in a relation at a time? Give the relation and either the subject or the object.

        What the knowledge base states for that time comes first, with `known` and no probability; then predictions with
        the probability that they are right and the facts that speak for them.
        """
        question = Question(relation, subject, object, at)
        return await ask(partial(_one, service.rank, [question], k=k, hide_known=hide_known, why=True))

    async def when(subject: Name, relation: Name, object: Name) -> Row:
        """When did a fact hold? The likeliest span, the probability that it overlaps the true one, and reasons.

        The begin lies from `low` to `high` in 80 % of all cases. If the knowledge base states the fact, `known` has its
        spans; the predicted one is then that of a further time.
        """
        return await ask(partial(_dated, service), Triple(subject, relation, object))

    async def explain(
        subject: Name,
        relation: Name,
        object: Name,
        at: Name = "..",
        of: Literal["object", "subject"] = "object",
    ) -> Row:
        """Why is the object (or the subject) a likely answer at a time? What adds to its score, and which facts."""
        return await ask(partial(_explained, service), Triple(subject, relation, object), at, of)

    async def findings(
        relation: Name | None = None,
        entity: Name | None = None,
        rule: Name | None = None,
        at: Name | None = None,
        limit: Number = FEW,
    ) -> Row:
        """Facts of the knowledge base that are probably wrong, most suspicious first, with the reason and a repair."""
        return await ask(partial(_findings, service), relation=relation, entity=entity, rule=rule, at=at, limit=limit)

    return [search_entity, facts_at, rank, when, explain, findings]


def _facts(service: Service, **asked: Any) -> Row:
    found = service.facts(**asked)
    return {**found, "items": [_fact(fact) for fact in found["items"]]}


def _findings(service: Service, **asked: Any) -> Row:
    found = service.findings(**asked)
    kept = ("rule", "severity", "message", "suggestion", "support")
    items = [
        {
            **{name: each[name] for name in kept},
            "fact": _fact(each["fact"]),
            "others": [one["text"] for one in each["others"]],
        }
        for each in found["items"]
    ]
    rules = {row["id"]: row["findings"] for row in found["facets"]["rule"]}
    return {"total": found["total"], "rules": rules, "items": items}


def _one(work: Callable[..., list[Row]], asked: list[Any], **named: Any) -> Row:
    """The answer to one question."""
    found = work(asked, **named)[0]
    if "error" in found:
        raise ToolError(visible(found["error"]))
    return found


def _explained(service: Service, *asked: Any) -> Row:
    found = service.explain(*asked)
    return {**found, "reasons": [each["sentence"] for each in found["reasons"]]}


def _dated(service: Service, asked: Triple) -> Row:
    found = _one(service.when, [asked], why=True)
    known = [span["text"] for span in found["known"]]
    return {**found, "known": known, "why": [each["sentence"] for each in found["why"]]}


def _fact(fact: Row) -> Row:
    """A fact without what only programs use."""
    return {name: value for name, value in fact.items() if name not in ("row", "first", "last", "split")}


def bounded(answer: Row) -> Row:
    """An answer with short texts only, and with fewer rows if it is too long."""
    answer = _shortened(answer)
    lists = [name for name in ("items", "answers", "reasons", "why", "known") if isinstance(answer.get(name), list)]
    left_out = 0
    while len(to_json(answer, ensure_ascii=False)) > LETTERS:
        longest = max(lists, key=lambda name: len(answer[name]), default=None)
        if longest is None or not answer[longest]:
            break
        dropped = max(1, len(answer[longest]) // 4)
        answer[longest], left_out = answer[longest][:-dropped], left_out + dropped
    return {**answer, "left_out": left_out} if left_out else answer


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, dict):
        return {name: _shortened(each) for name, each in value.items() if name != "curve"}
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    return value


def _short(text: str) -> str:
    text = visible(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
