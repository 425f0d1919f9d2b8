"""Errors for calls with options that a function doesn't have, or without those that it needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, isfunction, signature
from typing import ParamSpec, TypeVar

from muntin.model.close_names import find_close_name
from muntin.model.inputs import INPUT_OPTIONS

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
    **dict.fromkeys(("by", "keys", "group_by", "groupby", "groupBy", "partition_by"), ("key",)),
    "on": ("time", "key"),
    **dict.fromkeys(("ts", "timestamp", "time_column", "index_column"), ("time",)),
    **dict.fromkeys(("watermark_delay", "delay", "delayThreshold"), ("lateness",)),
    "grace": ("lateness",),
    "lateness": ("grace",),
    **dict.fromkeys(("tz", "timezone", "time_zone"), ("zone",)),
    **dict.fromkeys(("filter", "condition"), ("where",)),
    **dict.fromkeys(("start", "start_offset", "startingOffsets", "offset_reset"), ("starting",)),
    **dict.fromkeys(("group_id", "consumer_group"), ("group",)),
    **dict.fromkeys(("schema", "value_schema"), ("columns",)),
    **dict.fromkeys(("freq", "window", "period", "every"), ("size",)),
    **dict.fromkeys(("trigger", "interval", "processingTime"), ("every",)),
    **dict.fromkeys(("sink", "output", "to", "foreachBatch"), ("results",)),
    "checkpoint_location": ("checkpoint",),
}


# Options of other libraries that another call has here.
_ELSEWHERE = {
    "grace": "write windowed(…, lateness=…), or .late(grace=…) behind it",
    **dict.fromkeys(
        ("time", "key", *(option.name for option in INPUT_OPTIONS)),
        "it belongs to the input: mt.windowed(messages, key=…, time=…)",
    ),
    **dict.fromkeys(("left_on", "right_on"), 'write on=[("user", "id")], the left name first'),
    "application_id": "name= names the query; mt.kafka(…, group=…) names its consumer group",
    "processing_guarantee": "leave it out: state, offsets and results are always one commit",
    "num_stream_threads": "write windowed(…, shards=…), the number of parts of the state",
    "outputMode": "leave it out; .early(…) and .late(…) say when a window emits",
    "output_mode": "leave it out; .early(…) and .late(…) say when a window emits",
}


# Meanings of a second positional argument in other libraries.
_SECOND = {"tumbling": "windows that overlap are .hopping(size, slide)"}


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
            if function.__name__ in _SECOND and len(values) > 2:
                problem = "takes one length without a name"
                raise TypeError(f"{function.__name__}() {problem}; {_SECOND[function.__name__]}")
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
    close = find_close_name(name, options, 0.6)
    hint = f"it has {', '.join(f'{one}=' for one in options)}"
    if meant:
        hint = f"write {meant[0]}="
    elif name in _ELSEWHERE:
        hint = _ELSEWHERE[name]
    elif close:
        hint = f"did you mean {close}=?"
    return f"{function}() has no option {name}=; {hint}"
