"""Tests of faults without Spark, and of the first line that each prints."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import psycopg.conninfo
import pytest
from tests.services.postgres import Postgres

import muntin as mt
from muntin.hosts.leases import LocalLeaseFile, acquire_lease
from muntin.hosts.local import log
from muntin.model.errors import LeaseLostError
from muntin.sources.kafka_broker import Broker, Topics

COLUMNS = "k string, at timestamp"


def put(folder: Path, name: str, *minutes_ahead: float) -> None:
    """Write a file that nobody writes to any more."""
    folder.mkdir(exist_ok=True)
    times = [datetime.now(UTC) + timedelta(minutes=minutes) for minutes in minutes_ahead]
    lines = [f'{{"k": "key-{n}", "at": "{at:%Y-%m-%dT%H:%M:%SZ}"}}\n' for n, at in enumerate(times)]
    (folder / name).write_text("".join(lines))
    os.utime(folder / name, (time.time() - 60,) * 2)


def run(folder: Path, results: Any = None, **options: Any) -> Any:
    """Run a query until it has read all, and return its handle."""
    clicks = mt.files(f"{folder}/in/*.jsonl", columns=COLUMNS)
    windows = mt.windowed(clicks, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    options = {"checkpoint": str(folder / "checkpoint"), **options}
    query = windows.start(results=results, available_now=True, **options)
    query.await_end(60)
    return query


def fill_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_full_disk_of_the_checkpoint_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """The disk is full at the query's start, in a plan, or in a commit."""
    put(tmp_path / "in", "1.jsonl", -5)
    attempts = iter([log.write] * writes)
    monkeypatch.setattr(log, "write", lambda *data: next(attempts, fill_disk)(*data))
    with pytest.raises(mt.OptionError) as caught:
        run(tmp_path)
    assert str(caught.value) == (
        f"checkpoint={str(tmp_path / 'checkpoint')!r} can't be written: No space left on device; "
        "make room, and start the query again: the batch is repeated"
    )


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.EROFS, "mount the disk for writing"),
        (errno.EIO, "correct the rights or the disk"),
        (errno.EDQUOT, "make room"),
    ],
)
@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_disk_that_takes_nothing_any_more_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str, call: str
) -> None:
    """Such a disk may be one that the kernel has made read-only after errors."""
    put(tmp_path / "in", "1.jsonl", -5)
    attempts = iter([getattr(log, call)] * 2)

    def refuse(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(log, call, lambda *data: next(attempts, refuse)(*data))
    with pytest.raises(mt.OptionError) as caught:
        run(tmp_path)
    assert str(caught.value) == (
        f"checkpoint={str(tmp_path / 'checkpoint')!r} can't be written: {os.strerror(code)}; "
        f"{remedy}, and start the query again: the batch is repeated"
    )
    monkeypatch.undo()
    assert run(tmp_path).progress.counts["counted"] == 1


@pytest.mark.parametrize("path", ["checkpoint", "checkpoint/of/clicks"])
def test_a_file_in_place_of_the_checkpoint_is_named(tmp_path: Path, path: str) -> None:
    put(tmp_path / "in", "1.jsonl", -5)
    (tmp_path / "checkpoint").write_text("a note")
    with pytest.raises(mt.OptionError, match="give a folder that this user can write") as caught:
        run(tmp_path, checkpoint=str(tmp_path / path))
    assert str(caught.value).startswith(f"checkpoint={str(tmp_path / path)!r} can't be written: ")


def test_the_address_of_a_bucket_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "in", "1.jsonl", -5)
    with pytest.raises(mt.OptionError, match=r"^checkpoint='s3a://lake/c' is no local folder"):
        run(tmp_path, checkpoint="s3a://lake/c")
    with pytest.raises(mt.OptionError, match=r"^path='s3a://lake/\*.jsonl' is no local folder"):
        mt.files("s3a://lake/*.jsonl", columns=COLUMNS)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_what_waits_for_a_clock_that_was_set_back_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart, a window whose first message came before it doesn't wait for ten minutes."""
    put(tmp_path / "in", "1.jsonl", -5)
    results = mt.to_memory()

    def begin() -> Any:
        clicks = mt.files(f"{tmp_path}/in/*.jsonl", columns=COLUMNS)
        windows = mt.windowed(clicks, key="k", time="at").tumbling("1 day").early(after="2 s")
        return windows.agg(n=mt.count()).start(checkpoint=tmp_path / "c", results=results)

    query = begin()
    while query.progress.batch < 0:
        time.sleep(0.01)
    query.stop()
    assert results.frame().is_empty()
    clock = time.time_ns
    monkeypatch.setattr("muntin.engine.clocks.time_ns", lambda: clock() - 600 * 10**9)
    query = begin()
    deadline = time.monotonic() + 60
    while results.frame().is_empty() and time.monotonic() < deadline:
        time.sleep(0.1)
    query.stop()
    assert results.frame()["n"].to_list() == [1]
    (line,) = [line for line in caplog.messages if "clock is" in line and "behind" in line]
    assert re.match(
        r"this machine's clock is (59\d|600) s behind the last batch\. What waits", line
    )


@pytest.mark.parametrize(
    ("seconds", "lines"),
    [
        (-600, [r"is (599|600) s behind the last batch\. What waits for the clock goes on"]),
        (600, [r"was set forward by (599|600) s while the query ran\. max_ahead="]),
    ],
)
def test_what_waits_for_a_clock_that_is_set_during_a_run_goes_on(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    lines: list[str],
) -> None:
    put(tmp_path / "in", "1.jsonl", -5)
    results = mt.to_memory()
    clicks = mt.files(f"{tmp_path}/in/*.jsonl", columns=COLUMNS)
    windows = mt.windowed(clicks, key="k", time="at").tumbling("1 day").early(after="200 ms")
    query = windows.agg(n=mt.count()).start(checkpoint=tmp_path / "c", results=results)

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 60
        while results.frame().is_empty() or results.frame()["n"].to_list() != [count]:
            assert time.monotonic() < deadline, results.frame()
            time.sleep(0.02)

    wait_for(1)
    clock = time.time_ns
    monkeypatch.setattr("muntin.engine.clocks.time_ns", lambda: clock() + seconds * 10**9)
    put(tmp_path / "in", "2.jsonl", -4)
    wait_for(2)
    query.stop()
    logged = [line for line in caplog.messages if line.startswith("this machine")]
    assert not [line for line in caplog.messages if "producer" in line]
    assert len(logged) == len(lines)
    for line, expected in zip(logged, lines, strict=True):
        assert re.match(f"this machine's clock {expected}", line)


def test_a_file_of_the_checkpoint_that_cant_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start names it, and so do commands that only read the checkpoint."""
    put(tmp_path / "in", "1.jsonl", -5)
    run(tmp_path)
    checkpoint, read = tmp_path / "checkpoint", Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.suffix == ".log":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    for read_it in (lambda: run(tmp_path), lambda: mt.open_state(checkpoint)):
        with pytest.raises(mt.OptionError) as caught:
            read_it()
        assert str(caught.value) == (
            f"checkpoint={str(checkpoint)!r} can't be read: Permission denied; "
            "let this user read 00000001.log"
        )


def test_a_lease_that_cant_be_written_is_named_on_either_host(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_text("a note")
    with pytest.raises(mt.OptionError) as caught:
        acquire_lease(LocalLeaseFile(path), str(path))
    assert str(caught.value) == (
        f"checkpoint={str(path)!r} can't be written: File exists; give a folder that this user "
        "can write"
    )


@pytest.mark.parametrize(
    ("code", "remedy"), [(errno.ENOSPC, "make room"), (errno.EROFS, "mount the disk for writing")]
)
def test_a_disk_that_takes_no_lease_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    def refuse(*_: Any) -> bool:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(LocalLeaseFile, "create", refuse)
    with pytest.raises(mt.OptionError) as caught:
        acquire_lease(LocalLeaseFile(tmp_path), "checkpoint")
    assert str(caught.value) == (
        f"checkpoint='checkpoint' can't be written: {os.strerror(code)}; {remedy}, and start the "
        "query again"
    )


def start(folder: Path, results: Any = None) -> Any:
    """Start a query, and return its handle when it has read the first file."""
    put(folder / "in", "1.jsonl", -5)
    clicks = mt.files(f"{folder}/in/*.jsonl", columns=COLUMNS)
    windows = mt.windowed(clicks, key="k", time="at").tumbling("1 minute").early(each=True)
    query = windows.agg(n=mt.count()).start(checkpoint=folder / "checkpoint", results=results)
    query.await_idle(60)
    return query


def delete_log(checkpoint: Path) -> None:
    for path in checkpoint.glob("*.log"):
        path.unlink()


def put_copy_back(checkpoint: Path) -> None:
    checkpoint.rename(checkpoint.with_name("away"))
    shutil.copytree(checkpoint.with_name("away"), checkpoint)


@pytest.mark.parametrize("strike", [delete_log, put_copy_back])
def test_files_of_the_checkpoint_that_are_replaced_are_noticed(
    tmp_path: Path, strike: Callable[[Path], None]
) -> None:
    """Otherwise the query would commit to files that no restart will read."""
    query = start(tmp_path)
    strike(tmp_path / "checkpoint")
    put(tmp_path / "in", "2.jsonl", -4)
    with pytest.raises(LeaseLostError, match="files of the checkpoint were deleted or replaced"):
        query.await_end(60)


def test_a_sinks_folder_that_is_removed_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = start(tmp_path, mt.to_parquet(tmp_path / "out"))
    shutil.rmtree(tmp_path / "out")
    for number, minutes in ((2, -4), (3, -3)):
        put(tmp_path / "in", f"{number}.jsonl", minutes)
        query.await_idle(60)
    query.stop()
    (line,) = [line for line in caplog.messages if "Parquet" in line]
    assert line.startswith(f"Parquet {tmp_path / 'out'} doesn't exist at batch 1: it is created")


def test_a_full_disk_of_a_sink_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "in", "1.jsonl", -5)
    monkeypatch.setattr("muntin.sinks.parquet.pq.write_table", fill_disk)
    with pytest.raises(mt.SinkError) as caught:
        run(tmp_path, mt.to_parquet(tmp_path / "out"))
    assert str(caught.value).startswith(
        f"{tmp_path / 'out'} can't be written: No space left on device. Make room"
    )


def test_a_file_that_nobody_completes_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "1.parquet"
    path.write_bytes(b"PAR1 and no footer")
    os.utime(path, (time.time() - 60,) * 2)
    reader = mt.files(f"{tmp_path}/*.parquet", columns=COLUMNS).open()
    assert not [reader.plan(None, None).has_new for _ in range(3)].count(True)
    (line,) = caplog.messages
    assert line.startswith(f"{path} isn't complete: it has no footer of Parquet.")


def test_a_file_from_the_future_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a clock was set back, all files are from the future."""
    put(tmp_path / "in", "1.jsonl", -5)
    os.utime(tmp_path / "in" / "1.jsonl", (time.time() + 3600,) * 2)
    reader = mt.files(f"{tmp_path}/in/*.jsonl", columns=COLUMNS).open()
    assert not [reader.plan(None, None).has_new for _ in range(3)].count(True)
    (line,) = caplog.messages
    assert line.startswith(f"{tmp_path / 'in' / '1.jsonl'} is from the future: it was written 3")


@pytest.mark.parametrize("pattern", ["in", "in/*.jsonl"])
def test_a_folder_that_is_removed_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, pattern: str
) -> None:
    put(tmp_path / "in", "1.jsonl", -5)
    reader = mt.files(f"{tmp_path}/{pattern}", columns=COLUMNS, format="jsonl").open()
    end = reader.plan(None, None).end
    (tmp_path / "in").rename(tmp_path / "away")
    assert not [reader.plan(end, None).has_new for _ in range(3)].count(True)
    (line,) = caplog.messages
    assert line.startswith(f"{tmp_path / 'in'} can't be listed: No such file or directory. Restore")


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    put(tmp_path / "in", "1.jsonl", -5)
    path = tmp_path / "views.duckdb"
    path.write_bytes(b"a spreadsheet" * 100)
    with pytest.raises(mt.SinkError) as caught:
        run(tmp_path, mt.to_duckdb(path, "views"))
    assert str(caught.value).startswith(f"DuckDB {path} can't be opened: The file ")


def test_brokers_that_take_no_encryption_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client's last message, that none is reached, doesn't say why."""
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr("muntin.sources.kafka_broker._CONNECTING", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    server.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        client = {"bootstrap.servers": address, "security.protocol": "SSL"}
        broker = Broker(Topics(("clicks",), "earliest", None, client, patience=30.0))
        with pytest.raises(mt.SourceError) as caught:
            broker.describe()
        server.shutdown(socket.SHUT_RDWR)
    assert caplog.messages[0].startswith(f"Kafka at {address} refuses the encryption (ssl://")
    assert "in state SSL_HANDSHAKE)); retrying for 2 s" in caplog.messages[0]
    assert str(caught.value).endswith("Correct security.protocol, the port or the certificates")


def test_the_message_that_moved_the_watermark_ahead_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "in", "1.jsonl", -5, 3, 14, -1)
    run(tmp_path, lambda rows, batch: None)
    line = caplog.messages[0]
    assert line.startswith("batch 0: the watermark is 8")
    assert "s ahead of this machine's clock (moved by k='key-2'), so that messages with" in line


def test_messages_within_the_skew_of_clocks_are_not(tmp_path: Path) -> None:
    put(tmp_path / "in", "1.jsonl", -5, 2 / 60)
    assert run(tmp_path, lambda rows, batch: None).progress.examples == {}


def test_a_topic_that_is_gone_isnt_called_a_broker_that_doesnt_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka = pytest.importorskip("confluent_kafka")
    client = {"bootstrap.servers": "127.0.0.1:9"}
    broker = Broker(Topics(("clicks",), "earliest", None, client, patience=0.0))
    gone = kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.UNKNOWN_TOPIC_OR_PART))

    def ask() -> None:
        raise broker._classify_error(gone, "topic 'clicks'")

    with pytest.raises(mt.SourceError, match=r"^topic 'clicks' isn't on 127\.0\.0\.1:9 any more"):
        broker._run(ask)
    assert caplog.messages[0].startswith("Kafka at 127.0.0.1:9 has no topic 'clicks' now (")


def test_a_wrong_password_isnt_called_a_server_that_doesnt_answer(
    postgres: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "in", "1.jsonl", -5)
    dsn = psycopg.conninfo.make_conninfo(postgres.dsn(), password="wrong")
    sink = mt.to_postgres(dsn, "views")
    with pytest.raises(mt.SinkError, match="refuses us"):
        run(tmp_path, sink)
    server = f"PostgreSQL at 127.0.0.1:{postgres.port}/postgres"
    assert caplog.messages[0].startswith(f"{server} refuses us (")
    assert caplog.messages[0].endswith("retrying for 2 s")


def test_the_figures_of_a_frame_say_who_is_ahead() -> None:
    from muntin.engine import columns
    from muntin.engine.arrival import AheadMessage
    from muntin.engine.clocks import read_machine_clock
    from muntin.engine.operator import Part

    now, hour = read_machine_clock(), 3_600_000_000
    frame = pl.DataFrame(
        {
            columns.TIME: [now, now + hour, now + 9 * hour, None],
            columns.LIMIT_FLAGS["future"]: [False, False, True, False],
            "partition": [0, 1, 2, 3],
            "k": ["a", "b", "c", "d"],
        }
    )
    parts = [Part(0), Part(1)]
    ahead = AheadMessage(["k"])
    assert len(list(ahead.watch([frame, frame[:1]]))) == 2
    ahead.add_to(parts[0])
    # A message that is rejected as `future` moves nothing.
    assert AheadMessage.find_examples(parts) == {"ahead": "partition=1, k='b'"}


def test_a_full_disk_for_rows_that_a_sink_cant_take_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Choosy:
        def write(self, batch: Any) -> None:
            rows = batch.table()
            batch.unwritable.add(rows, "choosy", ["too long"] * len(rows))

    put(tmp_path / "in", "1.jsonl", -5, -1)
    monkeypatch.setattr("muntin.hosts.local.delivery.pq.write_table", fill_disk)
    with pytest.raises(mt.OptionError) as caught:
        run(tmp_path, Choosy())
    assert str(caught.value) == (
        f"checkpoint={str(tmp_path / 'checkpoint')!r} can't be written: No space left on device; "
        "make room, and start the query again: the batch is repeated"
    )
