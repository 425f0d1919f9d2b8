"""What every windowed query's select list comes to: keys, aggregates, and what is shown of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from muntin.model.aggregates import Aggregate, count
from muntin.model.grouping_sets import GROUPING_ID
from muntin.model.pipeline import NUMBER, PLACE, Column, quoted
from muntin.model.policies import Firing
from muntin.model.spec import WindowSpec
from muntin.sql.cursor import Span
from muntin.sql.expressions import Scope, apart, normal
from muntin.sql.syntax import Item, Select
from muntin.sql.windowcalls import Meant

START, END = "window_start", "window_end"
OWN = ("emission", "revision")
NUMBERED = Column(NUMBER, f"{PLACE} + 1")


class SelectList(ABC):
    """The keys, the aggregates and the output of a windowed query, as they are found."""

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
        """Add a key, under the name that the select list gives it."""
        node = node.unnest()
        text, meant = self.scope.plain(node), normal(node, self.scope)
        own = self.scope.own(node)
        # A field of a struct is called as Spark calls it.
        name = own or (node.name if isinstance(node, exp.Column | exp.Dot) else text)
        for item in self.select.items:
            if item.alias and item.scalar and normal(item.scalar, self.scope) == meant:
                name = item.alias
                break
        if any(meant == known for known, _ in self._named):
            return
        self.keys.append(Column(name, self.scope.noted(quoted(own), span) if own else text))
        self._named.append((meant, name))
        self.spans.setdefault("key", span)
        self.spans[f"key {name}"] = span

    def key_of(self, node: exp.Expr) -> str | None:
        """The name of the key that a node is."""
        if not apart(node):
            return None
        meant = normal(node, self.scope)
        return next((name for known, name in self._named if known == meant), None)

    def computed(self, aggregate: Aggregate, span: Span, name: str | None = None) -> str:
        """The name under which an aggregate is computed, the same for the same one."""
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
        """An expression over results: keys, aggregates and all else by their names there."""
        return self.scope.rewritten(node, self._named_in_results)

    def _named_in_results(self, node: exp.Expr) -> str | None:
        key = self.key_of(node)
        return self._named_there(node) if key is None else quoted(key)

    @abstractmethod
    def _named_there(self, node: exp.Expr) -> str | None:
        """What a node that is no key is called in results; ``None`` where its parts are."""

    def show(self, item: Item, name: str, text: str) -> None:
        """Add a column to the output."""
        hint = "give it another name with AS"
        if any(name.lower() == shown.name.lower() for shown in self.outputs):
            self.scope.fail(item.span, f"two columns are called {name}", hint)
        mine = {key.name.lower(): quoted(key.name) for key in self.keys}
        mine |= {START: START, END: END, **{own: own for own in OWN}}
        if self.sets is not None:
            mine[GROUPING_ID] = GROUPING_ID
        if name.lower() in mine and text != mine[name.lower()]:
            self.scope.fail(item.span, f"{name} is a column of the output already", hint)
        self.outputs.append(Column(name, text))

    def finish(self, offset: tuple[str, str] | None) -> None:
        """Make keys and aggregates what the engine needs."""
        if offset is not None and not any(k.name == offset[0] for k in self.keys[:1]):
            # Offsets count within their partition.
            self.keys.insert(0, Column(offset[0], quoted(offset[0])))
        if not self.aggregates:
            self.computed(count(), self.select.span)

    def spec(self, meant: Meant, firing: Firing, **options: Any) -> WindowSpec:
        """The query in the model's words; NULL is a group, as ``GROUP BY`` has it."""
        return WindowSpec(
            keys=self._identity,
            time=meant.time,
            windows=meant.windows,
            aggregates=dict(self.aggregates),
            firing=firing,
            nulls="group",
            sets=self.sets,
            **options,
        )

    @property
    def _identity(self) -> tuple[str, ...]:
        """The keys, and what says of which grouping set a row is."""
        return (*(key.name for key in self.keys), *(() if self.sets is None else (GROUPING_ID,)))

    def shown(self) -> tuple[Column, ...] | None:
        """What is shown of a firing; ``None`` where that is how it is emitted anyway.

        What identifies a window is always shown, in front of the first column that doesn't.
        """
        identity = [*self._identity, START, END]
        default = [*identity, *self.aggregates, *OWN]
        whole = complete(self.outputs, identity)
        plain = all(column.bare for column in whole) and self.having is None
        return None if plain and [c.name for c in whole] == default else whole


def item_at(scope: Scope, select: Select, node: exp.Expr) -> Item | None:
    """The item that a number in ``GROUP BY`` or ``ORDER BY`` means; of all else there is none."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    place = int(node.name) if node.name.isdigit() else 0
    if not 1 <= place <= len(select.items):
        hint = f"give a number from 1 to {len(select.items)}, or a column"
        scope.fail(scope.span(node), f"there is no column {node.name}", hint)
    if any(item.scalar is None for item in select.items):
        scope.fail(scope.span(node), "* isn't one column", "name the columns")
    return select.items[place - 1]


def complete(
    outputs: Sequence[Column], identity: Sequence[str], *, each: bool = False
) -> tuple[Column, ...]:
    """What is shown of a firing: what was chosen, and what identifies it and its version.

    Args:
        outputs: What was chosen.
        identity: The columns that identify a window.
        each: Whether each of its rows is shown, which its number identifies.
    """
    chosen = {column.name for column in outputs}
    missing = [Column(name, quoted(name)) for name in identity if name not in chosen]
    lead = 0
    while lead < len(outputs) and outputs[lead].name in identity:
        lead += 1
    own = [Column(name, name) for name in OWN if name not in chosen]
    own += [NUMBERED] if each and NUMBER not in chosen else []
    return (*outputs[:lead], *missing, *outputs[lead:], *own)
