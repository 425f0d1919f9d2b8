"""Tests that errors and metrics quote foreign text without its secrets and control characters."""

from __future__ import annotations

import pytest

from muntin.hosts.progress import Progress
from muntin.model.errors import BatchError, MuntinError, OptionError, SinkError


@pytest.mark.parametrize(
    "error",
    [
        SinkError("http://me:sesame@h answers \x1b[2J503"),
        BatchError("OperationalError: postgresql://me:sesame@h/db", 3, "the sink of results", "f"),
        OptionError("dsn", "host=h password=sesame", "isn't an address", "write it otherwise"),
    ],
)
def test_no_secret_is_in_a_message(error: MuntinError) -> None:
    text = f"{error} {error!r} {error.args}"
    assert "sesame" not in text
    assert "******" in text
    assert "\x1b" not in text


def test_bytes_of_a_name_that_are_no_text_can_be_printed() -> None:
    assert str(MuntinError("/data/\udcff.csv")).encode() == rb"/data/\udcff.csv"


def test_a_clock_that_messages_name_forges_no_line() -> None:
    text = repr(Progress(3, held_by="a\x1b[2J\nBatchError", held_since=2))
    assert r"held_by=a\x1b[2J\nBatchError" in text
    assert text.isprintable()
