"""Tests of functions as sinks, and of outputs that would share a table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.sinks.sink import check_separate_tables, to_sink


async def write_later(rows: Any, batch: int) -> None:
    """Write nothing: a call makes a coroutine."""


def write_lazily(rows: Any, batch: int) -> Iterator[Any]:
    yield rows


async def write_both(rows: Any, batch: int) -> AsyncIterator[Any]:
    yield rows


class Writer:
    async def __call__(self, rows: Any, batch: int) -> None:
        """Write nothing either."""


@pytest.mark.parametrize(
    "function", [write_later, write_lazily, write_both, partial(write_later), Writer()]
)
def test_a_function_whose_body_a_call_doesnt_run_is_refused(function: Any) -> None:
    with pytest.raises(OptionError, match="which a call doesn't run; write a plain function"):
        to_sink(function, "results")


@pytest.mark.parametrize("function", [print, lambda rows, batch: rows, partial(print, end="")])
def test_other_functions_are_taken(function: Any) -> None:
    assert to_sink(function) is not None


def test_two_outputs_into_one_table_are_refused_in_any_spelling(tmp_path: Path) -> None:
    folder, memory = f"{tmp_path}/out", mt.to_memory()
    for sinks in (
        (mt.to_parquet(folder), mt.to_parquet(f"{tmp_path}/x/../out/")),
        (mt.to_parquet(folder), mt.to_parquet(f"file://{folder}")),
        (mt.to_delta(folder), mt.to_delta(f"{tmp_path}/./out")),
        (mt.to_delta(folder, history=f"{folder}/"), None),
        (memory, memory),
    ):
        with pytest.raises(OptionError, match="is where two outputs go"):
            check_separate_tables(sinks)
    check_separate_tables((mt.to_parquet(folder), mt.to_parquet(f"{folder}2"), mt.to_memory()))


def test_a_folder_within_that_of_another_output_is_refused(tmp_path: Path) -> None:
    folder = f"{tmp_path}/out"
    within = mt.to_parquet(f"{folder}/rejected"), mt.to_delta(f"{folder}/deep/er")
    for inner in within:
        for sinks in ((mt.to_parquet(folder), inner), (inner, mt.to_parquet(folder))):
            with pytest.raises(OptionError, match="are outputs of which one is within the other"):
                check_separate_tables(sinks)


def test_a_checkpoint_in_the_folder_of_an_output_is_refused(tmp_path: Path) -> None:
    sinks = (mt.to_parquet(tmp_path / "out"), None)
    for checkpoint in ("out", "out/checkpoint", "x/../out"):
        with pytest.raises(OptionError, match=r"checkpoint='.*' is within .* rows of an output"):
            check_separate_tables(sinks, f"{tmp_path}/{checkpoint}")
    check_separate_tables(sinks, f"{tmp_path}/out-checkpoint")
    check_separate_tables(sinks, "s3a://bucket/out")


def test_paths_begin_with_the_users_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    delta = mt.to_delta("~/views", history=Path("~/log"))
    assert (delta.table, delta.history) == (f"{tmp_path}/views", f"{tmp_path}/log")
    assert mt.to_parquet("~/views").table == f"{tmp_path}/views"
    # A path without a slash isn't a name of Spark's catalog.
    assert mt.to_delta(Path("views")).table == "./views"
    assert mt.to_delta("views").table == "views"
