"""Tests of functions as sinks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from muntin.model.errors import OptionError
from muntin.sinks.sink import to_sink


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
