"""Tests of stores in a real query's state: the contract's suite, failures and restarts."""

from __future__ import annotations

import doctest
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, TwsTester
from tests.contract import forms

import muntin.spark.stores
from muntin.model.errors import MuntinError, OptionError
from muntin.spark.stores import spark_state
from muntin.stores import Image, KeyValue, MessageStore, Session, SessionStore, WindowStore, memory

SUITE = "the contract"
FEED = pa.schema([("key", pa.string()), ("n", pa.int64()), ("time", pa.int64())])
EMITTED = "key string, output string"

# Times of the messages of each key, by batch; in the last one the early times have expired.
BATCHES: list[dict[str, list[int]]] = [
    {"a": [*range(0, 60, 3)], "b": [5], SUITE: [0]},
    {"a": [70, 1, 64, 70], "c": [3, 2, 1]},
    {"b": [6, 300], "c": [400, 401, 4]},
]


def take(kv: KeyValue, times: list[int]) -> str:
    """Add messages to all three stores, and return their contents as JSON."""
    messages = MessageStore(kv, retention=100, most_rows=15)
    windows = WindowStore(kv, retention=100, minimum=1)
    sessions = SessionStore(kv, retention=100, minimum=1)
    for time in times:
        offset = kv.marks.get("offset", -1) + 1
        messages.add({"at": time}, time=time, offset=offset)
        start = time // 10 * 10
        windows.put("n", start, (windows.get("n", start) or 0) + 1)
        merged, n = Session("n", time, time), 1
        for session, count in list(sessions.find_sessions("n", time - 5, time + 5)):
            sessions.remove(session)
            n += count
            merged = Session("n", min(merged.start, session.start), max(merged.end, session.end))
        sessions.put(merged, n)
        kv.flush({"offset": offset})
    messages.retire(100)
    kv.flush()
    return json.dumps(
        {
            "messages": [list(row) for row in messages.get_messages()],
            "windows": [list(row) for row in windows.fetch_all(reverse=True)],
            "sessions": [[*session, n] for session, n in sessions.fetch_all()],
            "figures": [messages.observed, windows.expired, sessions.expired, kv.marks],
        },
        default=str,
    )


class Recorder:
    """Records the state variable that is created, so that a test can clear it."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.variable: Any = None

    def getMapState(self, *arguments: Any) -> Any:  # noqa: N802
        self.variable = self.handle.getMapState(*arguments)
        return self.variable


class Outcomes:
    """A plugin of pytest that records the outcome of each test."""

    def __init__(self) -> None:
        self.by_test: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            short = "passed" if report.passed else "skipped" if report.skipped else ""
            self.by_test[report.nodeid] = short or str(report.longrepr)


class Keeper(StatefulProcessor):
    """Runs ``take`` on each batch of a key, and the contract's suite for the key of that name.

    Args:
        fuse: While this file exists, a batch with the key ``c`` fails after its flush.
    """

    def __init__(self, fuse: str) -> None:
        self.fuse = fuse

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.recorder = Recorder(handle)
        self.state = spark_state(self.recorder, page_bytes=forms.PAGE_BYTES)  # type: ignore[arg-type]

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        if key[0] == SUITE:
            for test, outcome in self.suite().items():
                yield Row(key=SUITE, output=json.dumps([test, outcome]))
            return
        times = [row["time"] for row in sorted(rows, key=lambda row: row["n"])]
        with self.state.open() as kv:
            yield Row(key=key[0], output=take(kv, times))
        if key[0] == "c" and Path(self.fuse).exists():
            raise forms.PulledPlugError

    def suite(self) -> dict[str, str]:
        """Run the contract's tests in this process, on the state of this key."""
        state, recorder = self.state, self.recorder

        class LiveForm(forms.StateForm):
            name, slow = "spark", True

            def __init__(self, folder: Path) -> None:
                recorder.variable.clear()
                self.state = state

        forms.FORMS = (LiveForm,)
        root, outcomes = Path(forms.__file__).parents[2], Outcomes()
        options = ["-p", "no:cacheprovider", "-p", "no:timeout", "-o", "addopts=", "-q"]
        importing = ["--import-mode=importlib", "-W", "ignore::pytest.PytestConfigWarning"]
        folders = [f"--rootdir={root}", str(root / "tests/contract")]
        pytest.main([*options, *importing, *folders], plugins=[outcomes])
        return outcomes.by_test

    def close(self) -> None:
        self.state.close()


class Stream:
    """A query over one file a batch, which can be restarted."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.fuse = folder / "fuse"
        self.emitted: list[tuple[int, str, str]] = []
        (folder / "source").mkdir()

    def add(self, batch: dict[str, list[int]]) -> None:
        rows = [{"key": k, "n": n, "time": t} for k, ts in batch.items() for n, t in enumerate(ts)]
        number = len(list((self.folder / "source").iterdir()))
        path = self.folder / f"source/{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[::-1], FEED), path)

    def run(self) -> None:
        """Process all new files, from the checkpoint."""
        reader = self.spark.readStream.schema("key string, n long, time long")
        frame = reader.option("maxFilesPerTrigger", 1).parquet(f"{self.folder}/source")
        outputs = frame.groupBy("key").transformWithState(
            Keeper(str(self.fuse)), EMITTED, outputMode="append", timeMode="None"
        )

        def collect(batch: DataFrame, number: int) -> None:
            self.emitted += [(number, row["key"], row["output"]) for row in batch.collect()]

        writer = outputs.writeStream.foreachBatch(collect).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{self.folder}/checkpoint")
        writer.start().awaitTermination()


def run_in_memory() -> list[tuple[int, str, str]]:
    """Return the outputs of the same batches in memory, with stores opened for each batch."""
    images: dict[str, Image] = {}
    return [
        (number, key, take(memory(images.setdefault(key, Image())), times))
        for number, batch in enumerate(BATCHES)
        for key, times in batch.items()
        if key != SUITE
    ]


@pytest.mark.long
def test_the_state_of_a_query_keeps_the_contract(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.add(BATCHES[0])
    stream.run()
    outcomes = [json.loads(output) for _, key, output in stream.emitted if key == SUITE]
    # Tests that need a server or a jar may be skipped.
    assert [outcome for outcome in outcomes if outcome[1] not in ("passed", "skipped")] == []
    # Each test of the suite, once.
    passed = [test for test, outcome in outcomes if outcome == "passed"]
    assert len(passed) == len(set(passed)) > 90

    stream.add(BATCHES[1])
    stream.fuse.touch()
    with pytest.raises(StreamingQueryException, match="PulledPlugError"):
        stream.run()
    stream.fuse.unlink()
    stream.add(BATCHES[2])
    stream.run()
    emitted = [row for row in stream.emitted if row[1] != SUITE]
    assert sorted(emitted) == sorted(run_in_memory())


def test_one_key_at_a_time() -> None:
    holder = forms.Holder()
    tester = TwsTester(holder)
    tester.test("a", [])
    store_of_a = holder.state.open()
    windows = WindowStore(store_of_a, retention=100)
    for time in range(20):
        windows.put("n", time, "of a")
    windows.flush()
    store_of_a = holder.state.open()
    unread = WindowStore(store_of_a, retention=100).fetch_all()
    tester.test("b", [])
    store_of_b = holder.state.open()
    assert list(store_of_b.scan()) == []
    for call in (store_of_a.flush, store_of_a.snapshot):
        with pytest.raises(MuntinError, match="the store is closed; open it again"):
            call()
    with pytest.raises(MuntinError, match="the store was closed while it was read; open it again"):
        list(unread)
    tester.test("a", [])
    assert len(list(WindowStore(holder.state.open(), retention=100).fetch_all())) == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [({"name": ""}, "name='' names no state"), ({"page_bytes": 0}, "page_bytes=0 is no size")],
)
def test_options_that_cannot_work(options: dict[str, Any], message: str) -> None:
    class Wrong(forms.Holder):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.state = spark_state(handle, **options)

    with pytest.raises(OptionError, match=message):
        TwsTester(Wrong())


def test_examples() -> None:
    outcome = doctest.testmod(muntin.spark.stores)
    assert (outcome.failed, outcome.attempted > 5) == (0, True)
