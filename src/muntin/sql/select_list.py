"""The keys, aggregates and output columns of a windowed query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from muntin.model.aggregates import Aggregate, count
from muntin.model.errors import OptionError
from muntin.model.grouping_sets import GROUPING_ID
from muntin.model.kinds import Kind
from muntin.model.pipeline import (
    EMISSION_COLUMNS,
    NUMBER,
    ROW_INDEX,
    WINDOW_BOUNDS,
    Column,
    quote_name,
)
from muntin.model.policies import Firing
from muntin.model.spec import WindowSpec, check_effects
from muntin.sql.cursor import Span
from muntin.sql.expressions import Scope, is_grouped_as_parsed, normalize
from muntin.sql.syntax import Select, SelectItem
from muntin.sql.window_functions import WindowBinding

START, END = WINDOW_BOUNDS
FLINK_ROWTIME = f"({END} - INTERVAL '0.001' SECOND)"
"""The last moment of a window, as Flink's functions return it."""
ROW_NUMBER_COLUMN = Column(NUMBER, f"{ROW_INDEX} + 1")


class SelectList(ABC):
    """The keys, aggregates and output columns of a windowed query, collected while it is lowered.

    Attributes:
        outputs: Output columns in the order of the select list.
        having: Condition over results; ``None`` without one.
        spans: Spans of keys and aggregates, by the names that the model's errors use.
        grouping_sets: Numbers of the grouping sets; ``None`` without them.
        each: Whether each message at the end of a window is a row.
    """

    def __init__(self, scope: Scope, select: Select) -> None:
        self.scope = scope
        self.select = select
        self.keys: list[Column] = []
        self.aggregates: dict[str, Aggregate] = {}
        self.outputs: list[Column] = []
        self.having: str | None = None
        self.spans: dict[str, Span] = {}
        self.grouping_sets: tuple[int, ...] | None = None
        self.each = False
        self._key_names: list[tuple[exp.Expr, str]] = []

    def add_key(self, node: exp.Expr, span: Span) -> None:
        """Add a key, named by its alias in the select list."""
        node = node.unnest()
        text, normalized = self.scope.render(node), normalize(node, self.scope)
        column_name = self.scope.find_column_name(node)
        # Spark names a struct's field by its last part.
        name = column_name or (node.name if isinstance(node, exp.Column | exp.Dot) else text)
        for item in (*self.select.items, *self.select.named_keys):
            if item.alias and item.scalar and normalize(item.scalar, self.scope) == normalized:
                name = item.alias
                break
        if any(normalized == key for key, _ in self._key_names):
            return
        self.keys.append(
            Column(
                name, self.scope.note_span(quote_name(column_name), span) if column_name else text
            )
        )
        self._key_names.append((normalized, name))
        self.spans.setdefault("key", span)
        self.spans[f"key {name}"] = span

    def find_key(self, node: exp.Expr) -> str | None:
        """Return the name of the key that a node equals; ``None`` if it isn't a key."""
        if not is_grouped_as_parsed(node):
            return None
        normalized = normalize(node, self.scope)
        return next((name for key, name in self._key_names if key == normalized), None)

    def add_aggregate(self, aggregate: Aggregate, span: Span, name: str | None = None) -> str:
        """Add an aggregate unless an equal one exists; return its name."""
        for existing_name, existing in self.aggregates.items():
            if existing == aggregate:
                return existing_name
        name = name or f"__muntin_a{len(self.aggregates)}"
        if name in self.aggregates:
            name = f"__muntin_a{len(self.aggregates)}"
        self.aggregates[name] = aggregate
        self.spans[f"agg {name}"] = span
        return name

    def render_over_results(self, node: exp.Expr) -> str:
        """Return the text of an expression over results, whose columns are keys and aggregates."""
        return self.scope.rewrite(node, self._render_result_part)

    def _render_result_part(self, node: exp.Expr) -> str | None:
        key = self.find_key(node)
        return self._render_part(node) if key is None else quote_name(key)

    @abstractmethod
    def _render_part(self, node: exp.Expr) -> str | None:
        """Return the text over results of a node that isn't a key; ``None`` visits its children."""

    def add_output(self, item: SelectItem, name: str, text: str) -> None:
        """Add an output column."""
        hint = "give it another name with AS"
        if any(name.lower() == shown.name.lower() for shown in self.outputs):
            self.scope.fail(item.span, f"two columns are called {name}", hint)
        own_texts = {key.name.lower(): quote_name(key.name) for key in self.keys}
        own_texts |= {
            START: START,
            END: END,
            **{emission_column: emission_column for emission_column in EMISSION_COLUMNS},
        }
        if self.grouping_sets is not None:
            own_texts[GROUPING_ID] = GROUPING_ID
        if name.lower() in own_texts and text != own_texts[name.lower()]:
            self.scope.fail(item.span, f"{name} is a column of the output already", hint)
        self.outputs.append(Column(name, text))

    def add_engine_columns(self, offset: tuple[str, str] | None) -> None:
        """Add the keys and aggregates that the engine needs and the query doesn't have."""
        if offset is not None and not any(k.name == offset[0] for k in self.keys[:1]):
            # Offsets are positions within their partition.
            self.keys.insert(0, Column(offset[0], quote_name(offset[0])))
        if not self.aggregates:
            self.add_aggregate(count(), self.select.span)

    def build_spec(self, binding: WindowBinding, firing: Firing, **options: Any) -> WindowSpec:
        """Return the spec of the query, in which NULL is a group of its own as in ``GROUP BY``."""
        spec = WindowSpec(
            keys=self._identity_columns,
            time=binding.time,
            windows=self._name_zones(binding.windows),
            aggregates=dict(self.aggregates),
            firing=firing,
            nulls="group",
            sets=self.grouping_sets,
            **options,
        )
        return check_effects(spec)

    def _name_zones(self, windows: Kind) -> Kind:
        """Return windows with a zone per key over the key that has the zones."""
        column = windows.zone_column
        if column is None:
            return windows
        keys = {key.text.replace("`", "").lower(): key.name for key in self.keys}
        name = keys.get(column.lower())
        if name is None:
            raise OptionError("zone_column", column, "isn't a key", f"add GROUP BY {column}")
        return windows.map_columns(lambda *_: name)

    @property
    def _identity_columns(self) -> tuple[str, ...]:
        """The names of the keys, and of the grouping set's number if there are sets."""
        return (
            *(key.name for key in self.keys),
            *(() if self.grouping_sets is None else (GROUPING_ID,)),
        )

    def build_columns(self) -> tuple[Column, ...] | None:
        """Return the output columns; ``None`` if they are the default ones.

        The columns that identify a window are always among them.
        """
        identity = [*self._identity_columns, START, END]
        default = [*identity, *self.aggregates, *EMISSION_COLUMNS]
        columns = complete_columns(self.outputs, identity)
        is_unchanged = all(column.bare for column in columns) and self.having is None
        return None if is_unchanged and [c.name for c in columns] == default else columns


def find_item_by_ordinal(scope: Scope, select: Select, node: exp.Expr) -> SelectItem | None:
    """Return the item that an ordinal in ``GROUP BY`` or ``ORDER BY`` means, if it is one."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    ordinal = int(node.name) if node.name.isdigit() else 0
    if not 1 <= ordinal <= len(select.items):
        hint = f"give a number from 1 to {len(select.items)}, or a column"
        scope.fail(node, f"there is no column {node.name}", hint)
    if any(item.scalar is None for item in select.items):
        scope.fail(node, "* isn't one column", "name the columns")
    return select.items[ordinal - 1]


def list_group(scope: Scope, select: Select) -> list[exp.Expr]:
    """Return the expressions of ``GROUP BY``, also those that it names by ordinals and aliases."""
    aliases = {item.alias.lower(): item for item in select.items if item.alias is not None}
    nodes = []
    for node in (one.unnest() for one in select.group):
        item = find_item_by_ordinal(scope, select, node)
        if item is None and isinstance(node, exp.Column):
            item = aliases.get(node.sql().lower())
        nodes.append(node if item is None or item.scalar is None else item.scalar.unnest())
    return nodes


def complete_columns(
    outputs: Sequence[Column], identity: Sequence[str], *, each: bool = False
) -> tuple[Column, ...]:
    """Return the selected columns, with those that identify a window and its emission.

    Missing columns of the identity follow the leading ones that are selected. With ``each``, every
    row of a window is a result, identified by its number.
    """
    selected = {column.name for column in outputs}
    missing = [Column(name, quote_name(name)) for name in identity if name not in selected]
    leading = 0
    while leading < len(outputs) and outputs[leading].name in identity:
        leading += 1
    emission_columns = [Column(name, name) for name in EMISSION_COLUMNS if name not in selected]
    emission_columns += [ROW_NUMBER_COLUMN] if each and NUMBER not in selected else []
    return (*outputs[:leading], *missing, *outputs[leading:], *emission_columns)
