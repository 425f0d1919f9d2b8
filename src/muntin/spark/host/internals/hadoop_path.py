"""A file or a folder wherever Hadoop finds one: a local disk, a cluster's, an object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from muntin.spark.host.internals.jvm import classes_of, hadoop_settings


class HadoopPath:
    """A path, and what may be done with what is there.

    Args:
        spark: A session with a JVM of its own.
        path: As Hadoop reads it; without a scheme it is of Hadoop's own default.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._jvm = classes_of(spark)
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._path.getFileSystem(hadoop_settings(spark))

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(self._spark, f"{self}/{name}")

    def __str__(self) -> str:
        return str(self._path.toString())

    @property
    def name(self) -> str:
        """Its last part."""
        return str(self._path.getName())

    def exists(self) -> bool:
        """Whether anything is there."""
        return bool(self._files.exists(self._path))

    def is_folder(self) -> bool:
        """Whether a folder is there."""
        return bool(self._files.isDirectory(self._path))

    def children(self) -> Iterator[HadoopPath]:
        """What lies in a folder; nothing where there is none."""
        if self.exists():
            for one in self._files.listStatus(self._path):
                yield self / str(one.getPath().getName())

    def read(self) -> str:
        """The text of a file."""
        stream = self._files.open(self._path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    @property
    def local(self) -> Path | None:
        """The same path of this machine; ``None`` where it lies elsewhere."""
        whole = self._files.makeQualified(self._path).toUri()
        return Path(str(whole.getPath())) if str(whole.getScheme()) == "file" else None

    def write(self, text: str, *, replaces: bool = True) -> None:
        """Write a file.

        Args:
            text: What is in it.
            replaces: Whether one that is there is replaced; it raises otherwise.
        """
        stream = self._files.create(self._path, replaces)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def delete(self) -> None:
        """Delete a file, or a folder and all that is in it, where there is one."""
        self._files.delete(self._path, True)

    def rename(self, to: HadoopPath) -> None:
        """Give it another name in the same store, if it hasn't it already."""
        if str(self) != str(to) and not self._files.rename(self._path, to._path):
            raise OSError(f"{self} couldn't be renamed to {to}")

    def copy(self, to: HadoopPath) -> None:
        """Copy a file, or a folder and all that is in it."""
        settings = hadoop_settings(self._spark)
        self._jvm.org.apache.hadoop.fs.FileUtil.copy(
            self._files, self._path, to._files, to._path, False, settings
        )
