from __future__ import annotations

import pytest
from tests.unit.engine.queries import CountingBlobs

from muntin.model.errors import OptionError, StateCorruptedError
from muntin.state.blobs import Blobs as EngineBlobs
from muntin.stores import Blobs, WindowStore, paged
from muntin.stores.paged import PagedKeyValue, decode_page, encode_page


def fill_store(count: int = 1000) -> CountingBlobs:
    blobs = CountingBlobs()
    kv = PagedKeyValue(blobs, page_bytes=256)
    for number in range(count):
        kv.put(b"%04d" % number, b"value")
    kv.flush()
    blobs.calls.clear()
    return blobs


def open_store(blobs: CountingBlobs) -> PagedKeyValue:
    return PagedKeyValue(blobs, page_bytes=256)


def test_a_flush_writes_the_pages_that_were_touched() -> None:
    blobs = fill_store()
    kv = open_store(blobs)
    kv.put(b"0500", b"other")
    kv.delete(b"0900")
    kv.flush()
    assert dict(blobs.calls) == {"get": 2, "put": 2, "remove": 2}
    kv.flush({"offset": 1})
    assert blobs.calls["put"] == 2


def test_the_rows_fill_their_blobs() -> None:
    assert len(fill_store().blobs) == 1000 // 28 + 1


def test_a_look_up_reads_one_blob() -> None:
    blobs = fill_store()
    kv = open_store(blobs)
    assert kv.get(b"0500") == b"value"
    assert kv.get(b"0501") == b"value"
    assert dict(blobs.calls) == {"get": 1}


def test_expired_pages_go_unread() -> None:
    blobs = CountingBlobs()
    kv = PagedKeyValue(blobs, page_bytes=256)
    store = WindowStore(kv, retention=1000, minimum=1)
    for time in range(1000):
        store.put("a", time, time)
    kv.flush()
    blobs_before = len(blobs.blobs)
    blobs.calls.clear()
    store = WindowStore(open_store(blobs), retention=1000, minimum=1)
    store.advance(1750)
    store.flush()
    assert blobs.calls["get"] <= 2
    assert len(blobs.blobs) <= blobs_before / 2 + 2
    assert [row.time for row in store.fetch("a")] == list(range(751, 1000))


def test_a_snapshot_outlives_the_blobs_it_was_taken_from() -> None:
    kv = open_store(fill_store())
    view = kv.snapshot()
    kv.delete_range(b"\x00", b"\xff")
    kv.flush()
    assert len(list(view.scan())) == 1000


def test_pages_are_removed_with_their_rows() -> None:
    blobs = fill_store()
    kv = open_store(blobs)
    kv.delete_range(b"\x00", b"\xff")
    kv.flush()
    assert blobs.blobs == {}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda blob: blob[:-1], "blob {} was cut"),
        (lambda blob: blob[:-1] + b"?", "blob {} was changed: its checksum doesn't fit"),
        (lambda blob: b"MNTN" + blob[4:], "blob {} doesn't start as a page"),
        (lambda blob: b"", "blob {} doesn't start as a page"),
        (lambda blob: blob[:4] + b"\x09" + blob[5:], "blob {} has format 9"),
    ],
)
def test_a_damaged_blob_is_named(damage: object, message: str) -> None:
    blobs = fill_store()
    number = sorted(blobs.blobs)[3]
    blobs.blobs[number] = damage(blobs.blobs[number])  # type: ignore[operator]
    with pytest.raises(StateCorruptedError, match=message.format(number)):
        list(open_store(blobs).scan())


def test_a_missing_blob_is_named() -> None:
    blobs = fill_store()
    number = sorted(blobs.blobs)[3]
    del blobs.blobs[number]
    with pytest.raises(StateCorruptedError, match=f"blob {number}, listed by the manifest"):
        list(open_store(blobs).scan())


def test_a_damaged_manifest_is_refused() -> None:
    blobs = fill_store()
    assert blobs.manifest is not None
    valid_manifest = blobs.manifest
    for manifest in (valid_manifest[:-1], valid_manifest.replace("pages", "qages"), "", "[]"):
        blobs.manifest = manifest
        with pytest.raises(StateCorruptedError, match="manifest was cut or changed"):
            open_store(blobs)


def test_a_page_is_read_back() -> None:
    rows = ([b"a", b"b\x00"], [b"", b"\xff" * 300])
    assert decode_page(1, encode_page(rows)) == rows
    assert decode_page(1, encode_page(([], []))) == ([], [])


def test_a_paged_store_accepts_the_engines_blobs() -> None:
    engine_blobs: EngineBlobs = CountingBlobs()
    store_blobs: Blobs = engine_blobs
    with paged(store_blobs) as kv:
        kv.put(b"a", b"1")
        kv.flush()
        assert kv.get(b"a") == b"1"


def test_a_page_has_a_size() -> None:
    with pytest.raises(OptionError, match="page_bytes=0 is no size"):
        PagedKeyValue(CountingBlobs(), page_bytes=0)
