"""What a query's state depends on, fact by fact: values that are compared, and words for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

from muntin.model.axis import Axis, phrase, spell
from muntin.model.errors import SpecChangedError
from muntin.model.json_dataclass import JsonDataclass


class Fact(NamedTuple):
    """One of them."""

    value: Any
    words: str


ABSENT = Fact(None, "absent")
Facts = Mapping[str, Fact]


def fact(value: Any) -> Fact:
    """A value that says itself what it is."""
    return Fact(value, str(value))


def length(value: int, axis: Axis = "time") -> Fact:
    """A duration, or a number of rows."""
    return Fact(value, phrase(value) if axis == "time" else spell(value, axis))


def names(value: Sequence[str]) -> Fact:
    """Names of columns."""
    return Fact(tuple(value), ", ".join(map(named, value)))


def of_source(
    lateness: int, idle: int | None, offset: Sequence[str] | None, zone: str | None
) -> dict[str, Fact]:
    """What state depends on of how messages come; what wasn't asked for is no fact."""
    found = {"lateness": length(lateness)}
    if idle is not None:
        found["idle"] = length(idle)
    if offset is not None:
        found["offset"] = names(offset)
    if zone is not None:
        found["zone"] = fact(zone)
    return found


def named(name: str) -> str:
    """A column's name within a sentence: quoted where it could be taken for something else.

    Example:
        >>> named("größe"), named("a, b"), named("none")
        ('größe', "'a, b'", "'none'")
    """
    return name if name.isidentifier() and name != "none" else repr(name)


class QuerySpec(JsonDataclass, ABC):
    """What a checkpoint remembers of a query."""

    def to_dict(self) -> dict[str, Any]:
        """See ``JsonDataclass``; made once, for every batch writes it. Not to be changed."""
        return self._plain

    @cached_property
    def _plain(self) -> dict[str, Any]:
        return super().to_dict()

    @property
    @abstractmethod
    def title(self) -> str:
        """The query in a few words, among others of a chain."""

    @abstractmethod
    def facts(self) -> dict[str, Fact]:
        """What state depends on, by name."""

    def free(self, then: Self) -> Collection[str]:
        """The facts that may be others than when state was written."""
        return ()

    def differences(self, then: Self) -> list[str]:
        """What has changed since and may not, in words."""
        return differences(then.facts(), self.facts(), self.free(then))

    def words(self) -> dict[str, str]:
        """The facts in words."""
        return {name: one.words for name, one in self.facts().items()}

    def check_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse to go on from state that another query wrote."""
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


def differences(then: Facts, now: Facts, free: Collection[str] = ()) -> list[str]:
    """What has changed, in words."""
    lines = []
    for name in sorted({*then, *now} - {*free}):
        was, is_ = then.get(name, ABSENT), now.get(name, ABSENT)
        if was.value != is_.value:
            alike = was.words == is_.words
            shown = (repr(was.value), repr(is_.value)) if alike else (was.words, is_.words)
            lines.append(f"{name}: was {shown[0]}, is {shown[1]}")
    return lines
