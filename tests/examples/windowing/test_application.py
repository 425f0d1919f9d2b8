"""Tests of the windowing application: the rows that it keeps and deletes, and its reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.windowing.__main__ import Application, main
from examples.windowing.options import Options, parse_options
from examples.windowing.report import Event, Maximum, Report

import muntin as mt
from muntin.sources.ticks import TickSource

START = 1_000_000.0


class Run:
    """An application that is stepped by hand, a tenth of a second at a time."""

    def __init__(self, **options: Any) -> None:
        self.now = START
        self.events: list[Event] = []
        options = {"ratelimit": 1000, **options}
        self.application = Application(
            Options(**options),
            TickSource(options["ratelimit"], self.read_clock),
            self.events.append,
            self.read_clock,
        )
        self.table = self.application.table

    def read_clock(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.application.step()

    def report(self) -> Report:
        self.application.report()
        report = self.events[-1]
        assert isinstance(report, Report)
        return report

    def values(self) -> list[tuple[float, int]]:
        """Return the age and the value of each row, the oldest first."""
        frames = [partition.get_messages() for partition in self.table.partitions]
        ages = [(round(self.now - at.timestamp(), 6), n) for f in frames for *_, n, at in f.rows()]
        return sorted(ages, reverse=True)


@pytest.fixture(params=[False, True], ids=["deleter", "inline"])
def inline(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_rows_are_kept_for_the_history(inline: bool) -> None:
    run = Run(historyseconds=1, inline=inline)
    run.advance(3)
    ages = [age for age, _ in run.values()]
    # The deleter waits for a tenth of a second once it has caught up.
    assert 0.99 < max(ages) < 1.21
    assert run.table.summarize().adds_up
    assert run.table.summarize().inserted == pytest.approx(2900, abs=30)


def test_the_newest_rows_are_kept(inline: bool) -> None:
    run = Run(historyseconds=0, maxrows=300, inline=inline, deleteyieldtime=0)
    run.advance(2)
    assert [partition.rows for partition in run.table.partitions] == [150, 150]
    assert run.table.summarize().adds_up


def test_both_limits_hold_together() -> None:
    run = Run(historyseconds=1, maxrows=300)
    run.advance(2)
    assert run.table.rows <= 500
    run.application.options = Options(historyseconds=1, maxrows=300, inline=True)
    run.now += 5
    run.table.delete_everywhere(round(run.now * 1e6))
    assert run.table.rows == 0


def test_inline_nothing_is_deleted_without_inserts_and_a_deleter_goes_on() -> None:
    for inline, rows_remain in ((True, True), (False, False)):
        run = Run(historyseconds=1, inline=inline)
        run.advance(0.5)
        run.application._reader = Silent()
        run.advance(1.5)
        assert (run.table.rows > 0) == rows_remain


class Silent:
    """A reader that has nothing new."""

    def plan(self, start: Any, limit: Any) -> Any:
        return type("Planned", (), {"end": start})

    def read(self, start: Any, end: Any) -> Iterator[Any]:
        return iter(())


def test_chunks_are_exact_and_the_oldest_go_first() -> None:
    run = Run(historyseconds=1, deletechunksize=7, partitions=1)
    run.advance(1)
    before = run.values()
    run.now += 0.5
    deleted = run.table.delete_everywhere(round(run.now * 1e6))
    assert deleted.chunks == -(-deleted.rows // 7)
    assert deleted.rows == pytest.approx(400, abs=2)
    assert [n for _, n in run.values()] == [n for _, n in before[deleted.rows :]]


def test_averages_and_the_maximum_are_those_of_the_rows() -> None:
    run = Run(historyseconds=1, averages="0.5,1,30")
    run.advance(1.5)
    report, rows = run.report(), run.values()
    for span, mean in report.averages.items():
        inside = [n for age, n in rows if age < float(span)]
        assert mean == pytest.approx(sum(inside) / len(inside))
    changes = [event for event in run.events if isinstance(event, Maximum)]
    assert changes[-1].now == max(n for _, n in rows)
    assert [change.before for change in changes[1:]] == [change.now for change in changes[:-1]]
    assert changes[0].before is None


def test_the_maximum_falls_when_its_row_is_deleted() -> None:
    run = Run(historyseconds=0.5)
    run.advance(4)
    changes = [event for event in run.events if isinstance(event, Maximum) and event.before]
    assert any(c.now is not None and c.now < c.before for c in changes)  # type: ignore[operator]
    run.application._reader = Silent()
    run.advance(1)
    assert isinstance(run.events[-1], Maximum)
    assert str(run.events[-1]).startswith("The dataset is empty; its maximum value was")
    assert set(run.report().averages.values()) == {None}


def test_a_report_counts_its_interval() -> None:
    run = Run(historyseconds=1)
    run.advance(2)
    run.report()
    run.advance(1)
    report = run.report()
    assert report.throughput == pytest.approx(1000, rel=0.02)
    assert report.deleted == pytest.approx(1000, abs=200)
    assert report.rows == run.table.rows
    assert 0 <= report.latency_95 <= 101  # type: ignore[operator]
    assert "Average for past   30s:" in str(report)


def test_another_process_requests_deletions(tmp_path: Path) -> None:
    run = Run(historyseconds=0, deletes=tmp_path / "calls")
    run.advance(1)
    request = tmp_path / "calls" / f"{round((run.now - 0.5) * 1e6)}.delete"
    request.touch()
    (tmp_path / "calls" / "soon.delete").touch()
    run.advance(0.1)
    assert not request.exists()
    assert max(age for age, _ in run.values()) == pytest.approx(0.6, abs=0.01)
    assert run.report().deleted == pytest.approx(400, abs=5)
    assert run.table.summarize().adds_up


def test_a_table_in_a_folder_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    run = Run(checkpoint=folder)
    run.advance(1)
    rows = run.values()
    run.table.close()
    reopened = Run(checkpoint=folder)
    assert [n for _, n in reopened.values()] == [n for _, n in rows]
    reopened.advance(0.5)
    assert reopened.table.summarize().adds_up
    reopened.table.close()
    with pytest.raises(mt.OptionError, match="partitions=3 isn't the folder's number, 2; give 2"):
        Run(checkpoint=folder, partitions=3)
    Run(checkpoint=folder).table.close()


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ({"maxrows": -1}, "maxrows=-1 is less than 0; give 0 or more"),
        ({"duration": 0.0}, "duration=0.0 is less than 0.1"),
        ({"deletechunksize": 0}, "deletechunksize=0 is less than 1"),
        ({"historyseconds": 0.0}, "historyseconds=0 and maxrows=0 keep every row forever"),
        ({"averages": "1,x"}, "averages='1,x' aren't numbers"),
        ({"averages": "1,0"}, "averages='1,0' has no length of time"),
    ],
)
def test_options_that_cannot_work(option: dict[str, Any], problem: str) -> None:
    with pytest.raises(mt.OptionError, match=problem):
        Options(**option)


def test_defaults_are_those_of_the_original() -> None:
    options = parse_options([])
    assert (options.displayinterval, options.duration, options.historyseconds) == (5, 120, 30)
    assert (options.maxrows, options.inline, options.deletechunksize) == (0, False, 100)
    assert (options.deleteyieldtime, options.ratelimit) == (100, 15_000)
    assert parse_options(["--inline", "--checkpoint", "here"]).checkpoint == Path("here")


def test_the_command_prints_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--duration", "0.5", "--displayinterval", "0.2", "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {event["event"] for event in events} == {"maximum", "report", "summary"}
    assert events[-1]["adds_up"]
    assert main(["--maxrows", "-1"]) == 1
    assert "error maxrows=-1 is less than 0" in capsys.readouterr().err
