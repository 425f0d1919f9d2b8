"""Lets the reference show examples of docstrings as code: an extension of mkdocstrings' reader."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class ExamplesAsCode(griffe.Extension):
    """Reads ``Example:`` as the section of that meaning, which Griffe calls ``Examples:``."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub("Examples:", obj.docstring.value)
