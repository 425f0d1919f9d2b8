"""The page's server: the page, everything as JSON, and what happens as server-sent events."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from muntin.model.errors import MissingExtraError
from muntin.serve.feed import Feed

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
except ImportError as error:
    raise MissingExtraError("the live page", "web") from error

STATIC = Path(__file__).parent / "static"
_COOKIE = "muntin-token"
# Nothing is loaded from elsewhere, and nobody frames the page.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_HERE = {"127.0.0.1", "localhost", "::1"}
_WAIT = 0.25
_ALIVE = 15.0

Handler = Callable[[Request], Awaitable[Response]]


def application(feed: Feed, token: str | None = None) -> Starlette:
    """The page's server.

    Args:
        feed: What queries tell.
        token: What who looks has to know; ``None`` where everybody may.
    """

    async def page(request: Request) -> Response:
        made = FileResponse(STATIC / "index.html")
        if token is not None:
            made.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
        return made

    async def state(request: Request) -> Response:
        return JSONResponse(feed.snapshot())

    async def held(request: Request) -> Response:
        return await _held(feed, request)

    async def events(request: Request) -> Response:
        return StreamingResponse(
            _events(feed, request.is_disconnected), media_type="text/event-stream"
        )

    def guarded(handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            given = request.query_params.get("token") or request.cookies.get(_COOKIE) or ""
            # Without a token only pages of this very machine may ask: a name that somebody else
            # lets point here is refused.
            allowed = (
                request.url.hostname in _HERE
                if token is None
                else hmac.compare_digest(given.encode(), token.encode())
            )
            made = await handler(request) if allowed else _refused()
            made.headers.update(_HEADERS)
            return made

        return answer

    routes = [
        Route("/", guarded(page)),
        Route("/state", guarded(state)),
        Route("/held", guarded(held)),
        Route("/events", guarded(events)),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes)


def _refused() -> Response:
    cure = "give ?token=... (or ask for 127.0.0.1 on this machine)"
    return Response(cure, status_code=403, media_type="text/plain")


async def _held(feed: Feed, request: Request) -> Response:
    """What a query's state holds, or why it can't be said."""
    asked = request.query_params
    try:
        found = await run_in_threadpool(feed.look, asked.get("query", ""), asked.getlist("key"))
    except Exception as error:  # whatever it is, the page goes on and shows it
        return JSONResponse({"error": str(error).partition("\n")[0]}, status_code=400)
    return JSONResponse(found)


async def _events(feed: Feed, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """A snapshot, then what happens; a snapshot again where the page fell too far behind."""
    snapshot = feed.snapshot()
    last = snapshot["id"]
    yield _event("snapshot", snapshot)
    quiet = 0.0
    while not await gone():
        news = feed.since(last)
        if news is None:
            snapshot = feed.snapshot()
            last = snapshot["id"]
            yield _event("snapshot", snapshot)
            continue
        for event in news:
            last = event["id"]
            yield _event(event["kind"], {"query": event["query"], **event["what"]})
        quiet = 0.0 if news else quiet + _WAIT
        if quiet >= _ALIVE:
            quiet = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(_WAIT)


def _event(kind: str, what: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(what)}\n\n"
