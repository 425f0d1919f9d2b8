"""Renders expressions as Spark SQL, with some of their parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from muntin.model.errors import SqlError
from muntin.model.pipeline import quote_name
from muntin.model.placeholders import OutsideQuotesError, fill_expression
from muntin.sql.cursor import Cursor, Span, find_span, find_spanned_parent
from muntin.sql.dialect import parse_statements
from muntin.sql.foreign_functions import find_foreign_function

Replacements = dict[Span, str]
# The functions that convert a number of units since 1970, by the precision of Flink's call.
_EPOCHS = {"0": "timestamp_seconds", "3": "timestamp_millis"}


@dataclass(frozen=True)
class Scope:
    """Renders the expressions of a query.

    Attributes:
        qualifiers: Names that may qualify columns, in lower case.
        column_names: Names of columns by their qualifier and name, both in lower case, where a
            relation has them by another name.
    """

    cursor: Cursor
    qualifiers: frozenset[str] = frozenset()
    column_names: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of all statements."""
        return self.cursor.sql

    def fail(self, at: Span | exp.Expr, problem: str, hint: str) -> NoReturn:
        """Raise an ``SqlError`` at a span of the text, or at that of a node."""
        self.cursor.fail(self.locate(at) if isinstance(at, exp.Expr) else at, problem, hint)

    def locate(self, node: exp.Expr) -> Span:
        """Return the span of a node; refuse a node without one."""
        span, parent = find_span(node), node.parent
        if span is not None:
            return span
        while parent is not None and find_span(parent) is None:
            parent = parent.parent
        parent_span = (parent and find_span(parent)) or (0, 1)
        self.fail(parent_span, "this part has no text of its own", "compute it in a view")

    def locate_separable(self, node: exp.Expr) -> Span:
        """Return the span of a node that can be cut out of the text; refuse any other node.

        Text that is cut out must parse to the same node when it stands alone.
        """
        # A column's span comes from its tokens, so it needs no check.
        span = find_span(node)
        if span is None or not (isinstance(node, exp.Column) or self._parses_alone(node, span)):
            hint = "put it into parentheses, or compute it in a view and name its column here"
            whole = self.locate(find_spanned_parent(node))
            self.fail(whole, "this can't be separated from the text around it", hint)
        return span

    def _parses_alone(self, node: exp.Expr, span: Span) -> bool:
        """Return whether the text of a span parses to the same node when it stands alone."""
        text, values = self.text[slice(*span)], self.cursor.placeholder_values
        try:
            nodes, _ = parse_statements(
                text, lambda cursor: cursor.parse_scalar("an expression"), values
            )
        except SqlError:
            return False
        return nodes == [_drop_added_qualifiers(node)]

    def strip_qualifier(self, column: exp.Column) -> list[str]:
        """Return the parts of a column's name in the relation, without the qualifier."""
        names = [part.name for part in column.parts]
        qualifier, *rest = names
        if not rest or qualifier.lower() not in self.qualifiers:
            return names
        name, *fields = rest
        return [self.column_names.get((qualifier.lower(), name.lower()), name), *fields]

    def find_column_name(self, node: exp.Expr | None) -> str | None:
        """Return the name of a column; ``None`` for a struct's field and any other node."""
        names = self.strip_qualifier(node) if isinstance(node, exp.Column) else []
        return names[0] if len(names) == 1 else None

    def render(self, node: exp.Expr) -> str:
        """Return the text of an expression, without the qualifiers of its columns."""

        def render_part(part: exp.Expr) -> str | None:
            if isinstance(part, exp.Window):
                hint = "compute OVER (...) in the select list, on its own"
                self.fail(part, "OVER isn't supported here", hint)
            if not isinstance(part, exp.Column):
                return None
            names = self.strip_qualifier(part)
            return ".".join(map(quote_name, names)) if len(names) < len(part.parts) else None

        return self.rewrite(node, render_part)

    def rewrite(self, node: exp.Expr, render_part: Callable[[exp.Expr], str | None]) -> str:
        """Return the text of a node with some parts replaced.

        ``render_part`` returns the text that replaces a part; ``None`` visits its children.
        """
        replacements: Replacements = {}

        def visit(part: exp.Expr) -> None:
            problem = find_foreign_function(part)
            if problem is not None:
                self.fail(part, *problem)
            text = render_part(part)
            if text is None:
                text = self._render_epoch(part, render_part)
            if text is not None:
                replacements[self.locate_separable(part)] = text
                return
            for child in part.iter_expressions():
                if isinstance(child, exp.Expr):
                    visit(child)

        visit(node)
        return self.render_with(node, replacements)

    def _render_epoch(
        self, node: exp.Expr, render_part: Callable[[exp.Expr], str | None]
    ) -> str | None:
        """Return Spark's call for ``TO_TIMESTAMP_LTZ(x, 3)``; ``None`` for any other node."""
        if not isinstance(node, exp.Anonymous) or node.name.lower() != "to_timestamp_ltz":
            return None
        arguments = node.expressions
        if len(arguments) == 1 and isinstance(arguments[0], exp.Literal) and arguments[0].is_int:
            hint = "write TO_TIMESTAMP_LTZ(x, 3) for milliseconds, (x, 0) for seconds"
            self.fail(node, "this number has no unit", hint)
        if (
            len(arguments) != 2
            or not isinstance(arguments[1], exp.Literal)
            or arguments[1].is_string
        ):
            return None
        function = _EPOCHS.get(arguments[1].name)
        if function is None:
            hint = "write 3 for milliseconds, or 0 for seconds"
            self.fail(node, f"TO_TIMESTAMP_LTZ has no precision {arguments[1].name}", hint)
        return f"{function}({self.rewrite(arguments[0], render_part)})"

    def render_with(self, node: exp.Expr, replacements: Replacements) -> str:
        """Return the text of a node with some spans replaced and its placeholders filled in."""
        for hole in node.find_all(exp.Placeholder, exp.Parameter):
            hole_span = find_span(hole) or self.locate(node)
            self.fail(hole_span, "a placeholder stands outside of quotes", "write '${name}'")
        whole = start, end = self.locate_separable(node)
        pieces: list[str] = []
        for (low, high), text in sorted(replacements.items()):
            pieces += [self._fill_placeholders(start, low), text]
            start = high
        return self.note_span("".join([*pieces, self._fill_placeholders(start, end)]), whole)

    def note_span(self, text: str, span: Span) -> str:
        """Note the span at which errors of Spark in this text are reported; return the text."""
        self.cursor.expression_spans.setdefault(text, span)
        return text

    def _fill_placeholders(self, start: int, end: int) -> str:
        def find_value(name: str, position: int) -> str:
            hole = f"${{{name}}}"
            hole_span = (start + position, start + position + len(hole))
            return self.cursor.fill_placeholders(hole, hole_span)

        try:
            return fill_expression(self.text[start:end], find_value)
        except OutsideQuotesError as error:
            hint = "write '${name}'"
            self.fail((start, end), f"{error} stands outside of quotes", hint)


def walk(*nodes: exp.Expr) -> Iterator[exp.Expr]:
    """Yield nodes and all of their descendants."""
    for node in nodes:
        yield node
        yield from walk(*(one for one in node.iter_expressions() if isinstance(one, exp.Expr)))


# The operators with the same precedence in Spark and in sqlglot.
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
    """Return whether Spark certainly groups a node and its parent as sqlglot does.

    sqlglot parses ``a | b & c`` as ``(a | b) & c``, and Spark as ``a | (b & c)``.
    """
    parent = node.parent
    operand = node.this if isinstance(node, exp.Not) else node
    # Spark parses ``b = v BETWEEN x AND y`` as ``(b = v) BETWEEN x AND y``. In a list, parentheses
    # or commas delimit the node.
    if _is_comparison(operand) and _is_comparison(parent) and node.arg_key != "expressions":
        return False
    operators = (exp.Binary, exp.Unary)
    if not isinstance(node, operators) or not isinstance(parent, operators):
        return True
    if isinstance(node, exp.Paren | exp.Dot) or isinstance(parent, exp.Paren):
        return True
    return all(isinstance(one, (*_SAME_PRECEDENCE, exp.Unary)) for one in (node, parent))


def _is_comparison(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Predicate) and isinstance(node, exp.Binary | exp.Between | exp.In)


def normalize(node: exp.Expr, scope: Scope) -> exp.Expr:
    """Return a node without the qualifiers, quotes and capitals that don't change its meaning.

    Parentheses around the node are omitted too. Names of fields keep their capitals, which
    distinguish the keys of a map. Strings keep their quotes and escapes, some of which sqlglot
    parses differently from Spark.
    """

    def simplify(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            parts = scope.strip_qualifier(part)
            names = [exp.Identifier(this=name_part, quoted=False) for name_part in parts]
            names[0].set("this", parts[0].lower())
            return exp.Dot.build(names) if len(names) > 1 else exp.Column(this=names[0])
        if isinstance(part, exp.Identifier):
            return exp.Identifier(this=part.name, quoted=False)
        if isinstance(part, exp.Anonymous):
            part.set("this", part.name.lower())
            return part
        is_literal = isinstance(part, exp.Concat | exp.RawString) or part.is_string
        span = find_span(part) if is_literal else None
        return exp.RawString(this=scope.text[slice(*span)]) if span else part

    return node.unnest().transform(simplify)


def _drop_added_qualifiers(node: exp.Expr) -> exp.Expr:
    """Return a node without the qualifiers of columns that its text doesn't have."""

    def is_added(column: exp.Column) -> bool:
        table = column.args.get("table")
        return table is not None and find_span(table) is None

    if not any(is_added(column) for column in node.find_all(exp.Column)):
        return node
    plain = node.copy()
    for column in plain.find_all(exp.Column):
        if is_added(column):
            column.set("table", None)
    return plain
