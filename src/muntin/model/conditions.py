"""Conditions on the values of a window: ``worst > 100 AND (n >= 10 OR NOT closed)``.

They compare aggregates and keys with numbers and texts, in SQL's three-valued logic. All front ends
accept them. NaN is equal to itself and greater than any number, as in Spark SQL.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from muntin.model.aggregates.plainly import rank
from muntin.model.errors import OptionError

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\))
    )""",
    re.VERBOSE,
)
_HINT = 'write for example "worst > 100" or "n >= 10 AND worst > 100"'


@dataclass(frozen=True)
class Name:
    """The name of an aggregate or a key."""

    name: str


@dataclass(frozen=True)
class Term:
    """A node of a condition: ``AND``, ``OR``, ``NOT`` or a comparison."""

    sign: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Condition:
    """A parsed condition.

    Attributes:
        tree: The root of its syntax tree.
        names: The aggregates and keys in it, each once.
    """

    tree: Term
    names: tuple[str, ...]

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether the condition is true for some values; unknown (NULL) isn't true.

        Example:
            >>> read_condition("worst > 100 OR NOT n = 3").holds({"worst": None, "n": 4})
            True
        """
        return _value(self.tree, values) is True


@cache
def read_condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
        OptionError: When the text can't be parsed.

    Example:
        >>> read_condition("worst > 100 AND n <> 3").names
        ('worst', 'n')
    """
    tree = _Reader(text).read()
    return Condition(tree, tuple(dict.fromkeys(_names(tree))))


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, Term):
        for part in node.parts:
            yield from _names(part)


def _value(node: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(node, Name):
        return values[node.name]
    if not isinstance(node, Term):
        return node
    parts = [_value(part, values) for part in node.parts]
    if node.sign == "AND":
        return False if False in parts else None if None in parts else True
    if node.sign == "OR":
        return True if True in parts else None if None in parts else False
    if node.sign == "NOT":
        return None if parts[0] is None else not parts[0]
    if None in parts:
        return None
    one, other = map(rank, parts)
    return COMPARE[node.sign](one, other)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.at = 0

    def _tokens(self) -> Iterator[tuple[str, str]]:
        at, end = 0, len(self.text.rstrip())
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None:
                self._fail(f"can't be read at {self.text[at:].strip()!r}")
            assert found.lastgroup is not None
            yield found.lastgroup, found[found.lastgroup]
            at = found.end()

    def _fail(self, problem: str) -> NoReturn:
        raise OptionError("when", self.text, problem, _HINT)

    def read(self) -> Term:
        found = self._either()
        if self.at < len(self.tokens):
            self._fail(f"can't be read at {self.tokens[self.at][1]!r}")
        return self._bare(found)

    def _takes(self, *words: str) -> str | None:
        if self.at < len(self.tokens):
            kind, text = self.tokens[self.at]
            if kind in ("word", "sign") and text.upper() in words:
                self.at += 1
                return text.upper()
        return None

    def _either(self) -> Any:
        return self._several("OR", lambda: self._several("AND", self._not))

    def _several(self, word: str, part: Callable[[], Any]) -> Any:
        parts = [part()]
        while self._takes(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Term(word, tuple(map(self._bare, parts)))

    def _not(self) -> Any:
        return Term("NOT", (self._bare(self._not()),)) if self._takes("NOT") else self._compared()

    def _bare(self, node: Any) -> Term:
        """Return a node as a condition; a name alone is compared with true."""
        if isinstance(node, Name):
            return Term("=", (node, True))
        return node if isinstance(node, Term) else self._fail(f"has no comparison at {node!r}")

    def _compared(self) -> Any:
        one = self._operand()
        sign = self._takes(*COMPARE, "!=", "==")
        if sign is None:
            return one
        sign = {"!=": "<>", "==": "="}.get(sign, sign)
        other = self._operand()
        if isinstance(one, Term) or isinstance(other, Term):
            self._fail("compares a condition")
        if not isinstance(one, Name):
            one, other, sign = other, one, _MIRRORED.get(sign, sign)
        if not isinstance(one, Name):
            self._fail("compares two constants")
        return Term(sign, (one, other))

    def _operand(self) -> Any:
        if self._takes("("):
            found = self._either()
            if not self._takes(")"):
                self._fail("lacks a closing parenthesis")
            return found
        if self.at >= len(self.tokens):
            self._fail("ends too soon")
        kind, text = self.tokens[self.at]
        self.at += 1
        match kind:
            case "number":
                return int(text) if text.lstrip("-").isdigit() else float(text)
            case "text":
                return text[1:-1].replace("''", "'")
            case "quoted":
                return Name(text[1:-1].replace("``", "`"))
            case "word" if text.upper() in ("TRUE", "FALSE"):
                return text.upper() == "TRUE"
            case "word" if text.upper() not in ("AND", "OR", "NOT"):
                return Name(text)
        return self._fail(f"can't be read at {text!r}")
