"""A driver of ``muntin run`` on a cluster of the tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.services.cluster import Cluster
from tests.services.machine import QUICK, archive_options
from tests.spark.drivers import start

CLI = "from muntin.cli.app import main; main()"
_SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "600m",
    "spark.sql.shuffle.partitions": "2",
    # Spark asks an executor that is gone three times for its part of a shuffle.
    "spark.shuffle.io.retryWait": "500ms",
    "spark.executor.extraJavaOptions": f"{QUICK} {archive_options()}",
}


def run(
    cluster: Cluster,
    pipeline: str,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    host: str = "127.0.0.1",
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a pipeline of this folder, whose files, tables and log are in another.

    Args:
        cluster: The cluster that runs it.
        pipeline: The name of its file.
        folder: The folder of its files, tables and log.
        settings: Additional settings of Spark.
        host: The address of the driver.
        variables: Additional variables of the pipeline.
    """
    all_settings = {**_SETTINGS, "spark.driver.host": host, **(settings or {})}
    conf = [part for name, value in all_settings.items() for part in ("--conf", f"{name}={value}")]
    path = Path(__file__).with_name(pipeline)
    values = {"folder": str(folder), **(variables or {})}
    sets = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    command = ["run", str(path), *sets, "--master", cluster.master, *conf]
    return start([sys.executable, "-c", CLI, *command], folder / "log", {"SPARK_LOCAL_IP": host})
