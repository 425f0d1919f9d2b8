"""The peers to measure, with their programs, environments and state backends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """One engine in one configuration.

    Attributes:
        name: Name in tables and on the command line.
        family: Family by which workloads select peers; engines of one family share sizes.
        module: Program to run, ``python -m benches.peers.MODULE``.
        venv: Name of the requirements file and of the virtual environment.
        state: State backend and checkpointing, for the table.
        arguments: Further arguments of the program.
        java: Whether it needs a Java runtime.
    """

    name: str
    family: str
    module: str
    venv: str
    state: str
    arguments: tuple[str, ...] = ()
    java: bool = False

    @property
    def own(self) -> bool:
        """True for muntin."""
        return self.name.startswith("muntin")


ROCKS = "RocksDB, changelog checkpoint every batch"
HEAP = "in memory, checkpoint to files every batch"


def _flink(name: str, state: str, *arguments: str) -> Peer:
    """Return a configuration of Flink SQL."""
    return Peer(name, "flink", "flink_sql", "flink", state, arguments, java=True)


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("muntin", "muntin", "muntin_spark", "muntin", ROCKS, java=True),
        Peer("spark", "spark", "spark_native", "spark", ROCKS, java=True),
        Peer("spark-heap", "spark", "spark_native", "spark", HEAP, ("--state", "heap"), True),
        Peer("spark-pandas", "pandas-state", "spark_pandas_state", "spark", ROCKS, java=True),
        _flink("flink-heap", "heap, checkpoint every 2 s"),
        _flink("flink-heap-mini", "heap, mini-batch, checkpoint every 2 s", "--mini-batch"),
        _flink("flink-rocksdb", "RocksDB, checkpoint every 2 s", "--state", "rocksdb"),
        _flink(
            "flink-rocksdb-mini",
            "RocksDB, mini-batch, checkpoint every 2 s",
            "--state",
            "rocksdb",
            "--mini-batch",
        ),
        Peer("bytewax", "bytewax", "bytewax_flow", "bytewax", "memory, no checkpoint"),
        Peer("pathway", "pathway", "pathway_table", "pathway", "memory, no checkpoint"),
        Peer("muntin-tables", "tables", "muntin_tables", "muntin-tables", ROCKS, java=True),
        Peer(
            "faust-tables",
            "faust-tables",
            "faust_tables",
            "faust",
            "memory, changelog to a stand-in in the process",
        ),
        Peer(
            "muntin-batches",
            "standalone",
            "muntin_standalone",
            "muntin",
            "memory, a flush every batch, one core",
            ("--state", "batches"),
        ),
        Peer(
            "muntin-single",
            "standalone",
            "muntin_standalone",
            "muntin",
            "memory, a flush every 100 000 messages, one core",
            ("--state", "single"),
        ),
        Peer(
            "faust",
            "faust",
            "faust_update",
            "faust",
            "memory, changelog to a stand-in, one core",
        ),
        Peer("duckdb", "ceiling", "duckdb_batch", "duckdb", "none: one batch"),
        Peer("polars", "ceiling", "polars_batch", "polars", "none: one batch"),
    )
}

ORACLE = PEERS["duckdb"]

WRITER = PEERS["muntin"]
"""The peer in whose environment the events of Nexmark are written."""
