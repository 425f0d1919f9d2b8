"""Shows docstrings as code has them at run time: an extension of mkdocstrings' reader."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
_DECLARED = re.compile(r"\b(Input|Join)OptionTypes\b")


class ExamplesAsCode(griffe.Extension):
    """Reads ``Example:`` as the section of that meaning, which Griffe calls ``Examples:``."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub("Examples:", obj.docstring.value)


class DeclaredOptions(griffe.Extension):
    """Lists declared options where a function takes them as ``**options``."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        if not any(_DECLARED.search(str(parameter.annotation)) for parameter in func.parameters):
            return
        function = getattr(import_module(func.module.path), func.name)
        if func.docstring is not None:
            func.docstring.value = inspect.getdoc(function) or ""
        parameters = [
            parameter
            for parameter in func.parameters
            if parameter.kind is not griffe.ParameterKind.var_keyword
        ]
        names = {parameter.name for parameter in parameters}
        parameters += [
            griffe.Parameter(
                name,
                annotation=parameter.annotation,
                default=None if parameter.default is parameter.empty else repr(parameter.default),
                kind=griffe.ParameterKind.keyword_only,
            )
            for name, parameter in inspect.signature(function).parameters.items()
            if name not in names
        ]
        func.parameters = griffe.Parameters(*parameters)
