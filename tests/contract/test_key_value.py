"""Tests of stores of bytes: order, ranges, snapshots, and the atomic flush."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.contract.forms import Form, PulledPlugError

from muntin.model.errors import MuntinError, OptionError, StateCorruptedError
from muntin.stores import KeyValue, WindowStore, rocks

ROWS = [(bytes([n]), b"value %d" % n) for n in range(1, 30)]


def fill(form: Form) -> KeyValue:
    kv = form.open()
    for key, value in reversed(ROWS):
        kv.put(key, value)
    return kv


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize(
    ("low", "high"), [(None, None), (b"\x03", b"\x09"), (b"\x03\x00", None), (b"\x09", b"\x03")]
)
def test_rows_come_in_order_and_backwards(
    form: Form, low: bytes | None, high: bytes | None, flushed: bool
) -> None:
    kv = fill(form)
    if flushed:
        kv.flush()
    wanted = [r for r in ROWS if (low is None or r[0] >= low) and (high is None or r[0] < high)]
    assert list(kv.scan(low, high)) == wanted
    assert list(kv.scan(low, high, reverse=True)) == wanted[::-1]


def test_a_snapshot_is_strict(form: Form) -> None:
    kv = fill(form)
    kv.flush({"offset": 1})
    kv.put(b"\x05", b"unflushed")
    expected = dict(ROWS) | {b"\x05": b"unflushed"}
    view, partial_scan = kv.snapshot(), kv.scan()
    first_rows = [next(partial_scan) for _ in range(4)]
    kv.delete_range(b"\x02", b"\x20")
    kv.put(b"\x05", b"later")
    kv.put(b"\x05\x00", b"new")
    kv.flush()
    kv.delete(b"\x01")
    kv.flush()
    assert dict(view.scan()) == expected
    assert list(view.scan(reverse=True)) == sorted(expected.items(), reverse=True)
    assert [*first_rows, *partial_scan] == sorted(expected.items())
    assert (view.get(b"\x05"), view.get(b"\x05\x00")) == (b"unflushed", None)
    assert list(kv.scan()) == [(b"\x05", b"later"), (b"\x05\x00", b"new")]


def test_a_deleted_range_is_gone_before_and_after_its_flush(form: Form) -> None:
    kv = fill(form)
    kv.flush()
    kv.put(b"\x08\x00", b"unflushed")
    kv.delete_range(b"\x03", b"\x09")
    kv.put(b"\x05", b"put back")
    kv.delete_range(b"\x14", b"\x15")
    rows = {k: v for k, v in ROWS if not b"\x03" <= k < b"\x09" and k != b"\x14"}
    rows[b"\x05"] = b"put back"
    for _ in range(2):
        assert list(kv.scan()) == sorted(rows.items())
        assert list(kv.scan(reverse=True)) == sorted(rows.items(), reverse=True)
        assert [kv.get(key) for key, _ in ROWS] == [rows.get(key) for key, _ in ROWS]
        assert [kv.snapshot().get(key) for key, _ in ROWS] == [rows.get(key) for key, _ in ROWS]
        assert kv.get(b"\x08\x00") is None
        kv.flush()
    assert list(form.open().scan()) == sorted(rows.items())


def test_scans_of_one_snapshot_do_not_disturb_each_other(form: Form) -> None:
    kv = fill(form)
    kv.flush()
    view = kv.snapshot()
    forward, backward, part = view.scan(), view.scan(reverse=True), view.scan(b"\x05", b"\x09")
    seen = []
    for row, opposite in zip(forward, backward, strict=True):
        assert view.get(b"\x01") == b"value 1"
        next(part, None)
        seen.append((row, opposite))
    assert seen == list(zip(ROWS, ROWS[::-1], strict=True))


def test_a_crash_before_the_flush_leaves_the_last_one(form: Form) -> None:
    kv = fill(form)
    kv.flush({"offset": 29, "topic": "flights"})
    kv.put(b"\x01", b"lost")
    kv.delete_range(b"\x02", b"\x09")
    reopened = form.open()
    assert list(reopened.scan()) == ROWS
    assert reopened.marks == {"offset": 29, "topic": "flights"}


@pytest.mark.parametrize("write", [0, 1, 2, 3])
def test_a_crash_in_the_middle_of_a_flush_leaves_the_last_one(form: Form, write: int) -> None:
    kv = fill(form)
    kv.flush({"offset": 29})
    for key, _ in ROWS:
        kv.put(key + b"\x00", b"lost")
    kv.delete_range(b"\x02", b"\x09")
    with form.failing(write), pytest.raises(PulledPlugError):
        kv.flush({"offset": 58})
    reopened = form.open()
    assert list(reopened.scan()) == ROWS
    assert reopened.marks == {"offset": 29}
    reopened.put(b"\x01", b"after")
    reopened.flush({"offset": 30})
    again = form.open()
    assert (again.get(b"\x01"), again.get(b"\x02"), again.marks) == (
        b"after",
        b"value 2",
        {"offset": 30},
    )


def test_a_flush_that_failed_can_be_repeated(form: Form) -> None:
    kv = fill(form)
    kv.flush({"offset": 29})
    kv.put(b"\x01", b"new")
    kv.put(b"\x1d", b"new")
    with form.failing(1), pytest.raises(PulledPlugError):
        kv.flush({"offset": 31})
    assert kv.marks == {"offset": 29}
    kv.flush({"offset": 31})
    assert form.open().marks == {"offset": 31}
    assert form.open().get(b"\x01") == b"new"


def test_closing_does_not_flush(form: Form) -> None:
    with fill(form) as kv:
        pass
    kv.close()
    assert list(form.open().scan()) == []


def test_a_closed_store_says_so(form: Form) -> None:
    kv = fill(form)
    kv.flush()
    open_scan = kv.scan()
    next(open_scan)
    kv.close()
    for call in (kv.snapshot, kv.flush, lambda: kv.get(b"\x01"), lambda: kv.put(b"\x01", b"")):
        with pytest.raises(MuntinError, match="closed; open it again"):
            call()
    assert list(form.open().scan()) == ROWS


@pytest.mark.parametrize("read", [0, 1, len(ROWS)])
@pytest.mark.parametrize("flushed", [False, True])
def test_what_is_read_ends_with_its_store(form: Form, flushed: bool, read: int) -> None:
    kv = fill(form)
    if flushed:
        kv.flush()
    view = kv.snapshot()
    scans = [kv.scan(), view.scan(), view.scan(reverse=True)]
    for scan in scans:
        assert len([next(scan) for _ in range(read)]) == read
    kv.close()
    for call in (*(lambda scan=scan: next(scan) for scan in scans), lambda: view.get(b"\x01")):
        with pytest.raises(MuntinError, match="the store was closed while it was read"):
            call()


def test_an_empty_key_is_refused(form: Form) -> None:
    kv = form.open()
    with pytest.raises(OptionError, match="is empty"):
        kv.put(b"", b"value")
    kv.flush({"offset": 1})
    assert kv.get(b"") is None
    kv.delete(b"")
    kv.delete_range(b"", b"\xff")
    kv.flush()
    assert form.open().marks == {"offset": 1}


def test_marks_that_cannot_be_kept_flush_nothing(form: Form) -> None:
    kv = fill(form)
    with pytest.raises(OptionError, match="can't be written as JSON"):
        kv.flush({"offset": object()})
    assert list(form.open().scan()) == []


def test_stores_of_one_place_are_flushed_together(form: Form) -> None:
    kv = form.open()
    first, second = (
        WindowStore(kv, name="one", retention=100),
        WindowStore(kv, name="two", retention=9),
    )
    first.put("a", 5, 1)
    second.put("a", 500, 2)
    first.flush({"offset": 2})
    kv = form.open()
    first, second = (
        WindowStore(kv, name="one", retention=100),
        WindowStore(kv, name="two", retention=9),
    )
    assert (first.get("a", 5), second.get("a", 500)) == (1, 2)
    assert (first.observed, second.observed) == (5, 500)
    with pytest.raises(OptionError, match="is taken by another store"):
        WindowStore(kv, name="two", retention=9)
    for name in (None, "", 5):
        with pytest.raises(OptionError, match="isn't a name"):
            WindowStore(kv, name=name, retention=9)  # type: ignore[arg-type]


def test_a_store_that_is_not_opened_is_kept(form: Form) -> None:
    kv = form.open()
    WindowStore(kv, name="one", retention=100).put("a", 5, 1)
    kv.flush()
    kv = form.open()
    WindowStore(kv, name="two", retention=100).put("a", 7, 1)
    kv.flush()
    assert WindowStore(form.open(), name="one", retention=100).observed == 5


def test_a_document_of_another_format_is_refused(form: Form) -> None:
    kv = form.open()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["muntin.stores.kv"], "_FORMAT", 99)
        kv.flush()
    for _ in range(2):  # the refusal closes it
        with pytest.raises(StateCorruptedError, match="format 99"):
            form.open()


class KeyValueMachine(RuleBasedStateMachine):
    """Compares a store with a dictionary of its rows, and one of the rows at the last flush."""

    key = st.binary(min_size=1, max_size=2)

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self.kv = form.open()
        self.rows: dict[bytes, bytes] = {}
        self.flushed: dict[bytes, bytes] = {}
        self.scans: list[tuple[Iterator[Any], list[Any]]] = []

    @rule(key=key, value=st.binary(max_size=40))
    def put(self, key: bytes, value: bytes) -> None:
        self.kv.put(key, value)
        self.rows[key] = value

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        stored_keys = st.sampled_from(sorted(self.rows)) if self.rows else self.key
        key = data.draw(stored_keys | self.key)
        self.kv.delete(key)
        self.rows.pop(key, None)

    @rule(low=key, high=key)
    def delete_range(self, low: bytes, high: bytes) -> None:
        self.kv.delete_range(low, high)
        self.rows = {k: v for k, v in self.rows.items() if not low <= k < high}

    @rule(low=st.none() | key, high=st.none() | key, reverse=st.booleans())
    def start_scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> None:
        wanted = sorted(
            r
            for r in self.rows.items()
            if (low is None or r[0] >= low) and (high is None or r[0] < high)
        )
        self.scans.append(
            (self.kv.scan(low, high, reverse=reverse), wanted[::-1] if reverse else wanted)
        )

    @rule()
    def finish_scans(self) -> None:
        for scan, wanted in self.scans:
            assert list(scan) == wanted
        self.scans.clear()

    @rule()
    def flush(self) -> None:
        self.kv.flush({"rows": len(self.rows)})
        self.flushed = dict(self.rows)

    @rule()
    def crash(self) -> None:
        self.scans.clear()
        self.kv = self.form.open()
        self.rows = dict(self.flushed)
        assert self.kv.marks.get("rows", 0) == len(self.rows)

    @rule(write=st.integers(0, 3))
    def crash_while_flushing(self, write: int) -> None:
        try:
            with self.form.failing(write):
                self.kv.flush({"rows": len(self.rows)})
            self.flushed = dict(self.rows)
        except PulledPlugError:
            pass
        self.crash()

    @rule(key=key)
    def get(self, key: bytes) -> None:
        assert self.kv.get(key) == self.rows.get(key)

    @invariant()
    def equals_the_model(self) -> None:
        assert list(self.kv.scan()) == sorted(self.rows.items())

    def teardown(self) -> None:
        self.kv.close()


def test_it_behaves_as_a_dictionary(walk: Callable[[Any], None]) -> None:
    walk(KeyValueMachine)


VICTIM = """
import sys
from muntin.stores import WindowStore, rocks
kv = rocks(sys.argv[1], sync=False)
store = WindowStore(kv, retention=10**6)
for time in range(10**6):
    store.put("a", time, time)
    if time % 50 == 49:
        store.flush({"offset": time})
        print(time, flush=True)
"""


def test_a_killed_process_leaves_the_last_flush(tmp_path: Path) -> None:
    command = [sys.executable, "-c", VICTIM, str(tmp_path / "rows")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        for _ in range(20):
            printed_offset = int(victim.stdout.readline())
        victim.kill()
    with rocks(tmp_path / "rows") as kv:
        store = WindowStore(kv, retention=10**6)
        offset = kv.marks["offset"]
        assert offset >= printed_offset
        assert store.observed == offset
        assert [row.time for row in store.fetch("a")] == list(range(offset + 1))


def test_a_folder_is_opened_once(tmp_path: Path) -> None:
    with rocks(tmp_path / "rows"), pytest.raises(MuntinError, match="open elsewhere"):
        rocks(tmp_path / "rows")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    import rocksdict

    foreign_database = rocksdict.Rdict(str(tmp_path / "rows"), rocksdict.Options(raw_mode=True))
    foreign_database[b"theirs"] = b"1"
    foreign_database.close()
    with pytest.raises(StateCorruptedError, match="didn't write"):
        rocks(tmp_path / "rows")
