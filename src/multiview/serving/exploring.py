"""The explorer: a page on `/`, and the routes that it needs besides the search."""

import asyncio
import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any

import jinja2
from fastapi import FastAPI, HTTPException, Query, Response
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from multiview.errors import counted
from multiview.serving import answers, schemas
from multiview.serving.asking import Asking
from multiview.serving.batching import Search
from multiview.serving.others import Choice
from multiview.serving.ranks import WordIndexes, ranked_passages
from multiview.serving.routes import ID
from multiview.serving.underway import Underway
from multiview.serving.where import column_names

NO_PASSAGE = "the corpus has no passage with this id"

IndexParameter = Annotated[str | None, Query(max_length=500, description=schemas.INDEX)]


def add_explorer(app: FastAPI, asking: Asking, asked: dict[str, Any]) -> None:
    """Adds the page and its routes; `asked` are the arguments of routes that need a key."""
    limits, page, words, building = asking.limits, Page.read(), WordIndexes(), Underway()
    ExplainRequest = schemas.explain_body(limits)

    @app.get("/", include_in_schema=False)
    async def explorer() -> HTMLResponse:
        """The page, which holds nothing of the corpus and so needs no key."""
        return HTMLResponse(page.html, headers=page.headers)

    @app.get("/indexes", response_model=schemas.IndexChoices, **asked)
    async def indexes() -> Response:
        """What answers, and the indexes that requests may name: the newest 100, champions first."""
        async with asyncio.timeout(limits.timeout), asking.chosen(None) as generation:
            choices = await asking.others.choices() if asking.others else []
            return json_response(
                {
                    "index": generation.retriever.address,
                    "champion": generation.number,
                    "passages": len(generation.retriever),
                    "architecture": generation.retriever.architecture,
                    "columns": list(column_names(generation.retriever.schema)),
                    "most_passages": limits.max_k,
                    "indexes": [_choice(choice) for choice in choices],
                }
            )

    @app.get(f"/views/{ID}", response_model=schemas.PassageViews, **asked)
    async def views(id: str, index: IndexParameter = None) -> Response:
        """What the views of a passage represent, and the cosines between them."""
        async with asking.chosen(index) as generation:
            retriever = generation.retriever
            indexed = await asyncio.to_thread(retriever.passage, id)
            if indexed is None:
                raise HTTPException(404, NO_PASSAGE)
            cosines = await asyncio.to_thread(retriever.view_cosines, indexed.row)
            return json_response(
                {
                    "index": retriever.address,
                    "id": id,
                    "views": answers.passage(indexed)["views"],
                    "cosines": cosines.tolist(),
                }
            )

    @app.post("/explain", response_model=schemas.Explanation, **asked)
    async def explain(body: ExplainRequest) -> Response:  # pyright: ignore[reportInvalidTypeForm]
        """A question's ranks by BM25, by the index's views, and by both fused by their reciprocal ranks.

        BM25 reads the whole corpus when it is first asked for.
        """
        async with asking.chosen(body.index) as generation:
            retriever = generation.retriever
            if len(retriever) > limits.max_bm25_passages:
                raise HTTPException(
                    422,
                    f"the corpus has {counted(len(retriever), 'passage')}; this server ranks at most {limits.max_bm25_passages} by BM25",
                )
            (hits,) = await asking.found(generation, [body.question], Search(body.depth, where=body.where))
            async with asyncio.timeout(limits.timeout):
                if not words.built(retriever):
                    await building.result(id(retriever), lambda: words.build(retriever))
                bm25 = await asyncio.to_thread(words.hits, retriever, body.question, body.depth, body.where)
                ranked = await asyncio.to_thread(ranked_passages, retriever, bm25, hits)
            return json_response(
                {
                    "index": retriever.address,
                    "champion": generation.number,
                    "question": body.question,
                    "exact": retriever.exact or body.where is not None,
                    "depth": body.depth,
                    "passages": ranked,
                }
            )


@dataclass(frozen=True)
class Page:
    """The page, and headers by which a browser runs and loads nothing but what is in it."""

    html: str
    headers: dict[str, str]

    @classmethod
    def read(cls) -> "Page":
        """Puts the page together from its files."""
        style, script = _text("explorer.css"), _text("drawing.js") + _text("explorer.js")
        template = jinja2.Template(_text("explorer.html"), autoescape=True, undefined=jinja2.StrictUndefined)
        policy = [
            "default-src 'none'",
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
        return cls(template.render(style=Markup(style), script=Markup(script)), headers)


def json_response(content: object) -> Response:
    """Returns the response with JSON of ASCII characters."""
    return Response(answers.as_json(content), media_type="application/json")


def _choice(choice: Choice) -> dict[str, Any]:
    record = choice.record
    return {
        "name": record.key,
        "roles": choice.roles,
        "architecture": choice.architecture,
        "passages": record.facts.get("passages"),
        "views": record.facts.get("views"),
        "created": record.created,
    }


def _text(name: str) -> str:
    return (files("multiview.serving") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A text's source expression for a Content-Security-Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
