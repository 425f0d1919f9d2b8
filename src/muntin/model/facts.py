"""Facts that a query's state depends on, each with a value to compare and words for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

from muntin.model.axis import Axis, format_duration, format_length
from muntin.model.errors import SpecChangedError
from muntin.model.json_dataclass import JsonDataclass


class Fact(NamedTuple):
    """A property of a query that its state depends on."""

    value: Any
    words: str


ABSENT = Fact(None, "absent")
Facts = Mapping[str, Fact]


def make_fact(value: Any) -> Fact:
    """Return the fact of a value that describes itself in words."""
    return Fact(value, str(value))


def length_fact(value: int, axis: Axis = "time") -> Fact:
    """Return the fact of a duration or of a number of rows."""
    return Fact(value, format_duration(value) if axis == "time" else format_length(value, axis))


def names_fact(value: Sequence[str]) -> Fact:
    """Return the fact of column names."""
    return Fact(tuple(value), ", ".join(map(format_name, value)))


def format_name(name: str) -> str:
    """Format a column's name for a sentence, in quotes where it could be misread.

    Example:
        >>> format_name("größe"), format_name("a, b"), format_name("none")
        ('größe', "'a, b'", "'none'")
    """
    return name if name.isidentifier() and name != "none" else repr(name)


STORED_SHARDS = "buckets"
"""The name that stored specs give to the number of shards."""


class QuerySpec(JsonDataclass, ABC):
    """A query as its checkpoint stores it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the query as plain JSON, cached for all batches; callers must not modify it."""
        return self._plain

    @cached_property
    def _plain(self) -> dict[str, Any]:
        return super().to_dict()

    @property
    @abstractmethod
    def title(self) -> str:
        """The query in a few words, to tell it from others of a chain."""

    @abstractmethod
    def facts(self) -> dict[str, Fact]:
        """Return the facts that the state depends on, by name."""

    def free(self, then: Self) -> Collection[str]:
        """Return the names of facts that may differ from the spec that wrote the state."""
        return ()

    def differences(self, old: Self) -> list[str]:
        """Return the changes since an earlier spec that aren't allowed, in words."""
        return compare_facts(old.facts(), self.facts(), self.free(old))

    def words(self) -> dict[str, str]:
        """Return the facts in words, by name."""
        return {name: fact.words for name, fact in self.facts().items()}

    def check_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse to continue from state that another query wrote."""
        if stored == self.to_dict():
            return
        if stored["kind"] != self.KIND:
            lines = [f"kind: was {stored['kind']}, is {self.KIND}"]
        else:
            lines = self.differences(self.from_dict(stored))
        if lines:
            raise SpecChangedError(
                "the checkpoint was written by another spec ("
                + "; ".join(lines)
                + f") than {self.title}; go back to it, or start with a new checkpoint folder"
            )


def compare_facts(old: Facts, new: Facts, free: Collection[str] = ()) -> list[str]:
    """Return the facts that differ, in words, except those that are free to change."""
    lines = []
    for name in sorted({*old, *new} - {*free}):
        old_fact, new_fact = old.get(name, ABSENT), new.get(name, ABSENT)
        if old_fact.value != new_fact.value:
            same_words = old_fact.words == new_fact.words
            texts = (
                (repr(old_fact.value), repr(new_fact.value))
                if same_words
                else (old_fact.words, new_fact.words)
            )
            lines.append(f"{name}: was {texts[0]}, is {texts[1]}")
    return lines
