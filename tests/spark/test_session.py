"""Tests of the settings of ``muntin.session``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import muntin as mt
from muntin.spark.session import CHECKPOINT_FORMAT, PROVIDER


# Spark adds options of its own to those of the JVM.
@pytest.mark.parametrize(
    "name", sorted({*mt.settings("local[2]")} - {"spark.driver.extraJavaOptions"})
)
def test_settings(name: str, spark: SparkSession) -> None:
    assert spark.conf.get(name) == mt.settings("local[2]")[name]


def test_a_jvm_of_users_keeps_its_compiler_and_its_room_for_code() -> None:
    """With the quick compiler alone, Java has 48 MB for code, which queries fill in a minute."""
    options = mt.settings("local[2]")["spark.driver.extraJavaOptions"]
    assert "TieredStopAtLevel" not in options
    assert "CodeCache" not in options


@pytest.mark.slow
def test_a_builder_takes_settings_and_keeps_its_time_zone() -> None:
    zone = "spark.sql.session.timeZone"
    script = (
        "import muntin as mt; from pyspark.sql import SparkSession; "
        "builder = SparkSession.builder.master('local[2]').config(map=mt.settings('local[2]')); "
        f"spark = builder.config('{zone}', 'Asia/Tokyo').getOrCreate(); "
        "frame = spark.range(3).selectExpr('id AS k', 'timestamp_seconds(id) AS at'); "
        "counts = mt.windowed(frame, key='k', time='at').tumbling('1 minute').agg(n=mt.count()); "
        f"print(counts.results.count(), spark.conf.get('{zone}'))"
    )
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert process.stdout.split() == ["3", "Asia/Tokyo"], process.stderr


def test_a_session_that_runs_is_configured(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set(CHECKPOINT_FORMAT, "1")
    spark.conf.set(PROVIDER, "another")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert mt.configure(spark) is spark
        wanted = mt.settings()
        assert [spark.conf.get(n) for n in (CHECKPOINT_FORMAT, PROVIDER)] == [
            wanted[CHECKPOINT_FORMAT],
            wanted[PROVIDER],
        ]
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


def test_a_shuffle_partition_a_core(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_workers_are_this_python_with_one_polars_thread(spark: SparkSession) -> None:
    def worker(_: int) -> tuple[str, str | None]:
        return sys.executable, os.environ.get("POLARS_MAX_THREADS")

    assert spark.sparkContext.parallelize([0], 1).map(worker).collect() == [(sys.executable, "1")]


def test_a_session_that_runs_is_given_back_with_more_settings(spark: SparkSession) -> None:
    name = "spark.sql.streaming.numRecentProgressUpdates"
    before = spark.conf.get(name)
    try:
        again = mt.session("another name", master="local[2]", **{name.replace(".", "__"): "7"})
        assert again is spark
        assert spark.conf.get(name) == "7"
        assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    finally:
        spark.conf.set(name, before)


def test_without_java_it_is_said_who_helps(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import muntin as mt; mt.session()"]
    env = {**os.environ, "JAVA_HOME": str(tmp_path)}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    # Spark's launcher writes beside Python, so that either may have the last line.
    error = "muntin.model.errors.SettingError: Spark's JVM can't be started"
    (line,) = [line for line in run.stderr.splitlines() if line.startswith(error)]
    assert "`muntin doctor`" in line


@pytest.mark.slow
def test_a_local_session_listens_on_the_loopback_alone() -> None:
    """So does Spark's page, and other users of the machine can't open the workers' sockets."""
    folder = Path(__file__).with_name("listeners.py")
    run = subprocess.run(
        [sys.executable, str(folder)], capture_output=True, text=True, check=True, timeout=240
    )
    sockets, addresses = run.stdout.splitlines()[-2:]
    assert set(addresses.split()) == {"127.0.0.1"}
    assert set(sockets.split()) == {"0o700"}


_SECRETS = """
import pathlib, sys, muntin as mt
name = "spark.hadoop.fs.azure.account.key.lake"
settings = {
    name.replace(".", "__"): "${env:ACCOUNT}",
    "spark__hadoop__fs__s3a__secret__key": "${file:%s/s3}" % sys.argv[1],
    "spark__eventLog__enabled": "true",
    "spark__eventLog__compress": "false",
    "spark__eventLog__dir": sys.argv[1] + "/events",
}
spark = mt.session(master="local[1]", **settings)
arguments = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")]
hadoop = spark.sparkContext._jsc.hadoopConfiguration()
print(hadoop.get("fs.azure.account.key.lake"), hadoop.get("fs.s3a.secret.key"))
print(*(any(word in text for text in arguments) for word in (b"SparkSubmit", b"sesame")))
spark.range(3).collect()
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="lists the arguments of processes in /proc")
def test_secrets_of_a_session_are_in_no_arguments_and_no_event_log(tmp_path: Path) -> None:
    (tmp_path / "s3").write_text("sesame-s3\n")
    events = tmp_path / "events"
    events.mkdir()
    script = tmp_path / "script.py"
    script.write_text(_SECRETS)
    command = [sys.executable, str(script), str(tmp_path)]
    environment = {**os.environ, "ACCOUNT": "sesame-account"}
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert process.stdout.split() == ["sesame-account", "sesame-s3", "True", "False"], (
        process.stderr
    )
    logs = [path.read_bytes() for path in events.rglob("*") if path.is_file()]
    assert any(b"SparkListenerEnvironmentUpdate" in log for log in logs)
    assert not any(b"sesame" in log for log in logs)
