"""The page's server: the page, everything as JSON, and what happens as server-sent events.

Who may ask: a client with the token, and without a token this very machine. Other sites' pages may
not, although they run on this machine too: a browser says where a request comes from, and sends no
header of our own for them. What costs something, a look into the state, is asked for by that
header, one look at a time, with a short queue.
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

from muntin.model.errors import MissingExtraError
from muntin.model.secrets import redacted
from muntin.serve.feed import Feed

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import FileResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    from muntin.web.access import COOKIE, may_ask
except ImportError as error:
    raise MissingExtraError("the live page", "web") from error

STATIC = Path(__file__).parent / "static"
# Nothing is loaded from elsewhere, and no other page frames this one.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_WAIT = 0.25
_ALIVE = 15.0
# A page of another site can't send it: its browser would ask us before, and we don't agree.
HEADER = "x-muntin"
# Looks that run or wait.
_MOST_LOOKS = 4

Handler = Callable[[Request], Awaitable[Response]]


def application(feed: Feed, token: str | None, closing: Callable[[], bool]) -> Starlette:
    """The page's server.

    Args:
        feed: What queries emit.
        token: Access token required to view the page; ``None`` lets everybody on this machine.
        closing: Whether the server is about to end.
    """
    looks = _Looks(feed, closing)

    async def page(request: Request) -> Response:
        made = FileResponse(STATIC / "index.html")
        if token is not None:
            made.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return made

    async def state(request: Request) -> Response:
        return _json(feed.snapshot())

    async def held(request: Request) -> Response:
        if HEADER not in request.headers:
            return _refused(f"send the header {HEADER}: look")
        return await looks.answer(request)

    async def events(request: Request) -> Response:
        async def gone() -> bool:
            return closing() or await request.is_disconnected()

        return StreamingResponse(_events(feed, gone), media_type="text/event-stream")

    def guarded(handler: Handler, *, led_here: bool = False) -> Handler:
        return _guarded(handler, token, led_here)

    routes = [
        Route("/", guarded(page, led_here=True)),
        Route("/state", guarded(state)),
        Route("/held", guarded(held)),
        Route("/events", guarded(events)),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes)


def _guarded(handler: Handler, token: str | None, led_here: bool) -> Handler:
    """A handler that answers only whom it may; other sites may lead to some, but not read them."""

    async def answer(request: Request) -> Response:
        if not may_ask(request, token):
            made = _refused("give ?token=... (or ask for 127.0.0.1 on this machine)")
        elif not led_here and _is_foreign(request):
            made = _refused("open the page itself: other sites' pages may not ask")
        else:
            made = await handler(request)
        made.headers.update(_HEADERS)
        return made

    return answer


def _is_foreign(request: Request) -> bool:
    """Whether another site's page asks, as far as the browser says."""
    site = request.headers.get("sec-fetch-site", "none")
    origin = request.headers.get("origin")
    own = f"{request.url.scheme}://{request.url.netloc}"
    return site not in ("same-origin", "none") or origin not in (None, own)


def _json(what: Any, status: int = 200) -> Response:
    """JSON in ASCII: text that isn't UTF-8 stays escaped, and ends no answer."""
    return Response(json.dumps(what), status, media_type="application/json")


def _refused(hint: str) -> Response:
    return Response(hint, status_code=403, media_type="text/plain")


class _Looks:
    """Looks into the state, one at a time: each is a job that the queries feel."""

    def __init__(self, feed: Feed, closing: Callable[[], bool]) -> None:
        self._feed = feed
        self._closing = closing
        # Threads of its own: those that send files don't wait for it.
        self._worker = ThreadPoolExecutor(1, "muntin-look")
        self._waiting = 0

    async def answer(self, request: Request) -> Response:
        """What a query's state holds, or why it can't be read."""
        if self._waiting >= _MOST_LOOKS:
            made = _json({"error": "others are looking: ask again in a moment"}, 429)
            made.headers["Retry-After"] = "2"
            return made
        self._waiting += 1
        asked = request.query_params
        look = self._worker.submit(self._feed.look, asked.get("query", ""), asked.getlist("key"))
        look.add_done_callback(partial(self._done, asyncio.get_running_loop()))
        found = asyncio.wrap_future(look)
        while not (await asyncio.wait([found], timeout=_WAIT))[0]:
            # One that has begun goes on; one whose client has left is dropped.
            if self._closing() or await request.is_disconnected():
                found.cancel()
                return _json({"error": "the page has closed"}, 503)
        try:
            return _json(found.result())
        except Exception as error:  # whatever it is, the page goes on and shows it
            text = redacted(str(error)).partition("\n")[0]
            return _json({"error": text}, 400)

    def _done(self, loop: asyncio.AbstractEventLoop, look: object) -> None:
        with suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(self._left)

    def _left(self) -> None:
        self._waiting -= 1


async def _events(feed: Feed, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """A snapshot, then what happens; a snapshot again where the page fell too far behind."""
    last, quiet = None, 0.0
    while last is None or not await gone():
        news = None if last is None else feed.since(last)
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
