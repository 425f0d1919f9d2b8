"""Options that are declared once, and that several functions take."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, getdoc, signature
from textwrap import fill
from typing import Any, ParamSpec, TypeVar

# Where a docstring leaves room for the options.
_OPTIONS_LINE = re.compile(r"^ *\*\*options: .*$", re.MULTILINE)
_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class DeclaredOption:
    """An option of a function.

    Attributes:
        description: What it does, for the reference of Python.
        default: Its value if it isn't set; ``Parameter.empty`` if it has to be.
    """

    name: str
    description: str
    default: Any = None


def take_options(
    options: Sequence[DeclaredOption], types: type
) -> Callable[[Callable[_Options, _Result]], Callable[_Options, _Result]]:
    """Give a function declared options in place of its parameter ``**options``.

    It is called with all of them. Its signature lists them, with the annotations of ``types``, and
    its docstring describes them.
    """
    defaults = {one.name: one.default for one in options if one.default is not Parameter.empty}
    described = "\n".join(map(_describe_option, options))
    annotations = {name: one.__forward_arg__ for name, one in types.__annotations__.items()}
    declared = [
        Parameter(
            one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=annotations[one.name]
        )
        for one in options
    ]

    def decorate(function: Callable[_Options, _Result]) -> Callable[_Options, _Result]:
        @wraps(function)
        def call(*values: _Options.args, **named: _Options.kwargs) -> _Result:
            return function(*values, **{**defaults, **named})

        own = signature(function)
        parameters = [p for p in own.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        call.__signature__ = own.replace(parameters=[*parameters, *declared])  # type: ignore[attr-defined]
        call.__doc__ = _OPTIONS_LINE.sub(lambda _: described, getdoc(function) or "")
        return call

    return decorate


def _describe_option(option: DeclaredOption) -> str:
    text = f"    {option.name}: {option.description}"
    return fill(text, 92, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
