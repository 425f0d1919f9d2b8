"""What is shown of a run, from what shards emitted."""

from __future__ import annotations

import json

from muntin.apps.windowing import Monitor, Options, TableProgress


def progress(shard: int = 0, **changes: object) -> TableProgress:
    given: dict[str, object] = {
        "shard": shard,
        "clock": 3_723_000,
        "inserted": 30,
        "deleted": 20,
        "chunks": 2,
        "rows": 10,
        "bytes": 320,
        "backlog": 4,
        "oldest": 3_691_000,
        "greatest": 7,
        "averages": [(10, 4), (0, 0), (10, 4), (10, 4)],
        "times": [(3_722_000, 30)],
        "totals": (30, 20),
    }
    return TableProgress(**(given | changes))  # type: ignore[arg-type]


def monitor() -> Monitor:
    made = Monitor(Options())
    made.start(100.0)
    return made


def test_a_report_is_the_originals_and_more():
    emitted = monitor()
    emitted.add_batch(0, [progress(0), progress(1, averages=[(2, 2)] * 4, greatest=9)], 3_722_105)
    assert emitted.report(105.0).lines() == [
        "01:02:03 Report:",
        "  Average values over time windows:",
        "    Average for past    1s: 2.00",
        "    Average for past    5s: 1.00",
        "    Average for past   10s: 2.00",
        "    Average for past   30s: 2.00",
        "  Insert Statistics:",
        "    Throughput 12/s, rejected 0, avg/95% latency 100/100 ms",
        "  Deleted 40 tuples since last report, in 4 chunks",
        "  Table: 20 rows (0.0 MB), backlog 8, delete lag 2,000 ms, maximum 9",
    ]


def test_an_empty_table_has_no_averages_and_no_maximum():
    emitted = monitor()
    nothing = progress(
        inserted=0, rows=0, greatest=None, oldest=None, averages=[(0, 0)] * 4, times=[]
    )
    emitted.add_batch(0, [nothing], 0)
    report = emitted.report(101.0)
    assert set(report.averages.values()) == {None}
    assert (report.maximum, report.lag, report.latency) == (None, 0, None)
    assert "maximum none" in report.lines()[-1]


def test_figures_of_a_report_are_those_of_its_interval():
    emitted = monitor()
    emitted.add_batch(0, [progress(rejected={"malformed": 2})], 3_723_000)
    assert emitted.report(101.0).rejected == {"malformed": 2}
    emitted.add_batch(1, [progress(inserted=5, deleted=0, chunks=0)], 3_724_000)
    second = emitted.report(103.0)
    assert (second.inserted, second.deleted, second.throughput) == (5, 0, 2.5)
    assert (second.rejected, second.seconds, second.batches) == ({}, 2.0, 1)


def test_a_repeated_batch_is_taken_once():
    emitted = monitor()
    emitted.add_batch(3, [progress()], 3_723_000)
    assert emitted.add_batch(3, [progress(greatest=99)], 3_723_000) is None
    assert emitted.summary(110.0).inserted == 30


def test_the_slowest_twentieth_is_left_out_of_the_percentile():
    emitted = monitor()
    emitted.add_batch(0, [progress(times=[(1000, 95), (0, 5)])], 1105)
    report = emitted.report(101.0)
    assert report.latency_95 == 100
    assert report.latency == 150


def test_changes_of_the_maximum_are_said_once_each():
    emitted = monitor()
    changes = [
        emitted.add_batch(batch, [progress(greatest=value)], 0)
        for batch, value in enumerate([7, 7, 12, None, -3])
    ]
    assert [None if change is None else str(change) for change in changes] == [
        "The initial maximum value for the dataset has been set to 7.",
        None,
        "The maximum value for the dataset has changed from 7 to 12.",
        "The dataset is empty; its maximum value was 12.",
        "The initial maximum value for the dataset has been set to -3.",
    ]
    assert changes[2].to_dict() == {"event": "maximum", "before": 7, "now": 12}


def test_the_summary_says_whether_rows_add_up():
    emitted = monitor()
    emitted.add_batch(0, [progress()], 0)
    emitted.add_batch(1, [progress(rows=9, backlog=0)], 0)
    summary = emitted.summary(110.0)
    assert (summary.inserted, summary.deleted, summary.throughput) == (60, 40, 6.0)
    assert (summary.most_rows, summary.most_backlog) == (10, 4)
    assert not summary.adds_up
    assert summary.lines()[-1].strip().startswith("WRONG")
    emitted.add_batch(2, [progress(totals=(50, 40))], 0)
    assert emitted.summary(110.0).adds_up


def test_everything_is_told_in_json_too():
    emitted = monitor()
    emitted.add_batch(0, [progress()], 3_723_000)
    report = json.loads(json.dumps(emitted.report(101.0).to_dict()))
    assert report["event"] == "report"
    assert report["averages"] == {"1": 2.5, "5": None, "10": 2.5, "30": 2.5}
    assert json.loads(json.dumps(emitted.summary(102.0).to_dict()))["event"] == "summary"
