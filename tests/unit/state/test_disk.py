"""Files are written where they are named, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.state import disk
from muntin.state.disk import replace_text


def test_a_link_is_replaced_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one at the file's own name, nor one where the text is written first."""
    monkeypatch.setattr(disk.secrets, "token_hex", lambda _: "guessed")
    other, file = tmp_path / "other", tmp_path / "record.json"
    other.write_text("mine")
    file.symlink_to(other)
    replace_text(file, "new")
    (tmp_path / ".record.json.guessed").symlink_to(other)
    with pytest.raises(FileExistsError):
        replace_text(file, "newer")
    assert (file.read_text(), file.is_symlink(), other.read_text()) == ("new", False, "mine")
