"""Files and folders in Hadoop's file systems: a local disk, a cluster, an object store."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from pathlib import Path

from pyspark.sql import SparkSession

from muntin.model.errors import SettingError
from muntin.spark.host.internals.jvm import (
    JvmError,
    classes_of,
    find_java_message,
    hadoop_settings,
)


class HadoopPath:
    """A path in one of Hadoop's file systems, with the operations on its file or folder.

    Args:
        spark: A session with a JVM of its own.
        path: The path in Hadoop's notation; without a scheme it is in Hadoop's default file system.

    Raises:
        SettingError: When Spark lacks the client of the file system.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._jvm = classes_of(spark)
        self._path_class = self._jvm.org.apache.hadoop.fs.Path
        self._path = self._path_class(path)
        try:
            self._files = self._path.getFileSystem(hadoop_settings(spark))
        except JvmError as error:
            problem = find_java_message(error)
            hint = "Give Spark its client and its settings, as with --conf spark.jars.packages=…"
            raise SettingError(f"{path!r} can't be opened: {problem}. {hint}") from error

    def __truediv__(self, name: str) -> HadoopPath:
        # To look up the class and the file system again would take the JVM a dozen calls.
        below = copy(self)
        below._path = self._path_class(f"{self}/{name}")
        return below

    def __str__(self) -> str:
        return str(self._path.toString())

    @property
    def name(self) -> str:
        """The last part of the path."""
        return str(self._path.getName())

    def exists(self) -> bool:
        """Return whether a file or a folder exists at the path."""
        return bool(self._files.exists(self._path))

    def is_folder(self) -> bool:
        """Return whether a folder exists at the path."""
        return bool(self._files.isDirectory(self._path))

    def children(self) -> Iterator[HadoopPath]:
        """Yield the files and folders in a folder; none where it doesn't exist."""
        if self.exists():
            for one in self._files.listStatus(self._path):
                yield self / str(one.getPath().getName())

    def read(self) -> str:
        """Return the text of a file."""
        stream = self._files.open(self._path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    @property
    def local(self) -> Path | None:
        """The path as a local one; ``None`` where it isn't on this machine."""
        whole = self._files.makeQualified(self._path).toUri()
        return Path(str(whole.getPath())) if str(whole.getScheme()) == "file" else None

    def write(self, text: str, *, replaces: bool = True) -> None:
        """Write a file; without ``replaces``, Hadoop raises if it exists."""
        stream = self._files.create(self._path, replaces)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def make_folder(self) -> None:
        """Make a folder, and those above it, where they don't exist."""
        self._files.mkdirs(self._path)

    def delete(self) -> None:
        """Delete a file, or a folder and all that is in it; do nothing if neither exists."""
        self._files.delete(self._path, True)

    def rename(self, to: HadoopPath) -> None:
        """Rename a file or folder in the same file system; do nothing if it has the name."""
        if str(self) != str(to) and not self._files.rename(self._path, to._path):
            raise OSError(f"{self} couldn't be renamed to {to}")

    def copy(self, to: HadoopPath) -> None:
        """Copy a file, or a folder and all that is in it."""
        settings = hadoop_settings(self._spark)
        self._jvm.org.apache.hadoop.fs.FileUtil.copy(
            self._files, self._path, to._files, to._path, False, settings
        )


def url_of(spark: SparkSession, path: str) -> str:
    """Return the path of a file of this machine as the URL by which Spark knows it."""
    return str(classes_of(spark).org.apache.hadoop.fs.Path(f"file://{path}").toUri().toString())


def path_of(spark: SparkSession, url: str) -> str | None:
    """Return the path on this machine of a URL of Spark's; ``None`` if the file isn't local."""
    uri = classes_of(spark).java.net.URI(url)
    return str(uri.getPath()) if uri.getScheme() in ("file", None) else None
