"""Starts queries on Spark from a checkpoint, and connects their shards to sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from muntin.engine.operator import REJECTED, RESULTS
from muntin.hosts.chain import identifies_window
from muntin.hosts.definition import StartOptions
from muntin.hosts.seed import FOLDER
from muntin.model.axis import Duration, parse_duration
from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec
from muntin.sinks.kafka import KafkaSink
from muntin.sinks.sink import check_separate_tables, prepare_sinks
from muntin.spark.checkpoint_files import CheckedSpec
from muntin.spark.explain import collect_plan
from muntin.spark.host.executors import Executors
from muntin.spark.host.internals.checkpoints import find_home, path_exists
from muntin.spark.host.internals.jvm import is_connected, make_active, session_of
from muntin.spark.host.internals.plans import reads
from muntin.spark.host.plan import Plan
from muntin.spark.host.shards import count_partitions, read_stored_shards, use_partitions
from muntin.spark.query import WindowedQuery
from muntin.spark.remote import RemoteReporter, check_sendable, start_with_retries
from muntin.spark.rescale import fit_checkpoint
from muntin.spark.seeding import plant_seed
from muntin.spark.sinks.writers import check_destination, folders_of
from muntin.spark.sources.inputs import check_ticks, ending_run
from muntin.spark.sources.kafka_rows import KAFKA_SOURCE as KAFKA
from muntin.spark.sources.kafka_rows import list_source_references
from muntin.spark.writing import Destination, Writer

# The modules of extras that kinds of aggregates import, by the kind.
_AGGREGATE_MODULES = {"quantile": "datasketches"}
# Whether watchers get rejected messages even if no sink takes them.
_SHOWS_REJECTED = ContextVar("muntin_shown", default=False)


@contextmanager
def showing_rejected() -> Iterator[None]:
    """Have queries that start in the context show rejected messages to watchers in any case."""
    before = _SHOWS_REJECTED.set(True)
    try:
        yield
    finally:
        _SHOWS_REJECTED.reset(before)


def start_spark_query(plan: Plan, options: StartOptions) -> WindowedQuery:
    """Start a query on Spark with the options of `Definition.start`."""
    checkpoint = _check_options(plan, options)
    results, rejected = options.results, options.rejected
    outputs = [
        Destination(RESULTS, plan.results_schema, plan.keys, results, identifies_window(plan.spec)),
        Destination(REJECTED, plan.rejection_schema, None, rejected),
    ]
    if collect_plan(plan, options.name):
        _check_outputs(outputs, checkpoint)
        return WindowedQuery()
    # If nobody takes rejected messages, don't send the columns that only they have.
    emits_rejected = rejected is not None or results is None or _SHOWS_REJECTED.get()

    def run(handle: WindowedQuery | None, ends_run: bool = False) -> WindowedQuery:
        handle = handle or WindowedQuery()
        handle.spark, handle.checkpoint = plan.spark, checkpoint
        with handle.hold_lease():
            stored_shards = read_stored_shards(plan.spark, checkpoint)
            sized = plan if stored_shards is None else plan.with_shards(stored_shards)
            count = count_partitions(sized.shard_counts)
            if {shards for shards, _ in sized.shard_counts} == {count}:
                fit_checkpoint(plan.spark, checkpoint, stored_shards, count)
            with ending_run() if ends_run else nullcontext():
                sized = sized.rebuild(count) if ends_run else sized
                emitted = sized.output if emits_rejected else sized.lean_output
            _begin_moved(checkpoint, emitted, sized.specs, count)
            check_ticks(emitted, checkpoint, sized.specs)
            return launch(
                emitted,
                outputs,
                checkpoint,
                count,
                options.name,
                options.every,
                options.available_now,
                handle=None if is_connected(plan.spark) else handle,
                specs=sized.specs,
            )

    query = run(None)
    if not is_connected(plan.spark) and all(asked is None for _, asked in plan.shard_counts):
        query.restarts(run)
    if options.available_now and plan.needs_ticks and not is_connected(plan.spark):
        query.ends_run_by(partial(run, ends_run=True))
    return query


def _check_options(plan: Plan, options: StartOptions) -> str:
    """Refuse options that can't work on Spark, and return the checkpoint."""
    if not plan.reads_streams:
        hint = "write its .results and .rejected instead"
        raise OptionError("start", "a batch DataFrame", "doesn't stream", hint)
    if options.checkpoint is None:
        raise OptionError("checkpoint", None, "keeps state in memory", "give Spark a folder")
    if options.durable is not True:
        hint = "omit it: Spark commits each batch by itself"
        raise OptionError("durable", options.durable, "isn't for Spark", hint)
    return options.checkpoint


def _begin_moved(
    checkpoint: str, emitted: DataFrame, specs: Sequence[CheckedSpec], count: int
) -> None:
    """Write the state of a query that was moved here, if the checkpoint has its seed."""
    spark = emitted.sparkSession
    if not is_connected(spark):
        plant_seed(spark, checkpoint, emitted, specs, count)
    elif read_stored_shards(spark, checkpoint) is None and path_exists(
        spark, f"{checkpoint}/{FOLDER}"
    ):
        problem = "was moved to Spark, and Spark Connect can't write its state"
        hint = "start it once in a session with a JVM of its own"
        raise OptionError("checkpoint", checkpoint, problem, hint)


def _check_outputs(outputs: Sequence[Destination], checkpoint: str) -> None:
    """Refuse sinks that can't store the rows of a query."""
    check_separate_tables((output.target for output in outputs), checkpoint)
    for output in outputs:
        check_destination(output.target, output.schema, output.keys)


def launch(
    emitted: DataFrame,
    outputs: Sequence[Destination],
    checkpoint: str,
    shards: int,
    name: str | None,
    every: Duration | None,
    available_now: bool,
    handle: WindowedQuery | None,
    specs: Sequence[CheckedSpec] = (),
) -> WindowedQuery:
    """Start a query over the output of its shards, or resume the query of a handle.

    The specs in the checkpoint are compared with ``specs`` (of all operators, as Spark numbers
    them) before anything runs. ``every`` is the shortest time between batches.
    """
    if not emitted.isStreaming:
        hint = "write its DataFrames instead"
        raise OptionError("start", "a batch DataFrame", "doesn't stream", hint)
    remote = is_connected(emitted.sparkSession)
    if remote and handle is not None:
        problem = "needs each batch's own figures, of which Spark Connect shows the newest"
        raise OptionError("spark", "Spark Connect", problem, "use a session with a JVM of its own")
    handle = handle or WindowedQuery()
    handle.spark, handle.checkpoint = emitted.sparkSession, checkpoint
    handle.outputs, handle.shards = tuple(outputs), shards
    make_active(handle.spark)  # sinks use the active session
    _check_outputs(outputs, checkpoint)
    with handle.hold_lease():
        if remote:
            check_sendable(outputs)
        else:
            handle.resume(specs)
            prepare_sinks(output.target for output in outputs)
        modules = _modules(emitted, outputs, specs)
        folders, references = _folders(checkpoint, outputs), _references(emitted, outputs)
        handle.executors = Executors(handle.spark, folders, modules, references)
        handle.executors.check()
        reporter = RemoteReporter(session_of(handle.spark)) if remote else None
        write = Writer(outputs, checkpoint, reporter or handle, shards, remote)
        writer = emitted.writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", find_home(handle.spark, checkpoint))
        writer = _set_trigger(writer.outputMode("append"), every, available_now)
        writer = writer if name is None else writer.queryName(name)
        with use_partitions(emitted.sparkSession, shards):
            handle.begin(writer.start() if reporter is None else start_with_retries(writer.start))
    if reporter is not None:
        handle.follow(reporter)
    return handle


def _folders(checkpoint: str, outputs: Sequence[Destination]) -> list[str]:
    """Return the folders that executors write and others read."""
    return [checkpoint, *(folder for o in outputs for folder in folders_of(o.target))]


def _modules(
    emitted: DataFrame, outputs: Sequence[Destination], specs: Sequence[CheckedSpec]
) -> list[str]:
    """Return the modules that tasks import for the sources, aggregates and sinks of a query."""
    modules = []
    if reads(emitted, KAFKA):
        modules += ["confluent_kafka", "cramjam", "google_crc32c"]
    elif any(isinstance(one.target, KafkaSink) for one in outputs):
        modules.append("confluent_kafka")
    windows = (spec for spec in specs if isinstance(spec, WindowSpec))
    kinds = {one.kind for spec in windows for one in spec.aggregates.values()}
    return [*modules, *(module for kind, module in _AGGREGATE_MODULES.items() if kind in kinds)]


def _references(emitted: DataFrame, outputs: Sequence[Destination]) -> frozenset[str]:
    """Return the references to secrets that tasks look up."""
    sinks = (one.target for one in outputs)
    written = (one.references for one in sinks if isinstance(one, KafkaSink))
    return list_source_references(emitted).union(*written)


def _set_trigger(
    writer: DataStreamWriter, every: Duration | None, available_now: bool
) -> DataStreamWriter:
    if available_now:
        return writer.trigger(availableNow=True)
    if every is not None:
        return writer.trigger(
            processingTime=f"{parse_duration('every', every) // 1000} milliseconds"
        )
    return writer
