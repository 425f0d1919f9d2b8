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
        return _evaluate(self.tree, values) is True


@cache
def read_condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
        OptionError: When the text can't be parsed.

    Example:
        >>> read_condition("worst > 100 AND n <> 3").names
        ('worst', 'n')
    """
    if not isinstance(text, str):
        hint = 'write it as in "worst > 100"'
        raise OptionError("when", text, "isn't a condition in text", hint)
    tree = _Reader(text).read()
    return Condition(tree, tuple(dict.fromkeys(_find_names(tree))))


def _find_names(node: Any) -> Iterator[str]:
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, Term):
        for part in node.parts:
            yield from _find_names(part)


def _evaluate(node: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(node, Name):
        return values[node.name]
    if not isinstance(node, Term):
        return node
    parts = [_evaluate(part, values) for part in node.parts]
    if node.sign == "AND":
        return False if False in parts else None if None in parts else True
    if node.sign == "OR":
        return True if True in parts else None if None in parts else False
    if node.sign == "NOT":
        return None if parts[0] is None else not parts[0]
    if None in parts:
        return None
    left, right = map(rank, parts)
    return COMPARE[node.sign](left, right)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokenize())
        self.at = 0

    def _tokenize(self) -> Iterator[tuple[str, str]]:
        position, end = 0, len(self.text.rstrip())
        while position < end:
            match = _TOKEN.match(self.text, position)
            if match is None:
                self._fail(f"can't be read at {self.text[position:].strip()!r}")
            assert match.lastgroup is not None
            yield match.lastgroup, match[match.lastgroup]
            position = match.end()

    def _fail(self, problem: str) -> NoReturn:
        raise OptionError("when", self.text, problem, _HINT)

    def read(self) -> Term:
        node = self._parse_disjunction()
        if self.at < len(self.tokens):
            self._fail(f"can't be read at {self.tokens[self.at][1]!r}")
        return self._to_condition(node)

    def _accept(self, *words: str) -> str | None:
        if self.at < len(self.tokens):
            kind, text = self.tokens[self.at]
            if kind in ("word", "sign") and text.upper() in words:
                self.at += 1
                return text.upper()
        return None

    def _parse_disjunction(self) -> Any:
        return self._parse_operands("OR", lambda: self._parse_operands("AND", self._parse_negation))

    def _parse_operands(self, word: str, part: Callable[[], Any]) -> Any:
        parts = [part()]
        while self._accept(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Term(word, tuple(map(self._to_condition, parts)))

    def _parse_negation(self) -> Any:
        return (
            Term("NOT", (self._to_condition(self._parse_negation()),))
            if self._accept("NOT")
            else self._parse_comparison()
        )

    def _to_condition(self, node: Any) -> Term:
        """Return a node as a condition; a name alone is compared with true."""
        if isinstance(node, Name):
            return Term("=", (node, True))
        return node if isinstance(node, Term) else self._fail(f"has no comparison at {node!r}")

    def _parse_comparison(self) -> Any:
        left = self._parse_operand()
        sign = self._accept(*COMPARE, "!=", "==")
        if sign is None:
            return left
        sign = {"!=": "<>", "==": "="}.get(sign, sign)
        right = self._parse_operand()
        if isinstance(left, Term) or isinstance(right, Term):
            self._fail("compares a condition")
        if not isinstance(left, Name):
            left, right, sign = right, left, _MIRRORED.get(sign, sign)
        if not isinstance(left, Name):
            self._fail("compares two constants")
        return Term(sign, (left, right))

    def _parse_operand(self) -> Any:
        if self._accept("("):
            node = self._parse_disjunction()
            if not self._accept(")"):
                self._fail("lacks a closing parenthesis")
            return node
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
