"""Errors for calls with options that a function doesn't have, or without those that it needs."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, isfunction, signature
from typing import ParamSpec, TypeVar

_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")
_Class = TypeVar("_Class")

# What to write where a method's required option is missing.
_MISSING = {
    "fill": 'say for how long a silent key is filled: up_to="1 day"',
    "late": 'as in .late(grace="1 hour")',
    "trailing": 'as in .trailing("1 hour", "1 day", every="1 minute")',
}

# Options of other libraries, and the options here that mean the same.
_OTHER_NAMES = {
    **dict.fromkeys(("by", "keys", "group_by", "groupby", "partition_by"), ("key",)),
    "on": ("time", "key"),
    **dict.fromkeys(("ts", "timestamp", "time_column", "index_column"), ("time",)),
    **dict.fromkeys(("watermark_delay", "delay"), ("lateness",)),
    "grace": ("lateness",),
    **dict.fromkeys(("tz", "timezone", "time_zone"), ("zone",)),
    **dict.fromkeys(("filter", "condition"), ("where",)),
    **dict.fromkeys(("start", "start_offset", "startingOffsets", "offset_reset"), ("starting",)),
    **dict.fromkeys(("group_id", "consumer_group"), ("group",)),
    **dict.fromkeys(("schema", "value_schema"), ("columns",)),
    **dict.fromkeys(("freq", "window", "period", "every"), ("size",)),
    **dict.fromkeys(("trigger", "interval"), ("every",)),
    **dict.fromkeys(("sink", "output", "to"), ("results",)),
    "checkpoint_location": ("checkpoint",),
    "left_on": ("on",),
    "right_on": ("on",),
}


def suggest_options(
    hint: str = "",
) -> Callable[[Callable[_Options, _Result]], Callable[_Options, _Result]]:
    """Let calls of a function with unknown or missing options say what to write."""

    def decorate(function: Callable[_Options, _Result]) -> Callable[_Options, _Result]:
        parameters = signature(function).parameters
        named = [n for n, one in parameters.items() if one.kind is not Parameter.POSITIONAL_ONLY]
        takes_all = any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())
        required = [
            name
            for name, one in parameters.items()
            if one.kind is Parameter.KEYWORD_ONLY and one.default is Parameter.empty
        ]

        @wraps(function)
        def call(*values: _Options.args, **options: _Options.kwargs) -> _Result:
            for name in options:
                if not takes_all and name not in named:
                    raise TypeError(_refuse_option(function.__name__, name, named))
            missing = [f"{name}=" for name in required if name not in options]
            if missing:
                then = f"; {hint}" if hint else ""
                raise TypeError(f"{function.__name__}() needs {', '.join(missing)}{then}")
            return function(*values, **options)

        return call

    return decorate


def suggest_method_options(kind: type[_Class]) -> type[_Class]:
    """Let the public methods of a class say what to write in place of a wrong option."""
    for name, method in [*vars(kind).items()]:
        if isfunction(method) and not name.startswith("_"):
            setattr(kind, name, suggest_options(_MISSING.get(name, ""))(method))
    return kind


def _refuse_option(function: str, name: str, named: list[str]) -> str:
    """Return the error message for an option that a function doesn't have."""
    options = [one for one in named if one not in ("self", "frame")]
    meant = [other for other in _OTHER_NAMES.get(name, ()) if other in options]
    close = get_close_matches(name, options, n=1)
    hint = f"it has {', '.join(f'{one}=' for one in options)}"
    if meant:
        hint = f"write {meant[0]}="
    elif close:
        hint = f"did you mean {close[0]}=?"
    return f"{function}() has no option {name}=; {hint}"
