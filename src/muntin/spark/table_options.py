"""The options of a declared table, taken one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muntin.model.errors import OptionError
from muntin.model.pipeline import DeclaredTable

# The brokers' addresses, by the names that others have for them.
_SERVERS = ("bootstrap.servers", "kafka.bootstrap.servers", "properties.bootstrap.servers")
_TOPIC = ("topic", "subscribe")


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

    def topic(self) -> tuple[str, str]:
        """The servers and the topic of a table in Kafka."""
        return self.take(*_SERVERS), self.take(*_TOPIC)

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
