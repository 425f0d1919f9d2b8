"""A cursor over SQL text, built on sqlglot's parser and moved by our own grammar.

This package reads statements and clauses, and leaves scalar expressions to sqlglot, whose Spark
dialect only determines their extent and their parts. Spark receives the text as it was written,
since a syntax tree loses details (``'it''s'``, ``array(a, b)[0]``, unary plus). The text of a part
consists of the tokens that were read for it. Read by itself, it must yield the same part again;
otherwise the statement is refused. The dialect knows only functions with a syntax of their own; all
others are left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from muntin.model.errors import SqlError
from muntin.model.placeholders import PLACEHOLDER

Span = tuple[int, int]
Parsed = TypeVar("Parsed")
_SPAN = "span"
# Deeper than anybody nests expressions, and within the recursion limit of Python.
MAX_DEPTH = 120


class WindowNode(exp.Expression, exp.Func):
    """A window function called inside an expression; ``call_of`` returns the call."""

    arg_types = {"this": True}  # noqa: RUF012  # sqlglot's own form
    _sql_names = ["MUNTIN_WINDOW"]  # noqa: RUF012


class IntervalNode(exp.Expression):
    """A length inside ``OVER (...)``; ``length_of`` returns it."""

    arg_types = {"this": True}  # noqa: RUF012


class Cursor(SparkParser):
    """A position in a text of statements, with methods that read what follows it."""

    FUNCTIONS: ClassVar[Any] = {}
    FUNC_TOKENS = SparkParser.FUNC_TOKENS | {TokenType.SESSION}
    # Without this, the parser would read array(a, b)[0] as array(0).
    ARRAY_CONSTRUCTORS: ClassVar[Any] = {}
    given: Mapping[str, str]
    used: set[str]
    depth: int
    # The spans of the expressions handed to Spark, by their text.
    places: dict[str, Span]

    def fail(self, span: Span | Token | None, problem: str, hint: str) -> NoReturn:
        """Raise an ``SqlError`` at a span of the text."""
        if span is None:
            span = self.next_span
        if isinstance(span, Token):
            span = (span.start, span.end + 1)
        raise SqlError(self.sql, span, problem, hint)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise a complaint of sqlglot as an ``SqlError`` in our words."""
        self.fail(token or None, f"this can't be read: {_reword(message)}", "fix the expression")

    @property
    def ended(self) -> bool:
        """True if the statement has ended."""
        return self._index >= self._tokens_size

    @property
    def next_span(self) -> Span:
        """The span of the next token, or the one after the last token at the end."""
        if not self.ended:
            return self._curr.start, self._curr.end + 1
        end = self._prev.end + 1 if self._index else len(self.sql)
        return end, end + 1

    @property
    def here(self) -> int:
        """The position where the next token begins."""
        return self.next_span[0]

    def since(self, start: int) -> Span:
        """Return the span from a position to the end of the last token that was read."""
        return start, max(start + 1, self._prev.end + 1)

    def sees(self, *words: str) -> bool:
        """Return whether these words come next."""
        return self._match_text_seq(*words, advance=False)

    def takes(self, *words: str) -> bool:
        """Read these words, if they come next."""
        return self._match_text_seq(*words)

    def needs(self, *words: str, hint: str) -> None:
        """Read these words, which must come next."""
        if not self.takes(*words):
            self.fail(None, f"{self.shown} stands where {' '.join(words)} should", hint)

    def sees_kind(self, kind: TokenType) -> bool:
        """Return whether a token of this kind comes next."""
        return not self.ended and self._curr.token_type == kind

    def takes_kind(self, kind: TokenType) -> Token | None:
        """Read a token of this kind, if it comes next."""
        if not self.sees_kind(kind):
            return None
        self._advance()
        return self._prev

    def closes(self, what: str, hint: str = "close its parenthesis") -> None:
        """Read the closing parenthesis, which must come next."""
        if not self.takes_kind(TokenType.R_PAREN):
            self.fail(None, f"{what} isn't closed", hint)

    def several(self, one: Callable[[], Parsed]) -> list[Parsed]:
        """Read a list separated by commas."""
        found = [one()]
        while self.takes_kind(TokenType.COMMA):
            found.append(one())
        return found

    @property
    def second(self) -> str:
        """The text of the token after the next, in capitals; empty after the end."""
        return self._next.text.upper() if self._index + 1 < self._tokens_size else ""

    @property
    def word(self) -> str:
        """The next token in capitals; empty for a string, a quoted name, and at the end."""
        excluded = self.ended or self._curr.token_type in self.TEXT_MATCH_EXCLUDED_TOKENS
        return "" if excluded else self._curr.text.upper()

    @property
    def shown(self) -> str:
        """The next token, for a message."""
        return "the end" if self.ended else repr(self._curr.text)

    def name(self, what: str) -> tuple[str, Span]:
        """Read a name."""
        start = self.here
        found = None if self.ended else self._parse_id_var(any_token=False)
        if not isinstance(found, exp.Identifier):
            problem = f"{self.shown} isn't a name of {what}"
            self.fail(None, problem, "write a name, or `a name`")
        return found.name, self.since(start)

    def path(self, what: str) -> str:
        """Read a name with its qualifiers or fields: ``event.at``."""
        found = self.name(what)[0]
        while self.takes_kind(TokenType.DOT):
            found += f".{self.name(what)[0]}"
        return found

    def text(self, what: str) -> tuple[str, Span]:
        """Read a string literal, without filling placeholders in."""
        token = self.takes_kind(TokenType.STRING)
        if token is None:
            self.fail(None, f"{what} is missing", "write it in quotes: '...'")
        return token.text, (token.start, token.end + 1)

    def filled(self, text: str, span: Span) -> str:
        """Return a string whose placeholders are replaced by their values."""

        def value(found: re.Match[str]) -> str:
            name = found.group(1)
            self.used.add(name)
            if name not in self.given:
                self.fail(span, f"${{{name}}} has no value", f"give --set {name}=...")
            return self.given[name]

        return PLACEHOLDER.sub(value, text)

    def scalar(self, what: str) -> exp.Expr:
        """Read an expression."""
        start = self.here
        self.depth = 0
        found: exp.Expr | None = None if self.ended else self._parse_disjunction()
        if found is None:
            self.fail(None, f"{self.shown} isn't {what}", f"write {what} here")
        query = found.find(exp.Query)
        if query is not None:
            hint = "write it first in WHERE, as EXISTS (SELECT ...) or IN (SELECT ...), or join"
            self.fail(self.since(start), "a query within an expression isn't taken", hint)
        if isinstance(found, exp.Identifier | exp.DataType | exp.Interval | exp.Tuple | exp.Star):
            self.fail(
                self.since(start), f"this isn't {what}", "write a column, or a function of it"
            )
        found.meta[_SPAN] = self.since(start)
        return found

    def _parse_disjunction(self) -> Any:
        with self._deeper():
            return self._placed(super()._parse_disjunction)

    def _parse_equality(self, parse_is: bool = True) -> Any:
        return self._placed(lambda: super(Cursor, self)._parse_equality(parse_is))

    def _parse_unary(self) -> Any:
        with self._deeper():
            return self._placed(super()._parse_unary)

    def _parse_atom(self) -> Any:
        return self._placed(super()._parse_atom)

    def _placed(self, parse: Callable[[], Any]) -> Any:
        """Return what ``parse`` returns; an expression notes the span of its tokens."""
        start = self.here
        found = parse()
        if isinstance(found, exp.Expr):
            found.meta[_SPAN] = self.since(start)
        return found

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self.depth = getattr(self, "depth", 0) + 1
        try:
            if self.depth > MAX_DEPTH:
                self.fail(None, "the expression is nested too deep", "compute a part of it before")
            yield
        finally:
            self.depth -= 1

    def _parse_function_call(self, *args: Any, **options: Any) -> Any:
        return self._placed(lambda: super(Cursor, self)._parse_function_call(*args, **options))


def window_call_of(node: exp.Expr) -> Any:
    """Return the window call that a node inside an expression stands for."""
    return node.meta["call"]


def interval_of(node: exp.Expr) -> Any:
    """Return the length that a node inside ``OVER`` stands for."""
    return node.meta["length"]


def find_spanned_parent(node: exp.Expr) -> exp.Expr:
    """Return the smallest expression around a node whose tokens are all known.

    In ``a NOT IN (1)`` only the tokens of the whole are known, not those of the inner ``a IN (1)``.
    """
    while _SPAN not in (node._meta or {}) and node.parent is not None:
        node = node.parent
    return node


def find_span(node: exp.Expr) -> Span | None:
    """Return the span of a node in the text; ``None`` if it isn't known."""
    meta = node._meta or {}
    if _SPAN in meta:
        found: Span = meta[_SPAN]
        return found
    if "start" in meta:
        return meta["start"], meta["end"] + 1
    inner = [span for child in node.iter_expressions() if (span := find_span(child))]
    if not inner:
        return None
    return min(start for start, _ in inner), max(end for _, end in inner)


def _reword(message: str) -> str:
    # The parser's complaints about its own classes mean nothing to the author of the text.
    if "<class" in message:
        return "something is missing here"
    return message[:1].lower() + message[1:]
