"""The HTTP server, which answers questions from the champion or from a given index."""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Annotated, Any

import jinja2
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from markupsafe import Markup
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException as StarletteHTTPException

from multiview.names import CHAMPION, VERSION
from multiview.serving import openai, schemas
from multiview.serving.batching import Batcher, Search, TooManyWaiting
from multiview.serving.follow import Follower
from multiview.serving.hits import answer_fields, as_json, passage_fields
from multiview.serving.keys import KeyCheck
from multiview.serving.metrics import Metrics, MetricsMiddleware, StateCollector, refusal
from multiview.serving.named_indexes import NoSuchIndex
from multiview.serving.search_service import SearchService, Serving
from multiview.serving.where import ConditionError, column_names

REFUSALS = {
    400: "The body cannot be read.",
    401: "No or a wrong API key.",
    404: "There is no such passage, index, vector store or path.",
    408: "The body did not come in time.",
    413: "The body is too long.",
    422: "The request is not understood; the message names the field, or the position in a condition.",
    429: "Too many requests wait; try again after the seconds of Retry-After.",
    504: "The request took too long.",
}
MESSAGES = {
    "json_invalid": "invalid JSON at this character",
    "model_attributes_type": "not a JSON object",
    "string_pattern_mismatch": "the question is blank",
}
"""Our words for invalid input that pydantic describes in a programmer's terms."""
DEEPEST_NAMED = 20
"""Most parts of an invalid field's path that a refusal names."""
OTHER_REFUSALS: tuple[tuple[type[Exception], int, str, dict[str, str]], ...] = (
    (ConditionError, 422, "", {}),
    (NoSuchIndex, 404, "", {}),
    (TooManyWaiting, 429, "too many requests wait; try again", {"Retry-After": "1"}),
    (TimeoutError, 504, "the request took too long", {}),
)
"""Other errors with status, message and headers; an empty message stands for the error's own."""

IndexParameter = Annotated[str | None, Query(max_length=500, description=schemas.INDEX)]


class _AnyText(PathConvertor):
    """The whole rest of a path. Starlette's `path` stops at a line end, and so would find another passage."""

    regex = "(?s:.*)"


register_url_convertor("text", _AnyText())


def build_app(serving: Serving) -> FastAPI:
    """Returns the ASGI application. One background task searches for all requests; another follows the champion."""
    limits, metrics = serving.limits, Metrics()
    batcher = Batcher(limits.max_batch, limits.max_waiting, metrics.batches.observe)
    metrics.registry.register(StateCollector(serving.generations, serving.follower, batcher))
    tasks: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        tasks.append(asyncio.create_task(batcher.run()))
        if serving.follower is not None:
            tasks.append(asyncio.create_task(_follow(serving.follower, serving.poll_seconds)))
        yield
        for task in tasks:
            task.cancel()
        tasks.clear()  # an application may be started again

    app = FastAPI(
        title="multiview",
        version=VERSION,
        summary="Passages of a corpus that answer questions.",
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    app.add_middleware(MetricsMiddleware, metrics=metrics, limits=limits)
    _add_refusals(app)
    _add_probes(app, serving, metrics, tasks)
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": schemas.Refusal, "description": why} for status, why in REFUSALS.items()
    }
    with_key = APIRouter(dependencies=[Depends(KeyCheck(serving.keys))], responses=refusals)
    service = SearchService(serving, batcher)
    _add_search(with_key, service)
    _add_indexes(with_key, service)
    _add_vector_stores(with_key, service)
    app.include_router(with_key)
    if serving.agents:
        from multiview.serving.agents import agent_routes  # of the extra `mcp`

        app.include_router(agent_routes(app, serving))
    _add_explorer(app)
    return app


async def _follow(follower: Follower, seconds: float) -> None:
    while True:
        await asyncio.to_thread(follower.look)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(follower.check)


def _add_probes(app: FastAPI, serving: Serving, metrics: Metrics, tasks: list[asyncio.Task[None]]) -> None:
    """Adds the routes that need no key, as they reveal nothing about questions and passages."""

    def broken() -> bool:
        return not tasks or any(task.done() for task in tasks)

    @app.get("/healthz", response_model=schemas.Health, responses={503: {"model": schemas.Health}})
    async def healthz() -> JSONResponse:
        """Whether the process works; if it does not, only a restart helps."""
        health = schemas.Health(status="broken" if broken() else "ok")
        return JSONResponse(health.model_dump(), 503 if broken() else 200)

    @app.get("/readyz", response_model=schemas.State, responses={503: {"model": schemas.State}})
    async def readyz() -> JSONResponse:
        """Whether questions are answered, from which index and, if the last search failed or that is not the store's
        champion, why."""
        newest, fresh = serving.generations.newest, serving.follower and serving.follower.freshness
        state = schemas.State(
            status="broken" if broken() else "ready",
            index=newest.retriever.address,
            champion=newest.number,
            passages=len(newest.retriever),
            ranking=newest.retriever.ranking,
            problem=newest.problem or (serving.follower.problem if serving.follower else ""),
            freshness=str(fresh or ""),
            notice=fresh.notice if fresh else "",
        )
        return JSONResponse(state.model_dump(), 503 if broken() else 200)

    @app.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Metrics for Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _add_search(router: APIRouter, service: SearchService) -> None:
    SearchRequest = schemas.search_body(service.serving.limits)

    @router.post("/search", response_model=schemas.Answers)
    async def search(body: SearchRequest) -> Response:  # pyright: ignore[reportInvalidTypeForm]
        """Search: the best passages for each question, with the snippet that matched."""
        async with service.chosen(body.index) as generation:
            wanted = Search(body.k, body.explain, body.where)
            hits = await service.search(generation, body.questions, wanted)
            exact = generation.retriever.exact or body.where is not None
            answers = [answer_fields(*each, exact) for each in zip(body.questions, hits, strict=True)]
            index, champion = generation.retriever.address, generation.number
            return _json({"index": index, "champion": champion, "answers": answers})

    @router.get("/passages/{id:text}", response_model=schemas.Passage)
    async def passage(id: str, index: IndexParameter = None) -> Response:
        """A passage of the corpus by its id, with its columns and what its views represent."""
        async with asyncio.timeout(service.serving.limits.timeout), service.chosen(index) as generation:
            indexed = await asyncio.to_thread(generation.retriever.passage, id)
            if indexed is None:
                raise HTTPException(404, "the corpus has no passage with this id")
            return _json(passage_fields(indexed))


def _add_indexes(router: APIRouter, service: SearchService) -> None:
    @router.get("/indexes", response_model=schemas.IndexChoices)
    async def indexes() -> Response:
        """The index that answers, and those that requests may name: the newest 100, champions first."""
        async with asyncio.timeout(service.serving.limits.timeout), service.chosen(None) as generation:
            choices = await service.serving.named_indexes.choices() if service.serving.named_indexes else []
            return _json(
                {
                    "index": generation.retriever.address,
                    "champion": generation.number,
                    "passages": len(generation.retriever),
                    "architecture": generation.retriever.architecture,
                    "ranking": generation.retriever.ranking,
                    "columns": list(column_names(generation.retriever.schema)),
                    "most_passages": service.serving.limits.max_k,
                    "indexes": [choice.model_dump() for choice in choices],
                }
            )


def _add_vector_stores(router: APIRouter, service: SearchService) -> None:
    VectorStoreSearchRequest = schemas.openai_body(service.serving.limits)

    @router.post("/v1/vector_stores/{vector_store_id}/search", response_model=schemas.ResultsPage)
    async def search_vector_store(
        vector_store_id: Annotated[str, Path(examples=[CHAMPION])],
        body: VectorStoreSearchRequest,  # pyright: ignore[reportInvalidTypeForm]
    ) -> Response:
        """Search in the shape of OpenAI's vector stores; the store is `champion` or the key of the answering index."""
        where = openai.condition(body.filters) if body.filters else None
        if where and len(where) > openai.MOST_CHARACTERS:
            raise ConditionError(
                f"at most {openai.MOST_CHARACTERS:,} characters of a condition are evaluated", "filters"
            )
        least = (body.ranking_options.score_threshold or None) if body.ranking_options else None
        with service.serving.generations.using() as generation:
            known = [CHAMPION] if generation.champion else []
            known = sorted([*known, generation.retriever.address.rpartition("/")[2]])
            if vector_store_id not in known:
                raise HTTPException(404, f"there is no such vector store; there are: {', '.join(known)}")
            try:
                hits = await service.search(generation, body.query, Search(body.max_num_results, where=where))
            except ConditionError as error:  # a position in a text that the client has not seen helps nobody
                raise ConditionError(error.why, "filters") from None
            return _json(openai.page(body.query, hits, body.max_num_results, least).model_dump())


def _json(content: object) -> Response:
    return Response(as_json(content), media_type="application/json")


def _add_explorer(app: FastAPI) -> None:
    """Adds the explorer page, which calls the other routes. It contains nothing from the corpus, so it needs no key."""
    style, script = _text("explorer.css"), _text("drawing.js") + _text("explorer.js")
    template = jinja2.Template(_text("explorer.html"), autoescape=True, undefined=jinja2.StrictUndefined)
    html = template.render(style=Markup(style), script=Markup(script))
    policy = [
        "default-src 'none'",  # a browser runs and loads nothing but what is in the page
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    headers = {
        "Content-Security-Policy": "; ".join(policy),
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }

    @app.get("/", include_in_schema=False)
    async def explorer() -> HTMLResponse:
        return HTMLResponse(html, headers=headers)


def _text(name: str) -> str:
    return (files("multiview.serving") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source expression by which a Content-Security-Policy allows a text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _add_refusals(app: FastAPI) -> None:
    """Answers every error in one shape, which never repeats a question."""

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: StarletteHTTPException) -> JSONResponse:
        return refusal(error.status_code, error.detail, dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][:DEEPEST_NAMED]))
        whole = first["type"] == "model_attributes_type" and first["loc"] == ("body",)
        header = "; a body is sent with the header Content-Type: application/json" if whole else ""
        return refusal(422, f"{where}: {MESSAGES.get(first['type'], first['msg'])}{header}")

    for kind, status, message, headers in OTHER_REFUSALS:

        @app.exception_handler(kind)
        async def other(
            request: Request, error: Exception, status=status, message=message, headers=headers
        ) -> JSONResponse:
            return refusal(status, message or str(error), headers)
