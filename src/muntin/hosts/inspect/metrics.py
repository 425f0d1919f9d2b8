"""Serves the figures of running queries to Prometheus.

The figures of the shards are read from the queries at each request. The times of batches are added
up where the host measures them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from muntin.hosts.health import DEGRADATIONS, describe_degradation
from muntin.hosts.progress import Progress
from muntin.model.axis import SECOND
from muntin.model.counts import FATES, select_rejections
from muntin.model.errors import MissingExtraError, OptionError
from muntin.model.listening import is_loopback
from muntin.model.printable import escape_line
from muntin.model.spec import UNDECIDED
from muntin.query import BatchTimes, Query

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from starlette.applications import Starlette
    from starlette.requests import Request

    from muntin.web.server import WebServer


class Metrics:
    """A collector of Prometheus' client for running queries, as ``metrics`` returns it.

    Attributes:
        url: The address at which the figures are served.
    """

    def __init__(self, queries: tuple[Query, ...]) -> None:
        self._queries = queries
        self._times: dict[Query, BatchTimes] = {}
        self._began = time.time()
        self._server: WebServer | None = None
        self.url = ""

    def collect(self) -> Iterator[Metric]:
        """Yield the present figures; the registry calls it at each request."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def collect_labelled(
            kind: Any, name: str, text: str, by: str, of: Callable[[Any], dict[str, Any]]
        ) -> Metric:
            family: Metric = kind(f"muntin_{name}", text, labels=["query", by])
            for query in self._queries:
                for label, value in of(query).items():
                    family.add_metric([escape_line(query.label), label], value)  # type: ignore[attr-defined]
            return family

        collect_counter, collect_gauge = (
            partial(collect_labelled, kind) for kind in (CounterMetricFamily, GaugeMetricFamily)
        )

        def collect_present(name: str, text: str, of: Callable[[Any], float | None]) -> Metric:
            family = GaugeMetricFamily(f"muntin_{name}", text, labels=["query"])
            for query in self._queries:
                value = of(query)
                if value is not None:
                    family.add_metric([escape_line(query.label)], value)
            return family

        yield collect_counter("messages", "Messages by what became of them.", "fate", _fates)
        yield collect_counter("rejected", "Rejected messages by reason.", "reason", _reasons)
        yield collect_counter(
            "fired", "Firings since the start.", "emission", lambda q: q.progress.fired
        )
        yield collect_counter(
            "operator_seen",
            "Messages of the operators before the last.",
            "operator",
            _count_upstream,
        )
        yield collect_counter("batch_seconds", "Time of batches by phase.", "phase", self._phases)
        for name, text, by, collect in _LABELLED:
            yield collect_gauge(name, text, by, collect)
        yield collect_present("state_bytes", "Memory of the state.", self._state_bytes)
        yield collect_present(
            "start_time_seconds", "When this run began, Unix time.", lambda _: self._began
        )
        for name, text, of in _FIGURES:
            yield collect_present(name, text, of)

    def _state_bytes(self, query: Query) -> float | None:
        times = self._times.get(query)
        return None if times is None else times.state_bytes

    def _phases(self, query: Query) -> dict[str, float]:
        times = self._times.get(query)
        return {} if times is None else times.seconds

    def serve(self, port: int, address: str, token: str | None) -> None:
        """Serve the figures over HTTP, in threads that end with the process.

        Raises:
            OptionError: When the port is taken.
        """
        from prometheus_client import CollectorRegistry, generate_latest

        from muntin.web.server import WebServer

        registry = CollectorRegistry()
        registry.register(self)
        application = partial(_application, lambda: generate_latest(registry))
        server = WebServer(application, address, port, token, "muntin-metrics")
        # Measure only when the server could be created.
        self._times = {query: query.time_batches() for query in self._queries}
        self._server = server
        self.url = server.url("/metrics")
        server.__enter__()

    def close(self) -> None:
        """Stop serving; further calls do nothing."""
        server, self._server = self._server, None
        if server is not None:
            for times in self._times.values():
                times.close()
            server.close()


def metrics(
    *queries: Query, port: int = 9464, address: str = "127.0.0.1", token: str | None = None
) -> Metrics:
    """Serve figures of running queries for Prometheus, under ``/metrics``.

    Args:
        queries: Started queries; their names distinguish them.
        port: The port to listen on; 0 takes a free one.
        address: The address to listen on; the default is only reachable from this machine.
        token: The token that clients must send, as ``Authorization: Bearer …``.

    Returns:
        The figures: ``.url`` is their address, and ``.close()`` stops serving them.

    Raises:
        MissingExtraError: When ``prometheus-client`` isn't installed.
        OptionError: When other machines could read them without a token, or the port is taken.

    Example:
        >>> figures = metrics(query, port=9464)  # doctest: +SKIP
    """
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("metrics()", "metrics") from error
    if not queries:
        raise OptionError("queries", (), "is empty", "give queries that .start() returned")
    if not token and not is_loopback(address):
        hint = "give a token too, which Prometheus sends as its bearer token"
        raise OptionError("address", address, "lets others read the figures", hint)
    figures = Metrics(queries)
    figures.serve(port, address, token)
    return figures


def _application(
    figures: Callable[[], bytes], token: str | None, closing: Callable[[], bool]
) -> Starlette:
    """Return the web application of the figures, which checks the access of each request."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    from muntin.web.server import has_access

    def answer(request: Request) -> Response:
        if not has_access(request, token):
            headers = {"WWW-Authenticate": "Bearer"}
            return Response("send the token as a bearer token\n", 401 if token else 403, headers)
        # Prometheus' text format, which every version of it reads.
        return Response(figures(), media_type="text/plain; version=0.0.4")

    return Starlette(routes=[Route("/metrics", answer), Route("/", answer)])


def _count_upstream(query: Query) -> dict[str, float]:
    """Return the messages of the upstream operators, by their path from the last one."""

    def list_seen(progress: Progress, way: str) -> Iterator[tuple[str, float]]:
        for name, before in progress.upstreams.items():
            yield f"{way}{name}", before.seen
            yield from list_seen(before, f"{way}{name}/")

    return dict(list_seen(query.progress, ""))


def _degradation(query: Query) -> dict[str, float]:
    reasons = describe_degradation(query.progress)
    return {reason: float(query.is_active and reason in reasons) for reason in DEGRADATIONS}


def _shard_figures(name: str) -> Callable[[Query], dict[str, float]]:
    def collect(query: Query) -> dict[str, float]:
        shards = query.progress.shards.items()
        return {str(shard): figures[name] for shard, figures in shards if name in figures}

    return collect


def _heaviest_keys(query: Query) -> dict[str, float]:
    """Return the messages of the heaviest keys by rank, since keys are too many for labels."""
    numbers = query.progress.heaviest_keys.values()
    return {str(rank): number for rank, number in enumerate(numbers, 1)}


def _retries(query: Query) -> dict[str, int]:
    return query.progress.waiting_for


def _fates(query: Query) -> dict[str, float]:
    counts = query.progress.counts
    return {name: counts.get(name, 0) for name in FATES - {UNDECIDED}}


def _reasons(query: Query) -> dict[str, float]:
    return dict(select_rejections(query.progress.counts))


def _watermark(query: Query) -> float | None:
    moment = query.progress.watermark_micros
    return None if moment is None else moment / SECOND


def _lag(query: Query) -> float | None:
    moment = _watermark(query)
    return None if moment is None else time.time() - moment


_LABELLED: tuple[tuple[str, str, str, Callable[[Query], dict[str, Any]]], ...] = (
    ("lag", "Messages of Kafka not read yet.", "partition", lambda q: q.progress.lag),
    ("degraded", "Whether the query doesn't do what it should.", "reason", _degradation),
    ("waiting_retries", "Failed attempts to reach a server.", "server", _retries),
    ("shard_rows", "Rows in the state of a shard.", "shard", _shard_figures("rows")),
    ("shard_state_bytes", "Bytes of it as stored.", "shard", _shard_figures("state_bytes")),
    ("shard_messages", "Messages of the last batch.", "shard", _shard_figures("messages")),
    ("shard_bytes", "Bytes of these messages.", "shard", _shard_figures("bytes")),
    ("function_seconds", "Time of a user's function.", "function", lambda q: q.progress.functions),
    ("heaviest_key_messages", "Messages of heavy keys.", "rank", _heaviest_keys),
)
_FIGURES: tuple[tuple[str, str, Callable[[Query], float | None]], ...] = (
    ("watermark_seconds", "The watermark, Unix time.", _watermark),
    ("watermark_lag_seconds", "How far it is behind this clock.", _lag),
    ("windows_pending", "Changed windows that wait to emit.", lambda q: q.progress.pending),
    ("state_rows", "Rows in the state.", lambda q: q.progress.state_rows),
    ("batch", "The number of the last batch.", lambda q: q.progress.batch),
    ("running", "Whether the query runs.", lambda q: float(q.is_active)),
    ("adds_up", "Whether every message is accounted for.", lambda q: q.progress.adds_up()),
    ("unwritable", "Rows that a sink couldn't take.", lambda q: q.progress.unwritable),
    ("watcher_failures", "What raised as it watched.", lambda q: q.watcher_failures),
    ("watcher_skipped", "Batches not watched in time.", lambda q: q.watcher_skipped),
)
