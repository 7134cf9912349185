"""What the server reports: metrics for Prometheus, and errors in the log, which never repeat a question."""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multiview.errors import InputError, raised_at
from multiview.serving.batching import Batcher
from multiview.serving.follow import Follower, Generations
from multiview.serving.limits import Limits

disable_created_metrics()  # which would be a second time series per counter: when it began

log = logging.getLogger(__name__)

SECONDS_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
QUESTIONS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counts of requests and batches."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter(
            "multiview_requests", "Requests by route and status.", ["route", "status"], **own
        )
        self.seconds = Histogram(
            "multiview_request_seconds", "Seconds of requests.", ["route"], buckets=SECONDS_BUCKETS, **own
        )
        self.batches = Histogram(
            "multiview_batch_questions", "Questions searched together.", buckets=QUESTIONS_BUCKETS, **own
        )


class StateCollector(Collector):
    """The state of a server, read whenever Prometheus asks."""

    def __init__(self, generations: Generations, follower: Follower | None, batcher: Batcher) -> None:
        self._generations, self._follower, self._batcher = generations, follower, batcher

    def collect(self) -> Iterable[Metric]:
        newest, gauge, counter = self._generations.newest, GaugeMetricFamily, CounterMetricFamily
        retriever, follower, ending = newest.retriever, self._follower, self._generations.ending
        about = {"address": retriever.address, "architecture": retriever.architecture}
        waiting = self._batcher.waiting
        yield InfoMetricFamily("multiview_index", "The index that answers.", value=about)
        yield gauge("multiview_passages", "Passages of the index.", value=len(retriever))
        yield gauge("multiview_waiting_requests", "Requests that wait for the model.", value=waiting)
        yield gauge("multiview_ending_generations", "Replaced indexes that still answer.", value=ending)
        if newest.champion is None or follower is None:
            return
        number, fails = newest.champion.number, follower.failures
        loads, problem = follower.loads, bool(follower.problem or newest.problem)
        yield gauge("multiview_champion", "Number of the champion that answers.", value=number)
        yield counter("multiview_champion_loads", "Champions loaded after the first.", value=loads)
        yield counter("multiview_champion_load_failures", "Failures to load a champion.", value=fails)
        yield gauge(
            "multiview_champion_problem",
            "1 while the champion cannot answer, or the last search failed.",
            value=problem,
        )
        if fresh := follower.freshness:
            about = "Seconds since the sources of the champion's corpus were read."
            yield gauge("multiview_champion_corpus_age_seconds", about, value=fresh.age)
            about = "When a refresh ended last, by outcome."
            ended = gauge("multiview_last_refresh_timestamp_seconds", about, labels=["outcome"])
            for outcome, when in fresh.ended.items():
                ended.add_metric([outcome], when)
            yield ended


class MetricsMiddleware:
    """ASGI middleware: counts requests, limits the size of bodies and the time that they take to arrive, ends requests
    whose client has gone (status 499), and turns errors into answers and single log lines."""

    def __init__(self, app: ASGIApp, metrics: Metrics, limits: Limits) -> None:
        self._app, self._metrics, self._limits = app, metrics, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, received, is_gone = time.perf_counter(), 0, 0, False
        most, request = self._limits.body_bytes, asyncio.current_task()
        deadline = asyncio.get_running_loop().time() + self._limits.timeout  # of the whole body
        watch: asyncio.Task[Message] | None = None
        if scope["method"] == "HEAD":  # load balancers probe by HEAD; the server drops the body
            scope = {**scope, "method": "GET"}

        async def watched() -> Message:
            """Waits until the client has its answer or is gone, and then cancels the request: uvicorn does not."""
            nonlocal is_gone
            message = await receive()
            if not status and request is not None:
                is_gone = True
                request.cancel()
            return message

        async def counted_receive() -> Message:
            nonlocal received, is_gone, watch
            if watch is not None:
                return await asyncio.shield(watch)
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the body did not come in time") from None
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413, f"the body is longer than {most} bytes")
            if message["type"] == "http.disconnect":
                is_gone = True
            elif not message.get("more_body"):
                watch = asyncio.create_task(watched())
            return message

        async def seen_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, counted_receive, seen_send)
        except Exception as error:
            log.error("%s: %s", _route(scope), described(error))
            if status:
                raise RuntimeError("an answer broke off") from None
            answer = refusal(500, "the server failed; its log says where")
            await answer(scope, receive, seen_send)
        except asyncio.CancelledError:
            if request is None or not is_gone:
                raise
            request.uncancel()
        finally:
            if watch is not None:
                watch.cancel()
            self._metrics.requests.labels(_route(scope), "499" if is_gone else str(status)).inc()
            self._metrics.seconds.labels(_route(scope)).observe(time.perf_counter() - begun)


def described(error: BaseException) -> str:
    """Returns one line about an error: an InputError's text, which is ours; else kind and place, because the text may
    repeat a question."""
    if isinstance(error, InputError):
        return str(error)
    return f"{type(error).__name__}{raised_at(error)}"


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Returns an error response: `{"error": {"message": "…"}}`."""
    return JSONResponse({"error": {"message": message}}, status, headers)


def _route(scope: Scope) -> str:
    """The route's pattern, without what the request filled in; `other` for an unknown path."""
    return getattr(scope.get("route"), "path", "other")
