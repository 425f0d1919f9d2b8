"""Queries over Spark Connect, whose batches are written by a process of the server.

The server starts a Python process for ``foreachBatch``. The pickled sinks are sent there, so a
batch counts as done only when they have it, as without Connect. Figures and rows for watchers come
back through the client's session on the server: figures as a setting of it, rows as a temporary
view. That needs no connection from the server to the client, and no common disk.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from muntin.hosts.failures import Failure
from muntin.hosts.progress import Progress, Totals
from muntin.model.errors import OptionError, SettingError
from muntin.sinks.batch import Batch
from muntin.spark.host.handoff import tag_of_batch
from muntin.spark.host.processor import EMITTED
from muntin.spark.writing import Destination, WrittenBatch, fetch_batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)
# Interval in which the client reads figures, seconds.
_LOOKS = 0.2
# Largest number of batches whose views wait for a watching client.
_VIEWS = 3
# Attempts to start a query. The server gives its Python process ten seconds to start, which a busy
# machine may exceed.
_STARTS = 5
_NO_WORKER = ("failed to connect back", "Timed out while waiting for the Python worker")


class RemoteReporter:
    """Reports batches to the client, from the server's Python process to which it is pickled."""

    def __init__(self, session: str) -> None:
        self._name = uuid.uuid4().hex
        self._session = session
        self._totals = Totals()
        self._views: list[int] = []
        self._writing = False
        self._failure: Failure | None = None

    @property
    def figures_setting(self) -> str:
        """The name of the setting that holds the figures."""
        return f"muntin.query.{self._name}"

    @property
    def watch_setting(self) -> str:
        """The name of the setting by which the client asks for views."""
        return f"{self.figures_setting}.watched"

    def view(self, number: int) -> str:
        """Return the name of the view of a batch's rows."""
        return f"muntin_query_{self._name}_{number}"

    @contextmanager
    def writing(self, emitted: DataFrame, number: int) -> Iterator[None]:
        """Report that a batch is being written, and tag its jobs, while the context lasts."""
        session, mark = emitted.sparkSession, tag_of_batch(self._name, number)
        session.addTag(mark)
        self._writing = True
        self._send()
        try:
            yield
        finally:
            session.removeTag(mark)
            self._writing = False
            self._send()

    def record_batch(self, batch: WrittenBatch) -> None:
        """Add the figures of a written batch, and show its rows if the client watches."""
        self._totals.add(batch.number, batch.figures, batch.unwritable, batch.functions)
        with _forgiving():
            if _client(self._session).conf.get(self.watch_setting, "") == "true":
                self._show(batch)

    def record_failure(self, failure: Failure, error: Exception) -> None:
        """Keep a failure of user code, to report it to the client."""
        self._failure = failure

    def _show(self, batch: WrittenBatch) -> None:
        """Show the rows of a batch to the client as a view, and drop the oldest view."""
        client = _client(self._session)
        rows = client.createDataFrame(batch.emitted.toArrow(), EMITTED)
        rows.createOrReplaceTempView(self.view(batch.number))
        self._views.append(batch.number)
        while len(self._views) > _VIEWS:
            client.catalog.dropTempView(self.view(self._views.pop(0)))

    def _send(self) -> None:
        message = {
            "writing": self._writing,
            "progress": self._totals.progress.to_dict(),
            "views": self._views,
            "failure": self._failure and asdict(self._failure),
        }
        with _forgiving():
            _client(self._session).conf.set(self.figures_setting, json.dumps(message))


@contextmanager
def _forgiving() -> Iterator[None]:
    """Log failures to reach the client in the context, so that the query continues."""
    try:
        yield
    except Exception:
        _LOG.warning("A batch can't be reported to the client. The query continues", exc_info=True)


_CLIENTS: dict[str, SparkSession] = {}


def _client(session: str) -> SparkSession:
    """Return the client's session in the server's Python process; batches run in clones of it."""
    if session not in _CLIENTS:
        url = f"{os.environ['SPARK_CONNECT_LOCAL_URL']};session_id={session}"
        _CLIENTS[session] = SparkSession.builder.remote(url).create()
    return _CLIENTS[session]


@dataclass
class Follower:
    """Follows a query from the client, in a thread that ends with it."""

    spark: SparkSession
    reporter: RemoteReporter
    outputs: Sequence[Destination]
    took: Callable[[Progress, bool], None]
    show: Callable[[int, list[Batch]], None]
    failed: Callable[[Failure], None]
    watchers: Sequence[Any]
    _seen: int = -1
    _asked: bool = False
    _text: str = ""
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def begin(self, query: StreamingQuery) -> None:
        """Follow a query that has started."""
        threading.Thread(
            target=self._follow, args=(query,), daemon=True, name="muntin-following"
        ).start()

    def settle(self, patience: float) -> None:
        """Wait until the last batch of a query that has ended was read."""
        self._ended.wait(patience)

    def _follow(self, query: StreamingQuery) -> None:
        try:
            active = True
            while active:
                active = query.isActive
                self.look()
                if active:
                    time.sleep(_LOOKS)
            self._clear()
        except Exception:
            # The server or the session was closed, and the query ended with it.
            _LOG.debug("A query can't be followed any more", exc_info=True)
        finally:
            self._ended.set()

    def look(self) -> None:
        """Read the figures and rows that the server has reported so far."""
        with self._looking:
            self._look()

    def _look(self) -> None:
        if bool(self.watchers) != self._asked:
            self._asked = not self._asked
            self.spark.conf.set(self.reporter.watch_setting, str(self._asked).lower())
        text = self.spark.conf.get(self.reporter.figures_setting, "") or ""
        if not text or text == self._text:
            return
        self._text, message = text, json.loads(text)
        self.took(Progress.from_dict(message["progress"]), message["writing"])
        if message["failure"]:
            self.failed(Failure(**message["failure"]))
        for number in message["views"]:
            if number > self._seen:
                self._seen = number
                self._fetch(number)

    def _fetch(self, number: int) -> None:
        view = self.reporter.view(number)
        try:
            rows = self.spark.table(view).toArrow()
        except PySparkException:
            return  # The server has dropped the view for that of a newer batch.
        _, batches = fetch_batch(number, self.spark.createDataFrame(rows, EMITTED), self.outputs)
        self.show(number, batches)

    def _clear(self) -> None:
        """Drop the views and settings of the query from the session."""
        message = json.loads(self._text or "{}")
        for number in message.get("views", ()):
            self.spark.catalog.dropTempView(self.reporter.view(number))
        for key in (self.reporter.figures_setting, self.reporter.watch_setting):
            self.spark.conf.unset(key)


def check_sendable(outputs: Sequence[Destination]) -> None:
    """Refuse sinks that can't be sent to the server."""
    from pyspark import cloudpickle

    for output in outputs:
        try:
            cloudpickle.dumps(output.target)
        except Exception as error:
            problem = f"can't be sent to the server of Spark Connect ({error})"
            hint = "open connections, locks and sessions in it when the first batch is written"
            raise OptionError(output.kind, output.sink, problem, hint) from error


def start_with_retries(start: Callable[[], Any]) -> Any:
    """Start a query, and retry while the server's Python process takes too long to start."""
    for attempt in range(_STARTS):
        try:
            return start()
        except PySparkException as error:
            message = str(error)
            if "No module named 'muntin'" in message:
                raise SettingError(_NO_MUNTIN) from error
            if attempt + 1 == _STARTS or not any(words in message for words in _NO_WORKER):
                raise
            _LOG.warning("The server's Python process didn't start in time; trying again")


_NO_MUNTIN = (
    "the server of Spark Connect writes the batches, and its Python has no muntin. "
    "Install it in the Python that PYSPARK_PYTHON names when the server starts"
)
