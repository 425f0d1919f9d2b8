"""The select list of any windowed query: its keys, its aggregates, and its output columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from muntin.model.aggregates import Aggregate, count
from muntin.model.errors import OptionError
from muntin.model.grouping_sets import GROUPING_ID
from muntin.model.kinds import Kind
from muntin.model.pipeline import NUMBER, PLACE, Column, quote_name
from muntin.model.policies import Firing
from muntin.model.spec import WindowSpec
from muntin.model.zones import ZonedWindows
from muntin.sql.cursor import Span
from muntin.sql.expressions import Scope, is_grouped_as_parsed, normalize
from muntin.sql.syntax import Select, SelectItem
from muntin.sql.window_functions import WindowBinding

START, END = "window_start", "window_end"
EMISSION_COLUMNS = ("emission", "revision")
ROW_NUMBER_COLUMN = Column(NUMBER, f"{PLACE} + 1")


class SelectList(ABC):
    """The keys, aggregates and output of a windowed query, collected while it is read."""

    def __init__(self, scope: Scope, select: Select) -> None:
        self.scope = scope
        self.select = select
        self.keys: list[Column] = []
        self.aggregates: dict[str, Aggregate] = {}
        self.outputs: list[Column] = []
        self.having: str | None = None
        self.spans: dict[str, Span] = {}
        self.sets: tuple[int, ...] | None = None
        self.each = False
        self._named: list[tuple[exp.Expr, str]] = []

    def key(self, node: exp.Expr, span: Span) -> None:
        """Add a key under the name that the select list gives it."""
        node = node.unnest()
        text, meant = self.scope.plain(node), normalize(node, self.scope)
        own = self.scope.own(node)
        # A field of a struct has the name that Spark gives it.
        name = own or (node.name if isinstance(node, exp.Column | exp.Dot) else text)
        for item in self.select.items:
            if item.alias and item.scalar and normalize(item.scalar, self.scope) == meant:
                name = item.alias
                break
        if any(meant == known for known, _ in self._named):
            return
        self.keys.append(Column(name, self.scope.noted(quote_name(own), span) if own else text))
        self._named.append((meant, name))
        self.spans.setdefault("key", span)
        self.spans[f"key {name}"] = span

    def key_of(self, node: exp.Expr) -> str | None:
        """Return the name of the key that a node stands for; ``None`` if it isn't a key."""
        if not is_grouped_as_parsed(node):
            return None
        meant = normalize(node, self.scope)
        return next((name for known, name in self._named if known == meant), None)

    def computed(self, aggregate: Aggregate, span: Span, name: str | None = None) -> str:
        """Add an aggregate and return its name; an aggregate that exists already keeps its name."""
        for known, same in self.aggregates.items():
            if same == aggregate:
                return known
        name = name or f"__muntin_a{len(self.aggregates)}"
        if name in self.aggregates:
            name = f"__muntin_a{len(self.aggregates)}"
        self.aggregates[name] = aggregate
        self.spans[f"agg {name}"] = span
        return name

    def over_results(self, node: exp.Expr) -> str:
        """Return an expression over results, which have keys and aggregates under their names."""
        return self.scope.rewritten(node, self._named_in_results)

    def _named_in_results(self, node: exp.Expr) -> str | None:
        key = self.key_of(node)
        return self._named_there(node) if key is None else quote_name(key)

    @abstractmethod
    def _named_there(self, node: exp.Expr) -> str | None:
        """Return the text of a node that isn't a key, in results; ``None`` looks into its parts."""

    def show(self, item: SelectItem, name: str, text: str) -> None:
        """Add a column to the output."""
        hint = "give it another name with AS"
        if any(name.lower() == shown.name.lower() for shown in self.outputs):
            self.scope.fail(item.span, f"two columns are called {name}", hint)
        mine = {key.name.lower(): quote_name(key.name) for key in self.keys}
        mine |= {START: START, END: END, **{own: own for own in EMISSION_COLUMNS}}
        if self.sets is not None:
            mine[GROUPING_ID] = GROUPING_ID
        if name.lower() in mine and text != mine[name.lower()]:
            self.scope.fail(item.span, f"{name} is a column of the output already", hint)
        self.outputs.append(Column(name, text))

    def finish(self, offset: tuple[str, str] | None) -> None:
        """Complete the keys and aggregates with those that the engine needs."""
        if offset is not None and not any(k.name == offset[0] for k in self.keys[:1]):
            # Offsets count within their partition.
            self.keys.insert(0, Column(offset[0], quote_name(offset[0])))
        if not self.aggregates:
            self.computed(count(), self.select.span)

    def spec(self, meant: WindowBinding, firing: Firing, **options: Any) -> WindowSpec:
        """Return the spec of the query; NULL is a group of its own, as in ``GROUP BY``."""
        return WindowSpec(
            keys=self._identity,
            time=meant.time,
            windows=self._name_zones(meant.windows),
            aggregates=dict(self.aggregates),
            firing=firing,
            nulls="group",
            sets=self.sets,
            **options,
        )

    def _name_zones(self, windows: Kind) -> Kind:
        """Return windows with a zone per key over the key that has the zones."""
        if not isinstance(windows, ZonedWindows):
            return windows
        column = windows.column
        for key in self.keys:
            if key.text.replace("`", "").lower() == column.lower():
                return replace(windows, column=key.name)
        raise OptionError("zone_column", column, "isn't a key", f"add GROUP BY {column}")

    @property
    def _identity(self) -> tuple[str, ...]:
        """The keys, and the number of the grouping set if there are sets."""
        return (*(key.name for key in self.keys), *(() if self.sets is None else (GROUPING_ID,)))

    def shown(self) -> tuple[Column, ...] | None:
        """Return the output columns of an emission; ``None`` if they are the default ones.

        The columns that identify a window are always shown, before the first one that doesn't
        identify it.
        """
        identity = [*self._identity, START, END]
        default = [*identity, *self.aggregates, *EMISSION_COLUMNS]
        whole = complete_columns(self.outputs, identity)
        plain = all(column.bare for column in whole) and self.having is None
        return None if plain and [c.name for c in whole] == default else whole


def find_item_by_ordinal(scope: Scope, select: Select, node: exp.Expr) -> SelectItem | None:
    """Return the item that an ordinal means in ``GROUP BY`` or ``ORDER BY``; otherwise ``None``."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    place = int(node.name) if node.name.isdigit() else 0
    if not 1 <= place <= len(select.items):
        hint = f"give a number from 1 to {len(select.items)}, or a column"
        scope.fail(scope.span(node), f"there is no column {node.name}", hint)
    if any(item.scalar is None for item in select.items):
        scope.fail(scope.span(node), "* isn't one column", "name the columns")
    return select.items[place - 1]


def complete_columns(
    outputs: Sequence[Column], identity: Sequence[str], *, each: bool = False
) -> tuple[Column, ...]:
    """Return the chosen columns, completed by those that identify a window and its emission.

    Args:
        outputs: Chosen columns.
        identity: Names of the columns that identify a window.
        each: Whether each row of a window is shown, identified by its number.
    """
    chosen = {column.name for column in outputs}
    missing = [Column(name, quote_name(name)) for name in identity if name not in chosen]
    lead = 0
    while lead < len(outputs) and outputs[lead].name in identity:
        lead += 1
    own = [Column(name, name) for name in EMISSION_COLUMNS if name not in chosen]
    own += [ROW_NUMBER_COLUMN] if each and NUMBER not in chosen else []
    return (*outputs[:lead], *missing, *outputs[lead:], *own)
