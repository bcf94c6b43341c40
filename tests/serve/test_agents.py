"""A real client of the protocol lists and calls each tool, over standard input and output and over HTTP."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests.patience import patience
from tests.serve.asked import client, kept, service, serving

import timeplex
from timeplex.serve import agents
from timeplex.serve.agents import LETTERS, LONGEST, MOST, bounded, server
from timeplex.serve.app import create_app

TOKEN = "a-token-of-some-length"
FACT = {"subject": "person 03", "relation": "bornIn", "object": "Oslo"}
CALLS: dict[str, dict[str, Any]] = {
    "search_entity": {"text": "person 0", "limit": 3},
    "facts_at": {"entity": "person 03", "at": "1930"},
    "rank": {"relation": "bornIn", "subject": "person 03", "k": 3},
    "when": FACT,
    "explain": {**FACT, "at": "1903"},
    "findings": {"limit": 2},
}


async def every_tool(asking: Client) -> dict[str, Any]:
    """What each tool says, after a look at the list of them."""
    listed = {tool.name: tool for tool in (await asking.list_tools()).tools}
    assert set(listed) == set(CALLS)
    for tool in listed.values():
        assert len(tool.description or "") > 80, "a model must be able to choose by it"
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.annotations.destructive_hint is False
        for field in tool.input_schema["properties"].values():
            kinds = field.get("anyOf", [field])
            assert all("maxLength" in kind or "enum" in kind for kind in kinds if kind.get("type") == "string")
            assert all("maximum" in kind for kind in kinds if kind.get("type") == "integer")
    answers = {}
    for name, arguments in CALLS.items():
        answer = await asking.call_tool(name, arguments)
        assert not answer.is_error, answer
        answers[name] = answer.structured_content
        assert json.loads(answer.content[0].text) == answer.structured_content  # type: ignore[union-attr]
    return answers


def check(answers: dict[str, Any]) -> None:
    """Against what the service says."""
    assert [row["id"] for row in answers["search_entity"]["items"]] == ["person 00", "person 01", "person 02"]
    assert [row["text"] for row in answers["facts_at"]["items"]] == [
        "person 03 livesIn Oslo (1923–1953)",
        "person 03 worksIn Oslo (1928–1946)",
    ]
    assert answers["rank"]["answers"][0]["id"] == "Oslo"
    assert answers["rank"]["answers"][0]["known"] == "1903"
    assert len(answers["rank"]["answers"]) == 3
    assert answers["when"]["known"] == ["1903"]
    assert 0 < answers["when"]["probability"] <= 1
    assert "left out of its own evidence" in answers["explain"]["note"]
    assert all(isinstance(sentence, str) for sentence in answers["explain"]["reasons"])
    assert answers["findings"]["total"] == service().findings()["total"]
    assert "person 00 bornIn Bern (1990)" in [row["fact"]["text"] for row in answers["findings"]["items"]]


def soon(work: Callable[[], Awaitable[Any]]) -> Any:
    """What is done, if it comes to an end."""
    return asyncio.run(asyncio.wait_for(work(), patience(120)))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_over_http(mode: str) -> None:
    async def ask(url: str) -> Any:
        async with Client(f"{url}/mcp", mode=mode) as asking:
            assert str(service().about()["facts"]) in (asking.instructions or "")
            return await every_tool(asking)

    with serving(create_app(service())) as url:
        check(soon(lambda: ask(url)))


def test_over_http_with_a_token_and_never_without() -> None:
    async def ask(url: str, headers: dict[str, str]) -> Any:
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as asking,
        ):
            return await every_tool(asking)

    with serving(create_app(service(), token=TOKEN)) as url:
        check(soon(lambda: ask(url, {"authorization": f"Bearer {TOKEN}"})))
        with pytest.raises(Exception):  # noqa: B017, PT011 - of the SDK's making
            soon(lambda: ask(url, {"authorization": "Bearer wrong"}))
        with client(url) as asking:
            assert asking.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status_code == 401


def test_over_standard_input_and_output() -> None:
    source = str(Path(timeplex.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    command = [*("-m", "timeplex.cli.main", "serve", str(kept()), "--mcp")]

    async def ask() -> Any:
        parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
        async with Client(stdio_client(parameters)) as asking:
            return await every_tool(asking)

    check(soon(ask))


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("facts_at", {"entity": "persom 03"}, "did you mean 'person 03'"),
        ("facts_at", {"entity": "persom 03"}, "Find the right name with search_entity."),
        ("facts_at", {"entity": "person 03", "at": "someday"}, "'someday' is not a date"),
        ("rank", {"relation": "bornIn"}, "Neither a subject nor an object is given"),
        ("rank", {"relation": "bornIn", "subject": "nobody"}, "unknown entity"),
        ("when", {**FACT, "relation": "bornOn"}, "did you mean 'bornIn'"),
        ("search_entity", {"text": "x" * 513}, "at most 512 characters"),
        ("search_entity", {"text": "x", "limit": MOST + 1}, f"less than or equal to {MOST}"),
        ("rank", {"relation": "bornIn", "subject": "person 03", "k": MOST + 1}, f"less than or equal to {MOST}"),
        ("rank", {"relation": "bornIn", "subject": "person 03", "k": 0}, "greater than or equal to 1"),
        ("drop_table", {}, "nknown tool"),
    ],
)
def test_what_cannot_be_asked_is_said_in_words(tool: str, arguments: dict[str, Any], said: str) -> None:
    async def ask() -> Any:
        async with Client(server(service())) as asking:
            return await asking.call_tool(tool, arguments)

    answer = soon(ask)
    assert answer.is_error
    assert said in answer.content[0].text
    assert "Traceback" not in answer.content[0].text


def test_the_limits_just_kept_are_answered() -> None:
    async def ask() -> Any:
        async with Client(server(service())) as asking:
            one = await asking.call_tool("search_entity", {"text": "person", "limit": MOST})
            two = await asking.call_tool("rank", {"relation": "livesIn", "object": "Oslo", "k": MOST})
            three = await asking.call_tool("search_entity", {"text": "x" * 512})
            return one, two, three

    one, two, three = soon(ask)
    assert len(one.structured_content["items"]) == MOST
    assert len(two.structured_content["answers"]) + two.structured_content.get("left_out", 0) == MOST
    assert not three.is_error
    assert max(len(answer.content[0].text) for answer in (one, two, three)) < 2 * LETTERS


def test_an_answer_is_never_long() -> None:
    answer = {"items": [{"text": "x" * 1000, "more": ["y" * 1000] * 3} for _ in range(100)], "curve": [1]}
    found = bounded(answer)
    assert len(json.dumps(found, ensure_ascii=False)) <= LETTERS + 100
    assert len(found["items"]) + found["left_out"] == 100
    assert {len(row["text"]) for row in found["items"]} == {LONGEST}
    assert "left_out" not in bounded({"items": ["short"]})
    assert bounded({"text": "\u202e\x1b[31m"})["text"] == "\\u202e\\x1b[31m"


def test_what_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "SECONDS", 0.0)

    async def ask() -> Any:
        async with Client(server(service())) as asking:
            return await asking.call_tool("when", FACT)

    answer = soon(ask)
    assert answer.is_error
    assert "takes longer than a request may" in answer.content[0].text
