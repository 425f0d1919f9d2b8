"""Texts of expressions for Spark SQL, with some parts replaced by others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from muntin.model.errors import SqlError
from muntin.model.pipeline import quote_name
from muntin.model.placeholders import OutsideQuotesError, fill_expression
from muntin.sql.cursor import Cursor, Span, find_span, find_spanned_parent
from muntin.sql.dialect import parse_statements
from muntin.sql.foreign_functions import find_foreign_function

Replacements = dict[Span, str]
# The functions that convert a number since 1970, by the precision in Flink's call.
_EPOCHS = {"0": "timestamp_seconds", "3": "timestamp_millis"}


@dataclass(frozen=True)
class Scope:
    """The text of an expression, and the qualifiers that its columns may have."""

    cursor: Cursor
    qualifiers: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The whole text."""
        return self.cursor.sql

    def fail(self, span: Span, problem: str, hint: str) -> NoReturn:
        """Raise an ``SqlError`` at a span of the text."""
        self.cursor.fail(span, problem, hint)

    def span(self, node: exp.Expr) -> Span:
        """Return the span of a node."""
        found, around = find_span(node), node.parent
        if found is not None:
            return found
        while around is not None and find_span(around) is None:
            around = around.parent
        at = (around and find_span(around)) or (0, 1)
        self.fail(at, "this part can't be told apart", "name it in a view")

    def standing(self, node: exp.Expr) -> Span:
        """Return the span of a node's whole text, which may be taken or replaced."""
        # A column's span comes from its tokens, so it needs no check.
        found = find_span(node)
        if found is None or not (isinstance(node, exp.Column) or self._reads_so(node, found)):
            hint = "put it into parentheses, or compute it in a view and name its column here"
            whole = self.span(find_spanned_parent(node))
            self.fail(whole, "this can't be separated from what stands around it", hint)
        return found

    def _reads_so(self, node: exp.Expr, span: Span) -> bool:
        """Return whether the text of a span, read by itself, is the same node."""
        text, given = self.text[slice(*span)], self.cursor.given
        try:
            found, _ = parse_statements(text, lambda cursor: cursor.scalar("an expression"), given)
        except SqlError:
            return False
        return found == [node]

    def unqualified(self, column: exp.Column) -> list[str]:
        """Return the parts of a column's name without its qualifier."""
        names = [part.name for part in column.parts]
        return names[1:] if len(names) > 1 and names[0].lower() in self.qualifiers else names

    def own(self, node: exp.Expr | None) -> str | None:
        """Return the name of a column; ``None`` for a field of a struct and for any other node."""
        names = self.unqualified(node) if isinstance(node, exp.Column) else []
        return names[0] if len(names) == 1 else None

    def plain(self, node: exp.Expr) -> str:
        """Return the text of an expression over the relation's columns, without qualifiers."""

        def named(part: exp.Expr) -> str | None:
            if isinstance(part, exp.Window):
                hint = "compute OVER (...) in the select list, on its own"
                self.fail(self.span(part), "OVER can't stand here", hint)
            if not isinstance(part, exp.Column):
                return None
            names = self.unqualified(part)
            return ".".join(map(quote_name, names)) if len(names) < len(part.parts) else None

        return self.rewritten(node, named)

    def rewritten(self, node: exp.Expr, named: Callable[[exp.Expr], str | None]) -> str:
        """Return the text of a node with some parts replaced.

        Args:
            node: The node.
            named: Returns the text of a part; ``None`` looks into the part's own parts.
        """
        swaps: Replacements = {}

        def visit(part: exp.Expr) -> None:
            foreign = find_foreign_function(part)
            if foreign is not None:
                self.fail(self.span(part), *foreign)
            text = named(part)
            if text is None:
                text = self._of_epoch(part, named)
            if text is not None:
                swaps[self.standing(part)] = text
                return
            for child in part.iter_expressions():
                if isinstance(child, exp.Expr):
                    visit(child)

        visit(node)
        return self.rendered(node, swaps)

    def _of_epoch(self, node: exp.Expr, named: Callable[[exp.Expr], str | None]) -> str | None:
        """Return the Spark call for Flink's ``TO_TIMESTAMP_LTZ(number, 3)``: 3 is milliseconds."""
        if not isinstance(node, exp.Anonymous) or node.name.lower() != "to_timestamp_ltz":
            return None
        given = node.expressions
        if len(given) == 1 and isinstance(given[0], exp.Literal) and given[0].is_int:
            hint = "write TO_TIMESTAMP_LTZ(x, 3) for milliseconds, (x, 0) for seconds"
            self.fail(self.span(node), "this number doesn't say its unit", hint)
        if len(given) != 2 or not isinstance(given[1], exp.Literal) or given[1].is_string:
            return None
        function = _EPOCHS.get(given[1].name)
        if function is None:
            hint = "write 3 for milliseconds, or 0 for seconds"
            self.fail(self.span(node), f"TO_TIMESTAMP_LTZ has no precision {given[1].name}", hint)
        return f"{function}({self.rewritten(given[0], named)})"

    def rendered(self, node: exp.Expr, swaps: Replacements) -> str:
        """Return the text of a node with some spans replaced and placeholders filled in."""
        for hole in node.find_all(exp.Placeholder, exp.Parameter):
            at = find_span(hole) or self.span(node)
            self.fail(at, "a placeholder stands outside of quotes", "write '${name}'")
        whole = start, end = self.standing(node)
        pieces: list[str] = []
        for (low, high), text in sorted(swaps.items()):
            pieces += [self._filled(start, low), text]
            start = high
        return self.noted("".join([*pieces, self._filled(start, end)]), whole)

    def noted(self, text: str, span: Span) -> str:
        """Return a text for Spark after noting its span, which an error of Spark is reported at."""
        self.cursor.places.setdefault(text, span)
        return text

    def _filled(self, start: int, end: int) -> str:
        def value(name: str, place: int) -> str:
            hole = f"${{{name}}}"
            at = (start + place, start + place + len(hole))
            return self.cursor.filled(hole, at)

        try:
            return fill_expression(self.text[start:end], value)
        except OutsideQuotesError as error:
            hint = "write '${name}'"
            self.fail((start, end), f"{error} stands outside of quotes", hint)


def walk(*nodes: exp.Expr) -> Iterator[exp.Expr]:
    """Yield nodes and all of their descendants."""
    for node in nodes:
        yield node
        yield from walk(*(one for one in node.iter_expressions() if isinstance(one, exp.Expr)))


# The operators whose precedence is the same in Spark and in the parser.
_SAME_PRECEDENCE = (
    exp.Connector,
    exp.Predicate,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.IntDiv,
)


def is_grouped_as_parsed(node: exp.Expr) -> bool:
    """Return whether Spark surely groups a node and the operator around it as the parser does.

    The parser reads ``a | b & c`` as ``(a | b) & c``, Spark as ``a | (b & c)``.
    """
    around = node.parent
    whole = node.this if isinstance(node, exp.Not) else node
    # Spark reads ``b = v BETWEEN x AND y`` as ``(b = v) BETWEEN x AND y``; in a list, parentheses
    # or commas delimit the node.
    if _is_comparison(whole) and _is_comparison(around) and node.arg_key != "expressions":
        return False
    operators = (exp.Binary, exp.Unary)
    if not isinstance(node, operators) or not isinstance(around, operators):
        return True
    if isinstance(node, exp.Paren | exp.Dot) or isinstance(around, exp.Paren):
        return True
    return all(isinstance(one, (*_SAME_PRECEDENCE, exp.Unary)) for one in (node, around))


def _is_comparison(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Predicate) and isinstance(node, exp.Binary | exp.Between | exp.In)


def normalize(node: exp.Expr, scope: Scope) -> exp.Expr:
    """Return a node that equals every node of its meaning: without qualifiers, quotes, capitals.

    Parentheses around the whole are omitted. Names of fields keep their capitals, since the keys of
    a map differ by them. Strings keep their quotes and escapes, since the parser reads some of them
    differently from Spark.
    """

    def plainer(found: exp.Expr) -> exp.Expr:
        if isinstance(found, exp.Column):
            parts = scope.unqualified(found)
            names = [exp.Identifier(this=part, quoted=False) for part in parts]
            names[0].set("this", parts[0].lower())
            return exp.Dot.build(names) if len(names) > 1 else exp.Column(this=names[0])
        if isinstance(found, exp.Identifier):
            return exp.Identifier(this=found.name, quoted=False)
        if isinstance(found, exp.Anonymous):
            found.set("this", found.name.lower())
            return found
        written = isinstance(found, exp.Concat | exp.RawString) or found.is_string
        span = find_span(found) if written else None
        return exp.RawString(this=scope.text[slice(*span)]) if span else found

    return node.unnest().transform(plainer)
