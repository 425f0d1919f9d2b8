"""The page's server: the page, its state as JSON, and updates as server-sent events.

Clients need the token; without a token, only this machine has access. Pages of other sites have no
access, although their browser may run on this machine: a browser reports the origin of a request,
and doesn't let other sites send our own header. Expensive requests, which look into the state, need
that header; they run one at a time, with a short queue.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from muntin.model.errors import MissingExtraError
from muntin.model.secrets import redact
from muntin.serve.feed import Feed

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import FileResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import Scope

    from muntin.web.server import COOKIE, WebServer, has_access
except ImportError as error:
    raise MissingExtraError("the live page", "web") from error

PORT = 8765
STATIC = Path(__file__).parent / "static"
# The page loads nothing from other sites, and can't be framed.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_POLL_SECONDS = 0.25
_ALIVE_SECONDS = 15.0
# Pages of other sites can't send this header: their browser asks first, and is refused.
HEADER = "x-muntin"
# The most looks that run or wait.
_MAX_LOOKS = 4

Handler = Callable[[Request], Awaitable[Response]]


def create_application(feed: Feed, token: str | None, closing: Callable[[], bool]) -> Starlette:
    """Create the page's application.

    Without a token, everybody on this machine has access. ``closing`` returns whether the server is
    about to stop.
    """
    looks = _Looks(feed, closing)

    async def page(request: Request) -> Response:
        response = FileResponse(STATIC / "index.html")
        if token is not None:
            response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response

    async def state(request: Request) -> Response:
        return _respond_json(feed.snapshot())

    async def look(request: Request) -> Response:
        if HEADER not in request.headers:
            return _respond_refused(f"send the header {HEADER}: look")
        return await looks.respond(request)

    async def events(request: Request) -> Response:
        async def has_left() -> bool:
            return closing() or await request.is_disconnected()

        return StreamingResponse(_stream_events(feed, has_left), media_type="text/event-stream")

    def guard(handler: Handler, *, allows_links: bool = False) -> Handler:
        return _guard(handler, token, allows_links)

    routes = [
        Route("/", guard(page, allows_links=True)),
        Route("/state", guard(state)),
        Route("/held", guard(look)),
        Route("/events", guard(events)),
        Mount("/static", _GuardedFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes)


class _GuardedFiles(StaticFiles):
    """Files with the headers of the page, which is one of them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


def _guard(handler: Handler, token: str | None, allows_links: bool) -> Handler:
    """Wrap a handler with the access checks; other sites may link to some pages, not read them."""

    async def answer(request: Request) -> Response:
        if not has_access(request, token):
            response = _respond_refused("give ?token=... (or ask for 127.0.0.1 on this machine)")
        elif not allows_links and _is_foreign(request):
            response = _respond_refused("open the page itself: other sites' pages may not ask")
        else:
            response = await handler(request)
        response.headers.update(_HEADERS)
        return response

    return answer


def _is_foreign(request: Request) -> bool:
    """Return whether the request comes from another site's page, as the browser reports."""
    site = request.headers.get("sec-fetch-site", "none")
    origin = request.headers.get("origin")
    own = f"{request.url.scheme}://{request.url.netloc}"
    return site not in ("same-origin", "none") or origin not in (None, own)


def _respond_json(what: Any, status: int = 200) -> Response:
    """Respond with JSON in ASCII; text that isn't UTF-8 stays escaped."""
    return Response(json.dumps(what), status, media_type="application/json")


def _respond_refused(hint: str) -> Response:
    return Response(hint, status_code=403, media_type="text/plain")


class _Looks:
    """Runs looks into the state one at a time, because each is a job that slows queries down."""

    def __init__(self, feed: Feed, closing: Callable[[], bool]) -> None:
        self._feed = feed
        self._closing = closing
        # A separate thread, so that requests for files don't wait for looks.
        self._worker = ThreadPoolExecutor(1, "muntin-look")
        self._waiting = 0

    async def respond(self, request: Request) -> Response:
        """Respond with the contents of a query's state, or why it can't be read."""
        if self._waiting >= _MAX_LOOKS:
            response = _respond_json({"error": "others are looking: ask again in a moment"}, 429)
            response.headers["Retry-After"] = "2"
            return response
        self._waiting += 1
        parameters = request.query_params
        look = self._worker.submit(
            self._feed.look, parameters.get("query", ""), parameters.getlist("key")
        )
        look.add_done_callback(partial(self._finish, asyncio.get_running_loop()))
        future = asyncio.wrap_future(look)
        while not (await asyncio.wait([future], timeout=_POLL_SECONDS))[0]:
            # A running look continues; a waiting one is dropped if its client has left.
            if self._closing() or await request.is_disconnected():
                future.cancel()
                return _respond_json({"error": "the page has closed"}, 503)
        try:
            return _respond_json(future.result())
        except Exception as error:  # the page shows any error
            text = redact(str(error)).partition("\n")[0]
            return _respond_json({"error": text}, 400)

    def _finish(self, loop: asyncio.AbstractEventLoop, look: object) -> None:
        with suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(self._count_down)

    def _count_down(self) -> None:
        self._waiting -= 1


async def _stream_events(feed: Feed, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Yield a snapshot, then events; a snapshot again if the page fell too far behind."""
    last, quiet = None, 0.0
    while last is None or not await gone():
        news = None if last is None else feed.since(last)
        if news is None:
            snapshot = feed.snapshot()
            last = snapshot["id"]
            yield _format_event("snapshot", snapshot)
            continue
        for event in news:
            last = event["id"]
            yield _format_event(event["kind"], {"query": event["query"], **event["what"]})
        quiet = 0.0 if news else quiet + _POLL_SECONDS
        if quiet >= _ALIVE_SECONDS:
            quiet = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(_POLL_SECONDS)


def _format_event(kind: str, what: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(what)}\n\n"


class Server(WebServer):
    """Serves the page while the context is entered; for the arguments see ``WebServer``."""

    def __init__(
        self, feed: Feed, host: str = "127.0.0.1", port: int = PORT, token: str | None = None
    ) -> None:
        super().__init__(partial(create_application, feed), host, port, token, "muntin-page")

    @property
    def address(self) -> str:
        """The URL of the page."""
        asked = f"?token={quote(self.token, safe='')}" if self.token else ""
        return self.url(f"/{asked}")
