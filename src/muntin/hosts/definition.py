"""Complete queries, which can be described, explained or started, for every host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from muntin.explain.size import Rates, make_rates
from muntin.explain.summary import format_html_summary, format_summary
from muntin.model.attribute_hints import WithoutRows
from muntin.model.axis import Duration
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.option_names import suggest_options
from muntin.model.option_types import check_boolean, check_text, parse_folder
from muntin.model.rolling import emits_plain_rows
from muntin.model.spec import WindowSpec
from muntin.sinks.sink import SinkLike

if TYPE_CHECKING:
    from muntin.query import Query


class HostPlan(Protocol):
    """A plan that a host runs."""

    @property
    def spec(self) -> WindowSpec | JoinSpec:
        """The query of the last operator."""

    @property
    def reads_streams(self) -> bool:
        """True if at least one source is a stream."""


P = TypeVar("P", bound=HostPlan)
Q = TypeVar("Q", bound="Query")


@dataclass(frozen=True)
class StartOptions:
    """The options of `Definition.start`."""

    checkpoint: str | None
    results: SinkLike | None
    rejected: SinkLike | None
    name: str | None
    every: Duration | None
    available_now: bool
    durable: bool | Duration


class Definition(WithoutRows, ABC, Generic[P, Q]):
    """Complete windows or a complete join.

    Args:
        plan: The plan that the host runs.
    """

    _kind_of_words = "query"

    def __init__(self, plan: P) -> None:
        self.plan = plan

    def __repr__(self) -> str:
        return format_summary(self.plan.spec, self._columns())

    def _repr_html_(self) -> str:
        return format_html_summary(self.plan.spec, self._columns())

    @abstractmethod
    def _columns(self) -> list[tuple[str, str]]:
        """Return the columns of the results, with their types in the host's words."""

    def _require_finite(self) -> None:
        """Refuse to sort the results of a stream."""
        if self.plan.reads_streams:
            problem = "never ends on a stream"
            raise OptionError("ORDER BY", "a stream", problem, "order the table that you write to")

    @abstractmethod
    def _start(self, options: StartOptions) -> Q:
        """Start the query."""

    @suggest_options('give a folder, checkpoint="checkpoints/views"; in one process also None')
    def start(
        self,
        *,
        checkpoint: str | PathLike[str] | None,
        results: SinkLike | None = None,
        rejected: SinkLike | None = None,
        name: str | None = None,
        every: Duration | None = None,
        available_now: bool = False,
        durable: bool | Duration = True,
    ) -> Q:
        """Start one query that writes results and rejected messages.

        State, source offsets and the watermark are committed after each batch. A query that is
        killed at any moment resumes from its checkpoint: each batch reaches the sinks at least once
        under its number, and a repeated batch has the same rows. The sinks of muntin make that
        exactly once. On the local host a finite source (a frame) is read to its end, then every
        window emits in full and the query ends.

        Args:
            checkpoint: Folder of the query's progress and state; the same after a restart. `None`
                keeps them in memory on the local host: nothing is left when the process ends.
            results: A sink (`to_parquet`, `to_duckdb`, `to_delta`, `to_iceberg`, `to_postgres`,
                `to_kafka`), or a function that is called with the rows of each batch and its
                number: a DataFrame on Spark, as in `foreachBatch`, and a Polars frame elsewhere.
                On the local host `query.frame()` has the results if no sink is given.
            rejected: A sink for rejected messages, or a function as for `results`.
            name: The query's name.
            every: The shortest time between batches; without it, batches run as messages arrive.
            available_now: Read the input that the sources have now, then end.
            durable: On the local host, whether each commit is synced to disk. A duration
                (`"1 second"`) syncs that often: a power failure then repeats at most that much of
                the input, and a killed process repeats nothing. `False` leaves it to the operating
                system. Spark syncs by its own rules, and takes only the default.

        Returns:
            The handle on the running query.

        Raises:
            OptionError: When an option can't work; the error names it.
            SpecChangedError: When the checkpoint was written by another query.
            StateCorruptedError: When the checkpoint is damaged.
        """
        folder = None if checkpoint is None else parse_folder("checkpoint", checkpoint)
        if name is not None:
            check_text("name", name)
        check_boolean("available_now", available_now)
        if available_now and every is not None:
            hint = "leave one of them out: such a run doesn't wait between batches"
            raise OptionError("every", every, "can't be combined with available_now", hint)
        options = (folder, results, rejected, name, every, available_now, durable)
        return self._start(StartOptions(*options))


C = TypeVar("C")


class WindowDefinition(ABC, Generic[C]):
    """The operations of complete windows that other queries don't have."""

    plan: Any

    @abstractmethod
    def _describe(self, rates: Rates | None) -> str:
        """Describe the query and its upstream queries."""

    @abstractmethod
    def _take_full(self) -> Any:
        """Return the full emissions, each of which is a whole result."""

    @abstractmethod
    def _top(self, n: int, by: Any, per: Any, ascending: Any) -> C:
        """Return the first `n` of the windows that have the same bounds."""

    @property
    def full(self) -> Any:
        """Only the full emissions: each window once, without early and late ones.

        `windowed` and `join` take it where a window may be emitted again. For a query over frames
        it is a frame.

        Raises:
            OptionError: When a full emission isn't a whole result (`deltas()`), or may be left out
                (`full(repeat=False)`).
        """
        spec = self.plan.spec
        assert isinstance(spec, WindowSpec)
        if emits_plain_rows(spec):
            hint = "give the query itself, which has each row once"
            raise OptionError("full", "rows without windows", "aren't emitted in full", hint)
        if not spec.firing.accumulate and spec.firing.early is not None:
            hint = "leave out deltas() or early()"
            raise OptionError("deltas", True, "leaves a full firing only what is new", hint)
        if not spec.firing.repeat:
            hint = "leave out full(repeat=False)"
            raise OptionError("repeat", False, "leaves out windows that emitted early", hint)
        return self._take_full()

    def top(
        self,
        n: int,
        *,
        by: str | Sequence[str],
        per: str | Sequence[str] = (),
        ascending: bool | Sequence[bool] = False,
    ) -> C:
        """Rank the windows that have the same bounds, and take the first `n`.

        The columns are those of the results, and `rank`, from 1. Each row is emitted once, when
        the windows are full. It is one query, in which the emitted windows are messages.

        Args:
            n: The largest number of windows to take.
            by: The columns that windows are ordered by. Ties are ordered by all columns from left
                to right, the least value first.
            per: Key columns; the first `n` windows are taken for each of their values.
            ascending: Whether the least value is first, for all or for each of `by`.

        Raises:
            OptionError: When a column, a type or a policy can't work; the error names it.

        Example:
            >>> worst = hourly.top(3, by="worst")  # doctest: +SKIP
        """
        windows = self.plan.spec.windows
        if windows.result_key is not None:
            hint = "rank the rows of the table that the results are written to"
            raise OptionError("top", str(windows), "emit only the keys that change", hint)
        return self._top(n, by, per, ascending)

    def explain(self, *, rate: float | None = None, keys: int | None = None) -> str:
        """Describe the windows on a ruler, the policies, the state, and possible problems.

        Args:
            rate: Messages per second; with it the size of the state is estimated.
            keys: The number of keys that have messages within a window, for this estimate. Default:
                1000.

        Raises:
            OptionError: When one isn't above 0, or `keys` is set without `rate`.
        """
        return self._describe(make_rates(rate, keys))


def explain_chain(plan: Any, describe: Callable[[Any], str]) -> str:
    """Describe an operator, with ``describe``, after its upstream operators."""
    upstream = (explain_chain(one.plan, describe) for one in plan.upstreams)
    return "\n\n".join([*upstream, describe(plan)])
