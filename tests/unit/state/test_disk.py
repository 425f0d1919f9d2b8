"""Tests that writing a file never follows a symbolic link."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.state import disk
from muntin.state.disk import replace_text


def test_a_link_is_replaced_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for a link at the file's own name and at the name of the temporary file."""
    monkeypatch.setattr(disk.secrets, "token_hex", lambda _: "guessed")
    link_target, record_path = tmp_path / "other", tmp_path / "record.json"
    link_target.write_text("mine")
    record_path.symlink_to(link_target)
    replace_text(record_path, "new")
    (tmp_path / ".record.json.guessed").symlink_to(link_target)
    with pytest.raises(FileExistsError):
        replace_text(record_path, "newer")
    assert (record_path.read_text(), record_path.is_symlink(), link_target.read_text()) == (
        "new",
        False,
        "mine",
    )
