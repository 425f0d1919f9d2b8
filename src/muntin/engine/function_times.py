"""Measures the time that functions of users take, by the name of the function."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from muntin.model.patience import watch_call

FUNCTION_TIMES = "functions"
"""The seconds of functions of users, among the figures of a step and in the header of a part."""
_LOCAL = threading.local()


@contextmanager
def collect_function_times() -> Iterator[dict[str, float]]:
    """Collect the seconds of functions that are measured in the context, in this thread."""
    before, times = getattr(_LOCAL, "times", None), defaultdict[str, float](float)
    _LOCAL.times = times
    try:
        yield times
    finally:
        _LOCAL.times = before


@contextmanager
def measure_function(function: Callable[..., Any]) -> Iterator[None]:
    """Add the time of the context to a function, if somebody collects it."""
    times: dict[str, float] | None = getattr(_LOCAL, "times", None)
    begun = time.perf_counter()
    try:
        yield
    finally:
        if times is not None:
            times[name_function(function)] += time.perf_counter() - begun


@contextmanager
def watch_function(function: Callable[..., Any]) -> Iterator[None]:
    """Measure a function in the context, which is a wait if it takes unusually long."""
    name = f"the function {name_function(function)}"
    with measure_function(function), watch_call(name, "its batch"):
        yield


def sum_function_times(several: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Add up the seconds of each function.

    Example:
        >>> sum_function_times([{"deliver": 1.5, "add": 0.5}, {"add": 0.25}])
        {'deliver': 1.5, 'add': 0.75}
    """
    total = defaultdict[str, float](float)
    for times in several:
        for name, seconds in times.items():
            total[name] += seconds
    return dict(total)


def name_function(function: Any) -> str:
    """Return the name of a function as its author knows it; of a lambda, the line as well.

    Example:
        >>> name_function(partial(print, 1)), name_function(dict.fromkeys)
        ('print', 'dict.fromkeys')
    """
    function = _unwrap(function)
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    name = name.rpartition("<locals>.")[2]
    code = getattr(function, "__code__", None)
    return f"{name} of line {code.co_firstlineno}" if name == "<lambda>" and code else name


def locate_function(function: Any) -> str | None:
    """Return where a function is, as a line of a traceback; ``None`` for one that isn't Python's.

    Example:
        >>> locate_function(print) is None, locate_function(locate_function).partition(",")[2][:6]
        (True, ' line ')
    """
    code = getattr(_unwrap(function), "__code__", None)
    if code is None:
        return None
    return f'  File "{code.co_filename}", line {code.co_firstlineno}, in {code.co_name}'


def _unwrap(function: Any) -> Any:
    """Return the function of a partial one."""
    while isinstance(function, partial):
        function = function.func
    return function
