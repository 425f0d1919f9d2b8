from __future__ import annotations

import polars as pl

from muntin.state.frames import FrameCache

FRAME = pl.DataFrame({"pane": range(100), "n": range(100)})
SIZE = int(FRAME.estimated_size())


def test_the_cache_stays_within_its_bound() -> None:
    cache = FrameCache(most_bytes=3 * SIZE)
    for number in range(10):
        cache.put(number, FRAME)
        assert cache.bytes <= 3 * SIZE
    assert [cache.get(number) is not None for number in range(10)] == [False] * 7 + [True] * 3


def test_the_least_recently_used_frame_is_evicted_first() -> None:
    cache = FrameCache(most_bytes=2 * SIZE)
    cache.put(1, FRAME)
    cache.put(2, FRAME)
    cache.get(1)
    cache.put(3, FRAME)
    assert [cache.get(number) is not None for number in (1, 2, 3)] == [True, False, True]


def test_a_frame_larger_than_the_cache_is_not_stored() -> None:
    cache = FrameCache(most_bytes=SIZE - 1)
    cache.put(1, FRAME)
    assert (cache.get(1), cache.bytes) == (None, 0)


def test_a_dropped_frame_frees_its_bytes() -> None:
    cache = FrameCache()
    cache.put(1, FRAME)
    cache.drop(1)
    cache.drop(1)
    assert (cache.get(1), cache.bytes) == (None, 0)


def test_frames_that_another_process_has_dropped_are_forgotten() -> None:
    cache = FrameCache()
    for owner, numbers in (("one", (1, 2, 3)), ("another", (4, 5))):
        cache.set_owner(owner)
        for number in numbers:
            cache.put(number, FRAME)
    cache.set_owner("one")
    cache.drop(1)
    cache.retain({2, 7})
    assert [number for number in range(9) if cache.get(number) is not None] == [2, 4, 5]
    assert cache.bytes == 3 * SIZE
    cache.set_owner("another")
    cache.retain({4})
    assert [number for number in range(9) if cache.get(number) is not None] == [2, 4]
