"""Provides Spark's Kafka connector, which isn't part of Spark or of any Python package."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from muntin.model.errors import SettingError
from muntin.spark.host.internals import archive
from muntin.spark.host.internals.jvm import has_class, is_connected

FOLDER_SETTING = "spark.muntin.kafka.jars"
FOLDER_VARIABLE = "MUNTIN_KAFKA_JARS"
_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_SCALA = "2.13"
_NAME = f"spark-sql-kafka-0-10_{_SCALA}"
# The artifacts that the connector needs and Spark doesn't contain.
_NEEDED = (_NAME, f"spark-token-provider-kafka-0-10_{_SCALA}", "kafka-clients", "commons-pool2")
_AVRO = f"spark-avro_{_SCALA}"
_PATIENCE = 600
_LOG = logging.getLogger(__name__)

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>muntin</groupId><artifactId>connector</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies>{}</dependencies>
</project>"""
_DEPENDENCY = (
    "<dependency><groupId>org.apache.spark</groupId><artifactId>{}</artifactId>"
    "<version>{}</version></dependency>"
)


def connect(spark: SparkSession) -> str:
    """Load the Kafka connector into a session, and return a description of its origin.

    It is searched on the class path (``spark.jars.packages``, ``spark.jars``), then in a folder of
    jars (the setting ``spark.muntin.kafka.jars`` or the environment's ``MUNTIN_KAFKA_JARS``), and
    then downloaded by Maven. Jars of a folder are sent to the executors, too.
    """
    if is_connected(spark):
        # Over Spark Connect the server's class path can't be read.
        return "the server of Spark Connect"
    if not has_class(spark, _PROVIDER):
        folder = _folder(spark)
        jars = sorted(folder.glob("*.jar")) if folder is not None else None
        if jars is None:
            folder, jars = _fetch_from_maven(spark.version)
        elif not any(jar.name.startswith(_NAME) for jar in jars):
            raise SettingError(f"{folder} has no {_NAME}-*.jar. {_hint(spark.version)}")
        for jar in jars:
            spark.sql("ADD JAR '{}'".format(str(jar.resolve()).replace("'", "\\'")))
        if not has_class(spark, _PROVIDER):
            raise SettingError(f"the jars of {folder} can't be used. {_hint(spark.version)}")
        return _log_origin(f"the folder {folder}")
    packages = spark.conf.get("spark.jars.packages", "") or ""
    return _log_origin("spark.jars.packages" if _NAME in packages else "the class path")


def _log_origin(where: str) -> str:
    _LOG.info("Spark's Kafka connector comes from %s", where)
    return where


def _folder(spark: SparkSession) -> Path | None:
    for source, named in (
        (FOLDER_SETTING, spark.conf.get(FOLDER_SETTING, "")),
        (FOLDER_VARIABLE, os.environ.get(FOLDER_VARIABLE)),
    ):
        if named:
            folder = Path(named).expanduser()
            if not folder.is_dir():
                raise SettingError(f"{source}={named!r}: isn't a folder. Give one with jars")
            return folder
    return None


def _fetch_from_maven(version: str) -> tuple[Path, list[Path]]:
    """Return the connector from Maven's repositories, and cache it for the next time."""
    folder = archive.archive_folder() / f"kafka-connector-{version}"
    if not folder.is_dir():
        mvn = shutil.which("mvn")
        if mvn is None:
            raise SettingError(f"Spark's Kafka connector is missing. {_hint(version)}")
        fetch(mvn, {_NAME: version, _AVRO: version}, (*_NEEDED, _AVRO), folder)
    return folder, sorted(folder.glob("*.jar"))


def fetch(mvn: str, wanted: dict[str, str], needed: tuple[str, ...], folder: Path) -> None:
    """Have Maven copy artifacts of Spark, and some of their dependencies, to a folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        pom, jars = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(_POM.format("".join(_DEPENDENCY.format(*one) for one in wanted.items())))
        command = [mvn, "--quiet", "--batch-mode", "--strict-checksums", "--file", str(pom)]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        command += [f"-DincludeArtifactIds={','.join(needed)}"]
        _LOG.info("asking Maven for %s", ", ".join(wanted))
        hint = _hint(next(iter(wanted.values())))
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise SettingError(f"Maven took over {_PATIENCE} s. {hint}") from error
        if result.returncode or not jars.is_dir():
            message = next((x for x in result.stdout.splitlines() if "ERROR" in x), "no jars came")
            raise SettingError(f"Maven can't fetch it: {message[:300]}. {hint}")
        jars.rename(folder)


def _hint(version: str) -> str:
    return (
        f'Start the session with spark__jars__packages="org.apache.spark:{_NAME}:{version}", or '
        f"put {', '.join(_NEEDED)} (and {_AVRO} for Avro) into a folder and name it in "
        f"{FOLDER_VARIABLE} or {FOLDER_SETTING}, or install Maven"
    )
