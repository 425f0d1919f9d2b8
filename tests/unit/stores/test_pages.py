from __future__ import annotations

import pytest

from muntin.stores.pages import Page, PageRows, Pages, PagesView


def fill_pages(count: int, most: int = 64) -> Pages:
    pages = Pages(most)
    for number in range(count):
        pages.put(b"%04d" % number, b"value")
    return pages


def list_keys(pages: Pages) -> list[bytes]:
    return [key for key, _ in pages.snapshot().scan()]


def check_invariants(pages: Pages) -> None:
    """Check the invariants of pages: order, sizes and bounds."""
    assert pages.lows == sorted(set(pages.lows))
    for index, page in enumerate(pages.pages):
        keys, values = page.rows()
        assert keys == sorted(set(keys)) != []
        assert page.bytes == sum(map(len, keys)) + sum(map(len, values))
        assert page.bytes <= pages.max_page_bytes or len(keys) == 1
        assert pages.lows[index] <= keys[0]
        if index + 1 < len(pages.lows):
            assert keys[-1] < pages.lows[index + 1]


def test_rows_in_order_fill_their_pages() -> None:
    pages = fill_pages(700)
    check_invariants(pages)
    assert [len(page.rows()[0]) for page in pages.pages] == [7] * 100


def test_rows_out_of_order_split_pages_in_the_middle() -> None:
    pages = Pages(64)
    for number in range(0, 7000, 7):
        pages.put(b"%04d" % (number % 1000), b"value")
        check_invariants(pages)
    assert len(pages.pages) < 2 * 1000 / 7 + 2


def test_a_row_greater_than_a_page_has_one_of_its_own() -> None:
    pages = fill_pages(7)
    pages.put(b"0003", b"x" * 1000)
    check_invariants(pages)
    assert pages.get(b"0003") == b"x" * 1000


@pytest.mark.parametrize("order", [1, -1])
def test_pages_that_shrink_are_joined(order: int) -> None:
    pages = fill_pages(700)
    for number in range(700)[::order]:
        if number % 10:
            pages.delete(b"%04d" % number)
    check_invariants(pages)
    assert len(list_keys(pages)) == 70
    assert len(pages.pages) < 40
    pages.delete_range(b"", b"\xff")
    assert (pages.pages, pages.lows) == ([], [])


def test_a_range_is_deleted_by_whole_pages() -> None:
    for low, high in [(0, 700), (3, 699), (7, 70), (8, 9), (650, 900), (10, 10), (20, 10)]:
        pages = fill_pages(700)
        pages.delete_range(b"%04d" % low, b"%04d" % high)
        check_invariants(pages)
        assert list_keys(pages) == [b"%04d" % n for n in range(700) if not low <= n < high]


def test_a_snapshot_shares_pages_that_are_not_written() -> None:
    pages = fill_pages(70)
    view = pages.snapshot()
    old_pages = list(view.pages)
    assert pages.snapshot() is view
    pages.put(b"0003", b"new")
    assert view.get(b"0003") == b"value"
    assert [page is old_page for page, old_page in zip(pages.pages, old_pages, strict=True)] == [
        False
    ] + [True] * 9


def test_nothing_is_copied_for_a_snapshot_without_references() -> None:
    pages = fill_pages(70)
    page, page_list = pages.pages[0], pages.pages
    assert next(pages.snapshot().scan())[0] == b"0000"
    pages.put(b"0003", b"new")
    assert pages.pages is page_list
    assert pages.pages[0] is page


def build_stored_pages(*blobs: list[int]) -> tuple[Pages, list[int]]:
    """Return pages that are loaded on demand, and the list of numbers that were loaded."""
    loaded: list[int] = []

    def load(number: int) -> PageRows:
        loaded.append(number)
        keys = [b"%04d" % n for n in blobs[number]]
        return keys, [b"value"] * len(keys)

    pages = [Page(None, 9 * len(rows), 0, n, load) for n, rows in enumerate(blobs)]
    return Pages(64, PagesView([b"%04d" % rows[0] for rows in blobs], pages)), loaded


def test_only_the_requested_pages_are_read() -> None:
    pages, loaded = build_stored_pages([0, 1], [10, 11], [20, 21], [30, 31])
    assert pages.get(b"0011") == b"value"
    assert list(pages.snapshot().scan(b"0012", b"0021")) == [(b"0020", b"value")]
    assert loaded == [1, 2]


def test_a_range_is_dropped_unread() -> None:
    pages, loaded = build_stored_pages([0, 1], [10, 11], [20, 21], [30, 31])
    pages.delete_range(b"", b"0020")
    assert loaded == []
    assert [page.number for page in pages.replaced] == [0, 1]
    assert list_keys(pages) == [b"0020", b"0021", b"0030", b"0031"]


def test_a_page_that_is_written_leaves_its_blob() -> None:
    pages, _ = build_stored_pages([0, 1], [10, 11])
    pages.put(b"0001", b"new")
    pages.delete(b"0000")
    assert [page.number for page in pages.replaced] == [
        0,
        1,
    ]  # too small now, so it joined the next
    assert [page.number for page in pages.pages] == [None]
