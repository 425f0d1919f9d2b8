"""A cursor over the tokens of SQL text, built on sqlglot's parser.

This package parses statements and clauses itself. It leaves scalar expressions to sqlglot, whose
Spark dialect only determines where an expression ends and what its parts are. Spark receives the
text as the author wrote it, since a syntax tree loses details (``'it''s'``, ``array(a, b)[0]``,
unary plus). Text that is cut out of an expression must parse to the same node again when it stands
alone; otherwise the statement is refused. The dialect knows only functions with a syntax of their
own and leaves all others to Spark.

Only this module uses the private methods of sqlglot's parser.
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
# The most levels of an expression, of which each operator of a chain is one.
_MOST_LEVELS = 200


class WindowNode(exp.Expression, exp.Func):
    """A window function called inside an expression; ``window_call_of`` returns the call."""

    arg_types = {"this": True}  # noqa: RUF012  # sqlglot's own form
    _sql_names = ["MUNTIN_WINDOW"]  # noqa: RUF012


class IntervalNode(exp.Expression):
    """An interval inside ``OVER (...)``; ``interval_of`` returns it."""

    arg_types = {"this": True}  # noqa: RUF012


class Cursor(SparkParser):
    """A position among the tokens of a text, with methods that read the tokens after it.

    ``peek`` methods look at the next token, ``accept`` methods read it if it matches, and
    ``expect`` methods refuse the statement if it doesn't match.

    Attributes:
        used_placeholders: Names of the placeholders that were replaced.
        expression_spans: Spans of the expressions that Spark is handed, by their text.
        depth: Number of expressions or queries that contain the next token.
    """

    FUNCTIONS: ClassVar[Any] = {}
    FUNC_TOKENS = SparkParser.FUNC_TOKENS | {TokenType.SESSION}
    # Without this, the parser would read array(a, b)[0] as array(0).
    ARRAY_CONSTRUCTORS: ClassVar[Any] = {}
    placeholder_values: Mapping[str, str]
    used_placeholders: set[str]
    expression_spans: dict[str, Span]
    depth: int

    def fail(self, span: Span | Token | None, problem: str, hint: str) -> NoReturn:
        """Raise an ``SqlError`` at a span, or at the next token if the span is ``None``."""
        if span is None:
            span = self.next_span
        if isinstance(span, Token):
            span = (span.start, span.end + 1)
        raise SqlError(self.sql, span, problem, hint)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise an error of sqlglot's parser as an ``SqlError``."""
        self.fail(token or None, f"this can't be read: {_reword(message)}", "fix the expression")

    @property
    def is_at_end(self) -> bool:
        """True if the statement has no more tokens."""
        return self._index >= self._tokens_size

    @property
    def index(self) -> int:
        """The index of the next token, for ``rewind``."""
        return self._index

    @property
    def position(self) -> int:
        """The position in the text where the next token begins."""
        return self.next_span[0]

    @property
    def last_token(self) -> Token:
        """The last token that was read."""
        return self._prev

    @property
    def next_span(self) -> Span:
        """The span of the next token, or the one after the last token at the end."""
        if not self.is_at_end:
            return self._curr.start, self._curr.end + 1
        end = self._prev.end + 1 if self._index else len(self.sql)
        return end, end + 1

    @property
    def next_word(self) -> str:
        """The next token in capitals; empty for a string, a quoted name, and at the end."""
        is_excluded = self.is_at_end or self._curr.token_type in self.TEXT_MATCH_EXCLUDED_TOKENS
        return "" if is_excluded else self._curr.text.upper()

    @property
    def next_identifier(self) -> str:
        """The next token without quotes around it; empty for a string and at the end."""
        is_quoted = self.peek_kind(TokenType.IDENTIFIER)
        return self._curr.text if is_quoted else self.next_word

    @property
    def second_word(self) -> str:
        """The text of the token after the next, in capitals; empty after the end."""
        return self._next.text.upper() if self._index + 1 < self._tokens_size else ""

    @property
    def next_text(self) -> str:
        """The text of the next token as error messages show it."""
        return "the end" if self.is_at_end else repr(self._curr.text)

    def token_at(self, distance: int) -> Token | None:
        """Return the token at a distance from the next one, such as -1 for the one before it."""
        index = self._index + distance
        return self._tokens[index] if 0 <= index < self._tokens_size else None

    def span_from(self, start: int) -> Span:
        """Return the span from a position to the end of the last token that was read."""
        return start, max(start + 1, self._prev.end + 1)

    def skip(self, count: int = 1) -> None:
        """Read tokens, whatever they are."""
        self._advance(count)

    def skip_all(self) -> None:
        """Read the remaining tokens of the statement."""
        self._advance(self._tokens_size - self._index)

    def rewind(self, index: int) -> None:
        """Return to an earlier token."""
        self._retreat(index)

    def peek(self, *words: str) -> bool:
        """Return whether these words come next."""
        return self._match_text_seq(*words, advance=False)

    def accept(self, *words: str) -> bool:
        """Read these words if they come next; return whether they do."""
        return self._match_text_seq(*words)

    def expect(self, *words: str, hint: str) -> None:
        """Read these words, which must come next."""
        if not self.accept(*words):
            self.fail(None, f"{self.next_text} stands where {' '.join(words)} should", hint)

    def peek_kind(self, *kinds: TokenType) -> bool:
        """Return whether a token of one of these kinds comes next."""
        return not self.is_at_end and self._curr.token_type in kinds

    def accept_kind(self, *kinds: TokenType) -> Token | None:
        """Read and return the next token if it is of one of these kinds."""
        if not self.peek_kind(*kinds):
            return None
        self._advance()
        return self._prev

    def expect_close(self, what: str, hint: str = "close its parenthesis") -> None:
        """Read the closing parenthesis of something, which must come next."""
        if not self.accept_kind(TokenType.R_PAREN):
            self.fail(None, f"{what} isn't closed", hint)

    def parse_list(self, parse_item: Callable[[], Parsed]) -> list[Parsed]:
        """Parse a list separated by commas."""
        items = [parse_item()]
        while self.accept_kind(TokenType.COMMA):
            items.append(parse_item())
        return items

    def parse_name(self, what: str) -> tuple[str, Span]:
        """Parse a name; return it with its span."""
        start = self.position
        identifier = None if self.is_at_end else self._parse_id_var(any_token=False)
        if not isinstance(identifier, exp.Identifier):
            problem = f"{self.next_text} isn't a name of {what}"
            self.fail(None, problem, "write a name, or `a name`")
        return identifier.name, self.span_from(start)

    def parse_path(self, what: str) -> str:
        """Parse a name with its qualifiers or fields: ``event.at``."""
        path = self.parse_name(what)[0]
        while self.accept_kind(TokenType.DOT):
            path += f".{self.parse_name(what)[0]}"
        return path

    def parse_string(self, what: str) -> tuple[str, Span]:
        """Parse a string literal; return it, with its placeholders, and its span."""
        token = first = self.accept_kind(TokenType.STRING)
        if token is None or first is None:
            self.fail(None, f"{what} is missing", "write it in quotes: '...'")
        text = token.text
        # The tokenizer of Spark's dialect takes a doubled quote for the end of one string and the
        # start of the next.
        while self.next_span[0] == token.end + 1 and (
            next_token := self.accept_kind(TokenType.STRING)
        ):
            text, token = f"{text}{self.sql[token.end]}{next_token.text}", next_token
        return text, (first.start, token.end + 1)

    def fill_placeholders(self, text: str, span: Span) -> str:
        """Return a string whose placeholders are replaced by their values."""

        def find_value(match: re.Match[str]) -> str:
            name = match.group(1)
            self.used_placeholders.add(name)
            if name not in self.placeholder_values:
                self.fail(span, f"${{{name}}} has no value", f"give --set {name}=...")
            return self.placeholder_values[name]

        return PLACEHOLDER.sub(find_value, text)

    @property
    def function_name(self) -> Token:
        """The name of the function whose opening parenthesis was read last."""
        return self._tokens[self._index - 2]

    def parse_arguments(self) -> list[exp.Expr]:
        """Parse the arguments of a function, without the closing parenthesis."""
        arguments: list[exp.Expr] = self._parse_csv(self._parse_lambda)
        return arguments

    def parse_type(self) -> exp.Expr | None:
        """Parse the type of a column; return ``None`` if no type comes next."""
        kind: exp.Expr | None = None if self.is_at_end else self._parse_types(schema=True)
        return kind

    def parse_column(self) -> exp.Expr | None:
        """Parse a column with its qualifiers; return ``None`` if none comes next."""
        column: exp.Expr | None = self._parse_column()
        return column

    def parse_window(self, *, named: bool = False) -> exp.Window | None:
        """Parse ``OVER (...)``, or ``AS (...)`` if it is ``named``; else return ``None``."""
        window = self._parse_window(exp.Null(), alias=named)
        return window if isinstance(window, exp.Window) else None

    def parse_scalar(self, what: str) -> exp.Expr:
        """Parse a scalar expression, which can't contain a query."""
        start = self.position
        self.depth = 0
        node: exp.Expr | None = None if self.is_at_end else self._parse_disjunction()
        if node is None:
            self.fail(None, f"{self.next_text} isn't {what}", f"write {what} here")
        if node.find(exp.Query) is not None:
            hint = "write it first in WHERE, as EXISTS (SELECT ...) or IN (SELECT ...), or join"
            self.fail(self.span_from(start), "a query within an expression isn't supported", hint)
        if isinstance(node, exp.Identifier | exp.DataType | exp.Interval | exp.Tuple | exp.Star):
            hint = "write a column, or a function of it"
            self.fail(self.span_from(start), f"this isn't {what}", hint)
        node.meta[_SPAN] = self.span_from(start)
        return node

    def parse_statement(self) -> Any:
        """Parse a statement; ``None`` leaves it out."""
        raise NotImplementedError

    def parse_frame_bound(self) -> Any:
        """Parse a bound of a frame in ``OVER (...)``, without PRECEDING or FOLLOWING."""
        raise NotImplementedError

    # sqlglot calls the following methods.

    def _parse_statement(self) -> Any:
        return self.parse_statement()

    def _parse_window_spec(self) -> Any:
        self._match(TokenType.BETWEEN)
        value = self.parse_frame_bound()
        side = self._prev.text.upper() if self._match_texts(self.WINDOW_SIDES) else None
        return {"value": value, "side": side}

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> Any:
        # Hive's parser drops the length of a text in a cast, which is refused here.
        kind = super()._parse_types(check_func, True, allow_identifiers, with_collation)
        if kind is not None and not schema:
            for part in kind.find_all(exp.DataType):
                if part.is_type("CHAR", "VARCHAR") and not part.expressions:
                    part.set("this", exp.DType.TEXT)
        return kind

    # The others note the span of every part of an expression.

    def _parse_disjunction(self) -> Any:
        with self._nest():
            node = self._note_span(super()._parse_disjunction)
            if isinstance(node, exp.Expr) and _is_too_deep(node):
                hint = "compute a part of it before, or write a list: a IN (1, 2)"
                self.fail(None, "the expression is too long", hint)
            return node

    def _parse_equality(self, parse_is: bool = True) -> Any:
        return self._note_span(lambda: super(Cursor, self)._parse_equality(parse_is))

    def _parse_unary(self) -> Any:
        with self._nest():
            return self._note_span(super()._parse_unary)

    def _parse_atom(self) -> Any:
        return self._note_span(super()._parse_atom)

    def _parse_function_call(self, *args: Any, **options: Any) -> Any:
        return self._note_span(lambda: super(Cursor, self)._parse_function_call(*args, **options))

    def _note_span(self, parse: Callable[[], Any]) -> Any:
        """Return what ``parse`` returns; an expression gets the span of its tokens."""
        start = self.position
        node = parse()
        if isinstance(node, exp.Expr):
            node.meta[_SPAN] = self.span_from(start)
        return node

    @contextmanager
    def _nest(self) -> Iterator[None]:
        self.depth = getattr(self, "depth", 0) + 1
        try:
            if self.depth > MAX_DEPTH:
                self.fail(None, "the expression is nested too deep", "compute a part of it before")
            yield
        finally:
            self.depth -= 1


def _is_too_deep(node: exp.Expr) -> bool:
    """Return whether functions that walk an expression would exceed Python's recursion limit.

    A chain of operators, such as ``a OR b OR c``, is as deep as it is long.
    """
    level = [node]
    for _ in range(_MOST_LEVELS):
        level = [c for one in level for c in one.iter_expressions() if isinstance(c, exp.Expr)]
        if not level:
            return False
    return True


def window_call_of(node: exp.Expr) -> Any:
    """Return the window call of a ``WindowNode``."""
    return node.meta["call"]


def interval_of(node: exp.Expr) -> Any:
    """Return the interval of an ``IntervalNode``."""
    return node.meta["interval"]


def find_spanned_parent(node: exp.Expr) -> exp.Expr:
    """Return a node, or the smallest expression around it whose span the parser noted.

    In ``a NOT IN (1)`` it noted the span of the whole, and not of the inner ``a IN (1)``.
    """
    while _SPAN not in (node._meta or {}) and node.parent is not None:
        node = node.parent
    return node


def find_span(node: exp.Expr) -> Span | None:
    """Return the span of a node in the text; ``None`` if the parser noted none."""
    meta = node._meta or {}
    if _SPAN in meta:
        noted: Span = meta[_SPAN]
        return noted
    if "start" in meta:
        return meta["start"], meta["end"] + 1
    inner = [span for child in node.iter_expressions() if (span := find_span(child))]
    if not inner:
        return None
    return min(start for start, _ in inner), max(end for _, end in inner)


def _reword(message: str) -> str:
    """Return an error of sqlglot's parser without the names of its classes."""
    if "<class" in message:
        return "something is missing here"
    return message[:1].lower() + message[1:]
