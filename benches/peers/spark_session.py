"""The Spark session of Spark native, the pandas processor and muntin."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
STORE = "spark.sql.streaming.stateStore."

SETTINGS = {
    "spark.driver.memory": "6g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    # Both cores read a small file: its row groups are two tasks.
    "spark.sql.files.openCostInBytes": "65536",
    # On a local disk, the default starts some fifty processes a batch.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    # On two cores it is cheaper than Java's default collector, for Spark native too.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    # Saves each task that runs Python 40 ms of TCP's delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    STORE + "rocksdb.changelogCheckpointing.enabled": "true",
    STORE + "rocksdb.trackTotalNumberOfRows": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(state: str = "rocksdb", more: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark on two cores.

    Args:
        state: ``rocksdb``, or ``heap`` for the store in the memory of the executor.
        more: Settings that only one peer has.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    store = "HDFSBackedStateStoreProvider" if state == "heap" else "RocksDBStateStoreProvider"
    builder = SparkSession.builder.master("local[2]").appName("benches")
    builder = builder.config(STORE + "providerClass", PROVIDERS + store)
    for name, value in {**SETTINGS, **(more or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
