"""Tests that control characters in data never reach a terminal."""

from __future__ import annotations

import io
import logging
import pickle
from pathlib import Path

import pytest
from rich.console import Console

from muntin.cli.console import print_text
from muntin.cli.inspect import show
from muntin.cli.lines import Lines, RowFormat
from muntin.model.errors import MuntinError, SourceError
from muntin.model.printable import escape_controls, escape_line

HOSTILE = "a\x1b]0;title\x07\x9b31m\x7f[bold]b[/bold]\r"


def test_every_control_character_is_escaped() -> None:
    controls = "".join(map(chr, [*range(32), *range(127, 160)]))
    escaped = escape_controls(controls)
    assert [c for c in escaped if c in controls] == ["\t", "\n"]


def test_console_output_has_neither_controls_nor_markup() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=False, width=200)
    print_text(console, HOSTILE)
    rows = [{"key": HOSTILE, HOSTILE: 1}]
    report = {
        "checkpoint": HOSTILE,
        "batch": 1,
        "kept": (0, 1),
        "watermark": None,
        "counts": {},
        "shards": [],
        "kind": "windows",
        "spec": {HOSTILE: HOSTILE},
        "tables": rows,
        "key": rows,
    }
    show(report, console)
    output = out.getvalue()
    assert "[bold]b[/bold]" in output
    assert r"\x1b]0;title\x07\x9b31m\x7f" in output
    assert not {*output} & {chr(n) for n in (*range(9), *range(11, 32), *range(127, 160))}


def test_marks_of_text_direction_are_escaped() -> None:
    assert escape_controls("a\u202eb\u2066c") == "a\\u202eb\\u2066c"
    assert escape_controls("שלום") == "שלום"


def test_data_forges_no_line_of_a_log() -> None:
    assert escape_line("a\nERROR\r\u2028b") == "a\\nERROR\\x0d\\u2028b"


@pytest.mark.parametrize("kind", [MuntinError, SourceError])
def test_errors_hold_no_controls(kind: type[MuntinError]) -> None:
    error = kind(f"{HOSTILE}\nline")
    assert str(error) == f"{escape_controls(HOSTILE)}\nline"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_name_of_a_file_forges_no_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import muntin as mt

    (tmp_path / "a\n\x1bb.json").write_bytes(b'{"at": "2026-01-01T00:00:00Z"}\n')
    rows = mt.files(f"{tmp_path}/*", format="parquet", columns="at timestamp", bad_files="skip")
    windows = mt.windowed(rows, time="at").tumbling("1 minute").agg(n=mt.count())
    with caplog.at_level(logging.WARNING):
        windows.start(checkpoint=f"{tmp_path}/checkpoint", available_now=True).await_end(60)
    skipped = [record.getMessage() for record in caplog.records if "skipped" in record.msg]
    assert len(skipped) == 1
    assert not any(c in text for text in skipped for c in "\n\x1b")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("out", "expected"), [(Terminal(), r"a\x9bb"), (io.StringIO(), "a\x9bb")])
def test_lines_are_escaped_for_a_terminal_alone(out: io.StringIO, expected: str) -> None:
    Lines(out, RowFormat.CSV, ["a\x9bb"])
    assert out.getvalue() == f"{expected}\n"
