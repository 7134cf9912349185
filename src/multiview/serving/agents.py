"""Tools for agents: `/mcp` speaks the Model Context Protocol (MCP); each tool call becomes a request to a route."""

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from mcp import types
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from multiview.names import VERSION
from multiview.serving import schemas
from multiview.serving.keys import KeyCheck
from multiview.serving.search_service import Serving
from multiview.serving.where import column_names

LONGEST_ID = 5_000
"""Longest passage id, in characters, that fits into a URL."""
ABOUT = {
    "search": "Find the passages that answer a question, best first, each with the snippet that matched.",
    "passage": "Read a passage by its id.",
    "where": 'A condition, such as `day >= "2020-01-05" and source in ("news", "wiki")`, that passages must satisfy. Columns: ',
}


def agent_routes(app: FastAPI, serving: Serving) -> APIRouter:
    """Returns the route `/mcp`, whose tools `search` and `passage` call the routes of `app` in this process."""
    fields = schemas.search_body(serving.limits).model_json_schema()["properties"]
    inputs = {"search": {"question": fields.pop("questions")["items"], **fields}}
    inputs["passage"] = {"id": {"type": "string"}, "index": fields["index"]}
    outputs = {"search": schemas.Answers.model_json_schema(), "passage": schemas.Passage.model_json_schema()}
    key = {"X-API-Key": serving.keys[0]} if serving.keys else {}  # `/mcp` has checked the agent's own
    routes = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://multiview", headers=key)

    async def tools(context: Any, params: Any) -> types.ListToolsResult:
        columns = ", ".join(column_names(serving.generations.newest.retriever.schema))
        inputs["search"]["where"]["description"] = ABOUT["where"] + columns
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=ABOUT[name],
                    input_schema={"type": "object", "properties": taken, "required": list(taken)[:1]},
                    output_schema=outputs[name],
                    annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
                )
                for name, taken in inputs.items()
            ]
        )

    async def call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool, given = params.name, params.arguments or {}
        if tool not in inputs:
            return _refusal(f"there is no such tool; there are: {', '.join(inputs)}")
        if not given.keys() <= inputs[tool].keys():
            return _refusal(f"{tool} has no such argument; it has: {', '.join(inputs[tool])}")
        if tool == "search":
            body = {name: value for name, value in given.items() if name != "question"}
            body = json.dumps({**body, "questions": [given.get("question")]})
            answer = await routes.post("/search", content=body, headers={"Content-Type": "application/json"})
        elif isinstance(given.get("id"), str) and len(given["id"]) <= LONGEST_ID:
            # A dot is written as %2E, or httpx2 would take `..` for a step up.
            path = quote(given["id"], safe="", errors="surrogatepass").replace(".", "%2E")
            index = {"index": given["index"]} if given.get("index") is not None else {}
            answer = await routes.get(f"/passages/{path}?{urlencode(index, errors='surrogatepass')}")
        else:
            return _refusal(f"id: Input should be a string of at most {LONGEST_ID:,} characters")
        found = answer.json()
        if answer.is_error:
            return _refusal(
                found["error"]["message"].replace("body.questions.0", "question").removeprefix("body.")
            )
        text = types.TextContent(text=json.dumps(found, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=found)

    server = Server("multiview", version=VERSION, on_list_tools=tools, on_call_tool=call)

    @contextlib.asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        # Without sessions, any replica can answer. MetricsMiddleware limits bodies; checking hosts is up to the proxy.
        app.state.mcp = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=sys.maxsize
        )
        async with app.state.mcp.run():
            yield

    router = APIRouter(dependencies=[Depends(KeyCheck(serving.keys))], lifespan=running)

    @router.post("/mcp", include_in_schema=False)
    async def mcp(request: Request) -> Response:
        if "origin" in request.headers:  # by DNS rebinding, a web page can reach what its author cannot
            raise HTTPException(403, "pages in a browser may not ask: there is a header Origin")
        return _SdkResponse()

    return router


class _SdkResponse(Response):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["app"].state.mcp.handle_request(scope, receive, send)


def _refusal(line: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=line)], is_error=True)
