"""A table of the time that the tests of each folder took, for the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def get_folder(nodeid: str) -> str:
    """Return the folder that a test is counted for: two levels deep, three for unit tests."""
    parts = nodeid.split("::")[0].split("/")
    return "/".join(parts[: min(len(parts) - 1, 3 if parts[1:2] == ["unit"] else 2)])


def format_durations(phases: Iterable[tuple[str, float]]) -> list[str]:
    """Return a line for each folder, the slowest first; none for a single folder.

    Args:
        phases: Ids of tests with the seconds of their setup, call or teardown.
    """
    seconds: Counter[str] = Counter()
    tests: dict[str, set[str]] = {}
    for nodeid, duration in phases:
        folder = get_folder(nodeid)
        seconds[folder] += duration
        tests.setdefault(folder, set()).add(nodeid)
    if len(seconds) < 2:
        return []
    return [
        f"{duration:8.1f} s {len(tests[folder]):6d} tests  {folder}"
        for folder, duration in seconds.most_common()
    ]
