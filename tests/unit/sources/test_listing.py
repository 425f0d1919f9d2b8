"""Tests that each file is listed once, whatever links there are, and nothing else is listed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muntin.sources.listing import list_files

PATTERNS = ["in", "in/**/*.csv", "in/**", "**/*.csv", "i*/**/*.csv"]


def list_names(folder: Path, pattern: str) -> list[str]:
    return sorted(os.path.relpath(file.path, folder) for file in list_files(f"{folder}/{pattern}"))


def write_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_links_to_folders_above_lead_nowhere(tmp_path: Path, pattern: str) -> None:
    """Following two of these links would give 2 ** 40 paths."""
    write_file(tmp_path / "in" / "a" / "1.csv")
    for name in ("l1", "l2"):
        (tmp_path / "in" / name).symlink_to(".")
        (tmp_path / "in" / "a" / name).symlink_to("..")
    assert list_names(tmp_path, pattern) == ["in/a/1.csv"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_link_to_a_folder_elsewhere_is_followed(tmp_path: Path, pattern: str) -> None:
    write_file(tmp_path / "other" / "b" / "2.txt")
    write_file(tmp_path / "other" / "b" / "3.csv")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to("../other")
    # A pattern that doesn't match the folder itself reaches its files by the link.
    names = [name for name in list_names(tmp_path, pattern) if name.endswith(".csv")]
    assert names == (["other/b/3.csv"] if pattern.startswith("**") else ["in/link/b/3.csv"])


def test_a_later_link_gives_no_file_another_path(tmp_path: Path) -> None:
    write_file(tmp_path / "in" / "z" / "1.csv")
    before = list_names(tmp_path, "in")
    (tmp_path / "in" / "a").symlink_to("z")
    assert list_names(tmp_path, "in") == before == ["in/z/1.csv"]


def test_a_pipe_a_device_and_what_is_hidden_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "1.csv")
    (tmp_path / "2.csv").symlink_to("/dev/zero")
    (tmp_path / "3.csv").symlink_to("nowhere")
    write_file(tmp_path / "_4.csv")
    write_file(tmp_path / ".hidden" / "5.csv")
    write_file(tmp_path / "6.csv")
    for pattern in ("", "*.csv", "**/*.csv"):
        assert list_names(tmp_path, pattern) == ["6.csv"]


def test_a_pattern_takes_folders_at_any_depth(tmp_path: Path) -> None:
    for name in ("in/1.csv", "in/a/2.csv", "in/a/b/3.csv", "in/a/b/3.txt"):
        write_file(tmp_path / name)
    assert list_names(tmp_path, "in/**/*.csv") == ["in/1.csv", "in/a/2.csv", "in/a/b/3.csv"]
    assert list_names(tmp_path, "in/**/b/*") == ["in/a/b/3.csv", "in/a/b/3.txt"]
    assert list_names(tmp_path, "in/*/*.csv") == ["in/a/2.csv"]
    assert list_names(tmp_path, "**/b/**/*.csv") == ["in/a/b/3.csv"]


@pytest.mark.parametrize("pattern", ["in", "in/*.csv", "in/**/*.csv"])
def test_a_folder_that_cant_be_listed_is_reported(
    tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "in" / "1.csv")
    errors: list[OSError] = []
    assert len(list(list_files(f"{tmp_path}/{pattern}", errors.append))) == 1
    assert not errors

    def refuse(path: str) -> None:
        raise PermissionError(13, os.strerror(13), path)

    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", refuse)
        assert not list(list_files(f"{tmp_path}/{pattern}", errors.append))
    assert {error.filename for error in errors} == {str(tmp_path / "in")}
    (tmp_path / "in").rename(tmp_path / "away")
    errors.clear()
    assert not list(list_files(f"{tmp_path}/{pattern}", errors.append))
    assert [type(error) for error in errors] == [FileNotFoundError]
