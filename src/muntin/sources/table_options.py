"""The options of a declared table, taken one after the other."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

from muntin.model.errors import OptionError
from muntin.model.pipeline import DeclaredTable


class TableOptions:
    """What a source or a sink is made of: options that were taken are gone.

    Attributes:
        table: The name of the table.
        connector: What kind it is.
        left: The options that nobody has taken yet, with their placeholders replaced.
    """

    def __init__(self, table: DeclaredTable, options: dict[str, str]) -> None:
        self.table = table.name
        self.connector = table.connector
        self.left = options

    def take(self, *names: str) -> str:
        """An option that has to be there, under any of its names."""
        for name in names:
            if name in self.left:
                return self.left.pop(name)
        hint = f"add '{names[0]}' = '...' to the table {self.table}"
        raise OptionError(names[0], None, f"is missing for {self.connector}", hint)

    def name(self) -> str:
        """What the table is called where it lies: as it is here, unless an option says so."""
        return self.left.pop("table", self.table)

    def known(self, texts: str, **read: Callable[[str], Any]) -> dict[str, Any]:
        """Options that are a function's own; what isn't there has the function's default.

        Args:
            texts: The names of those that are taken as they are.
            **read: What makes the others out of their text.
        """
        found: dict[str, Callable[[str], Any]] = {**dict.fromkeys(texts.split(), str), **read}
        return {
            name: make(self.left.pop(name)) for name, make in found.items() if name in self.left
        }

    def refuse_left(self) -> None:
        """Refuse what nobody took."""
        for name in self.left:
            hint = f"leave it out: {self.connector} as a sink doesn't know it"
            raise OptionError(name, self.table, "isn't an option", hint)


def truth(text: str) -> bool:
    """Whether an option says yes."""
    return text.lower() == "true"


def names_of(text: str) -> list[str]:
    """Names with commas between them; one with a comma in it stands in double quotes.

    Example:
        >>> names_of('a, "b, c",d')
        ['a', 'b, c', 'd']
    """
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
