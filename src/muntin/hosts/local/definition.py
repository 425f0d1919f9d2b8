"""Finished windows and joins on the local host: to be read, explained or started."""

from __future__ import annotations

from functools import cached_property
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl

from muntin.engine import columns
from muntin.explain.glance import format_html_summary, format_summary
from muntin.explain.joins import explain_join
from muntin.explain.size import Rates
from muntin.explain.story import Circumstances, describe_spec
from muntin.hosts.local.batch import run_once
from muntin.hosts.local.plan import Plan, Upstream
from muntin.hosts.local.run import Emitted
from muntin.model.axis import Duration
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.other_words import missing_word
from muntin.model.spec import WindowSpec
from muntin.sources.frames import FrameSource

if TYPE_CHECKING:
    from muntin.hosts.local.query import LocalQuery, SinkLike

FINITE_HINT = "call .start(), or give it to windowed() or join()"


class LocalDefinition:
    """What finished windows and joins have in common.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __repr__(self) -> str:
        return format_summary(self.plan.spec, self._columns())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(missing_word(name, complete=True))

    def _repr_html_(self) -> str:
        return format_html_summary(self.plan.spec, self._columns())

    def _columns(self) -> list[tuple[str, str]]:
        """The columns of the results, with their types in Polars' words."""
        return [(name, str(kind)) for name, kind in self.plan.shown.items()]

    @cached_property
    def _emitted(self) -> Emitted:
        if self.plan.streams:
            problem = "is a source that has no end, so it has no frame of results"
            raise OptionError("results", "a stream", problem, FINITE_HINT)
        return run_once(self.plan)

    @property
    def results(self) -> Any:
        """The results as a frame of the kind that was given: Polars, pandas or Arrow."""
        return self._as_given(self._emitted.results)

    @property
    def rejected(self) -> Any:
        """Every message that was not let in, as it came, with `reason` and `watermark`.

        Reasons: `late`, `future` (beyond `max_ahead`), `null_key`, `null_time`, `malformed` (what
        can't be decoded); of windows `overflow` (not a message: the key and start of a window whose
        integer sum left 64 bits). Of a join also `side`.
        """
        return self._as_given(self._emitted.rejected)

    def _as_given(self, rows: pl.DataFrame) -> Any:
        source = self.plan.sources[0]
        return source.give_back(rows) if isinstance(source, FrameSource) else rows

    @property
    def upstream(self) -> Upstream:
        """The query as what another one takes its results from."""
        return Upstream(self.plan)

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
    ) -> LocalQuery:
        """Start the query in this process; it writes results and rejected messages.

        State, source offsets, the watermark and what the sinks have are committed together after
        each batch. A process that is killed at any moment resumes from its checkpoint: each batch
        reaches the sinks at least once under its number, and a repeated batch has the same rows.
        The sinks of muntin make that exactly once. A finite source (a frame) is read to its end,
        then every window emits in full and the query ends.

        Args:
            checkpoint: Folder of the query's progress and state; the same after a restart. `None`
                keeps them in memory: nothing is left when the process ends.
            results: A sink, or a function of a Polars frame and the batch number, which is called
                with each batch that has rows. Without a sink `query.frame()` has the results.
            rejected: The same for rejected messages.
            name: The query's name.
            every: A batch at most this often; as fast as messages come where it isn't given.
            available_now: Read what the sources have now, then end.
            durable: Whether a batch is on the disk when it is committed. A duration (`"1 second"`)
                waits for the disk that often: a power failure then repeats up to so much of the
                input; a killed process repeats nothing. `False` leaves it to the operating system.

        Raises:
            OptionError: Naming what can't work.
            SpecChangedError: When the checkpoint was written by another query.
            StateCorruptedError: When the checkpoint is damaged.
        """
        from muntin.hosts.local.query import start_query

        folder = None if checkpoint is None else fspath(checkpoint)
        sinks = (results, rejected)
        return start_query(self.plan, folder, sinks, name, every, available_now, durable)


class LocalWindowedAggregate(LocalDefinition):
    """A finished windowed aggregation on the local host."""

    @property
    def full(self) -> Any:
        """The full firings alone: each window once, without what came early or late.

        Of frames they are a frame; of other sources `windowed` and `join` take them.

        Raises:
            OptionError: When a full firing isn't a whole result (`deltas()`), or may be left out
                (`full(repeat=False)`).
        """
        spec = self.plan.spec
        assert isinstance(spec, WindowSpec)
        if not spec.firing.accumulate and spec.firing.early is not None:
            hint = "leave out deltas() or early()"
            raise OptionError("deltas", True, "leaves a full firing only what is new", hint)
        if not spec.firing.repeat:
            hint = "leave out full(repeat=False)"
            raise OptionError("repeat", False, "leaves out windows that emitted early", hint)
        if self.plan.streams:
            return FullFirings(self.plan)
        full = self._emitted.results.filter(pl.col(columns.EMISSION) == "full")
        return self._as_given(full)

    def top(
        self,
        n: int,
        *,
        by: str | list[str],
        per: str | list[str] = (),  # type: ignore[assignment]
        ascending: bool | list[bool] = False,
    ) -> LocalWindowedAggregate:
        """The first `n` of the windows that begin and end together, with their `rank`.

        The columns are those of the results, and `rank`, from 1. Each row is emitted once, when
        the windows are full. It is one query: the windows that were emitted are messages of it.

        Args:
            n: How many at most.
            by: The columns that windows are ordered by; of windows that are equal in them, by all
                columns from left to right, the least first.
            per: Key columns for each of whose values there are `n`.
            ascending: Whether the least is first, for all or for each of `by`.

        Raises:
            OptionError: Naming what can't work: a column, a type, a policy.
        """
        from muntin.hosts.local.ranked import top_windows

        upstream = self.upstream
        if upstream.emits_again:
            _ = self.full  # raises where full firings aren't whole
            upstream = Upstream(self.plan, full=True)
        return LocalWindowedAggregate(top_windows(upstream, n, by, per, ascending))

    def explain(self, *, rate: float | None = None, keys: int = 1000) -> str:
        """The windows on a ruler, the policies, the state, and what to be careful of, in words.

        Args:
            rate: How many messages come in a second; with it the size of the state is estimated.
            keys: How many keys send within a window.
        """
        return explain(self.plan, None if rate is None else Rates(rate, keys))


class LocalJoined(LocalDefinition):
    """A finished join on the local host; `windowed` takes its pairs into windows."""

    def explain(self) -> str:
        """Who are partners, how long one waits, and how the state lies, in words."""
        return explain(self.plan)


class FullFirings(LocalDefinition):
    """The full firings of windows, which `windowed` and `join` take."""

    @property
    def upstream(self) -> Upstream:
        """The windows as what another query takes its results from."""
        return Upstream(self.plan, full=True)


def explain(plan: Plan, rates: Rates | None = None) -> str:
    """Describe what a plan does, behind those whose results it takes."""
    return "\n\n".join([*(explain(fed.plan) for fed in plan.fed), _explained(plan, rates)])


def _explained(plan: Plan, rates: Rates | None) -> str:
    spec = plan.spec
    if isinstance(spec, JoinSpec):
        return explain_join(spec, plan.shards, None)
    source = "" if plan.fed else repr(plan.inputs[0].rows)
    known = Circumstances(plan.shards, None, rates, source=source or None, local=True)
    return describe_spec(spec, known)
