"""The explorer: a page on `/` that asks the routes which everybody asks."""

import base64
import hashlib
from importlib.resources import files

import jinja2
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from markupsafe import Markup


def add_explorer(app: FastAPI) -> None:
    """Adds the page, which holds nothing of the corpus and so needs no key."""
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
    """A text's source expression for a Content-Security-Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
