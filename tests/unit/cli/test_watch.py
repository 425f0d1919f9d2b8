"""Tests of watching queries, with fake queries."""

from __future__ import annotations

import io
import json
import re
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console

from muntin.cli.console import QueryFailedError
from muntin.cli.watch import LogFormat, make_table, watch
from muntin.hosts.progress import Progress
from muntin.model.patience import Wait


def make_progress() -> Progress:
    return Progress(
        7,
        1_357_000_000_000_000,
        {"seen": 1200, "counted": 1190, "filtered": 0, "late": 8, "null_key": 2},
        pending=3,
        unwritable=1,
        fired={"early": 5, "full": 6},
    )


class Query:
    """Ends when it is quiet, or when it is asked."""

    name = "by origin"

    def __init__(self, failure: Exception | None = None, ends: bool = False) -> None:
        self.query = self
        self.progress = make_progress()
        self.failure = failure
        self.is_active = failure is None and not ends
        self.stopped = 0

    def await_end(self, timeout: float) -> bool:
        if self.failure is not None:
            raise self.failure
        return not self.is_active

    def await_idle(self, timeout: float) -> bool:
        time.sleep(0.05)
        return True

    def describe_resumption(self) -> str:
        return "query 'by origin' has stopped"

    def stop_for_exit(self, patience: float) -> None:
        self.stop()

    def stop(self) -> None:
        self.stopped += 1
        self.is_active = False


def make_console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=160)


@pytest.mark.parametrize("terminal", [True, False])
def test_figures_are_shown_and_a_quiet_query_is_stopped(terminal: bool):
    shown, query = make_console(terminal), Query()
    watch([query], shown, until_quiet=True, total=2400)
    output = shown.file.getvalue()
    assert query.stopped
    for part in ("by origin", "1,200", "8 late, 2 null_key, 1 unwritable", "2013-01-01 00:26"):
        assert part in output


def test_lines_have_the_time_of_day_with_its_zone():
    shown = make_console(False)
    watch([Query()], shown, until_quiet=True)
    line = shown.file.getvalue().splitlines()[0]
    assert re.match(r"\d\d:\d\d:\d\d[+-]\d{4}  by origin: batch 7, 1,200 seen", line)


def test_lines_of_json_have_all_figures_also_on_a_terminal():
    shown = make_console(True)
    watch([Query()], shown, until_quiet=True, log=LogFormat.JSON)
    first, *_ = (json.loads(line) for line in shown.file.getvalue().splitlines())
    assert datetime.fromisoformat(first.pop("time")).utcoffset() is not None
    assert first["query"] == "by origin"
    assert first["counts"]["late"] == 8
    assert first["unwritable"] == 1


def test_a_query_that_ended_ends_the_watch():
    watch([Query(ends=True)], make_console(False))


def test_a_failure_is_told_and_the_others_are_stopped():
    other = Query()
    with pytest.raises(QueryFailedError, match="disk full"):
        watch([Query(RuntimeError("disk full")), other], make_console(False))
    assert other.stopped


def test_a_query_that_fails_while_it_is_awaited_is_told_once(monkeypatch):
    seen = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    query = Query()

    def fail(timeout: float) -> bool:
        query.failure, query.is_active = RuntimeError("disk full"), False
        raise query.failure

    monkeypatch.setattr(query, "await_idle", fail)
    with pytest.raises(QueryFailedError, match="disk full"):
        watch([query], make_console(False), until_quiet=True)
    for thread in threading.enumerate():
        if "_stop_when_quiet" in thread.name:
            thread.join(timeout=10)
    assert not seen


def sleep_in_watch(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], None]) -> None:
    """Replace the pauses of the watching loop, but not those of other threads."""
    clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr("muntin.cli.watch.time", clock)


@pytest.mark.parametrize(
    ("number", "code", "cause"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")],
)
def test_a_signal_stops_the_queries(monkeypatch, number: int, code: int, cause: str):
    sleep_in_watch(monkeypatch, lambda _: signal.raise_signal(number))
    query, shown = Query(), make_console(False)
    with pytest.raises(typer.Exit) as ended:
        watch([query], shown)
    assert ended.value.exit_code == code
    assert query.stopped
    assert shown.file.getvalue().splitlines()[-1] == f"{cause}: query 'by origin' has stopped"


def test_a_query_without_a_batch_has_a_row():
    query = Query()
    query.progress.batch, query.progress.counts, query.progress.watermark_micros = -1, {}, None
    assert make_table([query], time.monotonic()).row_count == 1


def test_lines_are_short_and_said_once(monkeypatch):
    """Without a terminal, a line is printed when there is something new, and no other."""
    shown, query = make_console(False), Query()
    query.progress = make_progress()
    query.progress.batch, steps = -1, iter(range(30))

    def step(_: float) -> None:
        number = next(steps)
        if number >= 10:
            query.progress.batch = number // 10
        query.is_active = number < 29

    monkeypatch.setattr("muntin.cli.watch._LINES_EVERY", 0.0)
    sleep_in_watch(monkeypatch, step)
    watch([query], shown)
    lines = [line.partition("  ")[2] for line in shown.file.getvalue().splitlines()]
    rest = "1,200 seen, 11 emitted, up to 2013-01-01 00:26:40, rejected 8 late, 2 null_key, "
    assert lines == [
        "by origin: starting",
        f"by origin: batch 1, {rest}1 unwritable",
        f"by origin: batch 2, {rest}1 unwritable",
    ]
    assert max(map(len, shown.file.getvalue().splitlines())) <= 130


def test_a_degraded_query_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.hosts.health.list_waits", lambda: {"Kafka at h:9092": Wait(3, 0.0)})
    make_console = Console(record=True, width=160, file=io.StringIO())
    make_console.print(make_table([Query()], 0.0))
    output = make_console.export_text()
    assert "by origin: waiting for Kafka at h:9092 (since " in output
    assert ", 3 retries)" in output
    make_console = Console(record=True, width=160, file=io.StringIO())
    watch([Query(ends=True)], make_console, log=LogFormat.TEXT)
    assert "1 unwritable, degraded" in make_console.export_text()
