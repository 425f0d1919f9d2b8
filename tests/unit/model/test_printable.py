"""A terminal obeys no data."""

from __future__ import annotations

import io

from rich.console import Console

from muntin.cli.console import print_text
from muntin.cli.inspect import show
from muntin.model.printable import escape_controls

HOSTILE = "a\x1b]0;title\x07\x9b31m\x7f[bold]b[/bold]\r"


def test_every_control_character_is_written_out() -> None:
    controls = "".join(map(chr, [*range(32), *range(127, 160)]))
    shown = escape_controls(controls)
    assert [c for c in shown if c in controls] == ["\t", "\n"]


def test_what_is_said_and_shown_has_neither_controls_nor_markup() -> None:
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
    shown = out.getvalue()
    assert "[bold]b[/bold]" in shown
    assert r"\x1b]0;title\x07\x9b31m\x7f" in shown
    assert not {*shown} & {chr(n) for n in (*range(9), *range(11, 32), *range(127, 160))}
