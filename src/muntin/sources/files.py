"""A source of files: those that exist, and new ones as they arrive."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from muntin.engine.session_zone import SessionZone, find_session_zone
from muntin.model.attribute_hints import WithoutRows
from muntin.model.errors import OptionError, SourceError
from muntin.model.option_names import suggest_options
from muntin.model.option_types import (
    check_boolean,
    check_count,
    check_local,
    parse_bytes,
    parse_path,
)
from muntin.model.printable import escape_line
from muntin.sources.ddl import plain_columns
from muntin.sources.file_formats import FileFormat, format_of
from muntin.sources.frames import FrameSource
from muntin.sources.listing import ListedFile, list_files
from muntin.sources.source import (
    MALFORMED_COLUMN,
    MALFORMED_COLUMNS,
    Planned,
    Source,
    SourceOffsets,
    SourceReader,
)

BadFiles = Literal["fail", "skip"]
FormatName = Literal["parquet", "csv", "jsonl"]

_LOG = logging.getLogger(__name__)
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_FORMS = {".parquet": "parquet", ".csv": "csv", **dict.fromkeys(_JSON_LINES, "jsonl")}
# The number of files remembered by name; an older file counts as read.
MOST_REMEMBERED = 10_000
# The approximate bytes of a batch by default.
_BATCH_BYTES = 256 << 20
# The assumed bytes of a message, if only the number of messages is bounded.
_MESSAGE_BYTES = 100
_PAUSE = 0.1
# Seconds to wait for files that are being written, where all are read at once.
_PATIENCE = 10.0


@dataclass(frozen=True)
class FileSource(WithoutRows, Source):
    """The files of a folder or a pattern; see ``files``."""

    _kind_of_words = "source"

    pattern: str
    format: FileFormat
    files_per_batch: int | None = None
    bad_files: BadFiles = "fail"
    bytes_per_batch: int | None = None

    def __repr__(self) -> str:
        return f"files({self.pattern!r})"

    @property
    def malformed_column(self) -> str | None:
        """The column with the bytes of unreadable records; ``None`` for Parquet."""
        return None if self.format.form == "parquet" else MALFORMED_COLUMN

    @cached_property
    def schema(self) -> pl.Schema:
        """The columns that were declared, or those of the first file.

        Raises:
            OptionError: When none are declared and there is no file yet, or it can't be read.
        """
        columns = self.format.columns
        if columns is None:
            listing = sorted(list_files(self.pattern))
            if not listing:
                hint = "give the columns: columns='id long, at timestamp'"
                raise OptionError("path", self.pattern, "matches no file to infer from", hint)
            columns = self.format.infer(Path(listing[0].path))
        own = {} if self.malformed_column is None else MALFORMED_COLUMNS
        for name in own:
            if name in columns:
                hint = "give the column another name"
                raise OptionError("columns", name, "is reserved for unreadable records", hint)
        return pl.Schema({**columns, **own})

    def open(self) -> FileReader:
        """Return a reader, which lists the files."""
        return FileReader(self)

    def read_whole(self) -> FrameSource:
        """Return a finite source with the rows of all files that exist.

        Raises:
            SourceError: When a file can't be read, or isn't complete after some seconds.
        """
        reader, offset = self.open(), None
        frames: list[pl.DataFrame] = []
        deadline = time.monotonic() + _PATIENCE
        while True:
            planned = reader.plan(offset, None)
            if planned.has_new:
                frames += reader.read(offset, planned.end)
                offset = planned.end
            elif planned.caught_up:
                rows = pl.concat([pl.DataFrame(schema=self.schema), *frames], how="diagonal")
                return FrameSource(rows, malformed_column=self.malformed_column)
            elif time.monotonic() > deadline:
                raise SourceError(
                    f"{self.pattern} has a file that isn't complete. Read it as a stream"
                )
            else:
                reader.wait(offset, _PAUSE)


class FileReader(SourceReader):
    """Plans and reads batches of files; see ``SourceReader``."""

    def __init__(self, source: FileSource) -> None:
        self._source = source
        # The process may change its folder later.
        self._pattern = os.path.abspath(source.pattern)
        self._seen: _Seen | None = None
        self._took = 0.0
        self._warned: set[str] = set()

    def _list(self) -> list[ListedFile]:
        """List the files; warn of none that match, and once of each folder that can't be listed."""
        errors: list[OSError] = []
        listing = sorted(list_files(self._pattern, errors.append))
        if self._seen is None:
            errors = [one for one in errors if not isinstance(one, FileNotFoundError)]
            if not listing and not errors:
                _LOG.warning("%s matches no file yet", escape_line(self._source.pattern))
        for error in errors:
            if (folder := str(error.filename)) not in self._warned:
                self._warned.add(folder)
                _LOG.warning(
                    "%s can't be listed: %s. Restore it, or correct the rights: its files aren't "
                    "read until then", escape_line(folder), error.strerror,
                )  # fmt: skip
        return listing

    def plan(self, start: SourceOffsets | None, limit: int | None) -> Planned:
        """Plan the new files, oldest first."""
        began = time.monotonic()
        listing = self._list()
        self._took = time.monotonic() - began
        if self._seen is None or self._seen.offsets != start:
            self._seen = _Seen.read(start)
        seen = self._seen
        new = seen.select_new(listing)
        form = self._source.format
        whole = [one for one in new if form.is_whole(one.path, one.size, one.time)]
        chosen = self._choose(whole, limit)
        self._warn_of_incomplete(new, whole)
        if not chosen:
            return Planned(seen.offsets or _Seen().to_offsets([]), False, not new)
        end = seen.add(chosen)
        return Planned(end, has_new=True, caught_up=len(chosen) == len(new))

    def _warn_of_incomplete(self, new: list[ListedFile], whole: list[ListedFile]) -> None:
        """Warn once of each file that nobody completes, since it is never read."""
        if len(new) == len(whole):
            return
        complete = {one.path for one in whole} | self._warned
        now, patience = time.time_ns(), round(_PATIENCE * 1e9)
        for one in new:
            if one.path in complete or abs(now - one.time) < patience:
                continue
            self._warned.add(one.path)
            if one.time > now and self._source.format.form != "parquet":
                _LOG.warning(
                    "%s is from the future: it was written %d s ahead of this machine's clock, and "
                    "is read when the clock gets there. Correct the clock, or touch the file",
                    escape_line(one.path), (one.time - now) // 1_000_000_000,
                )  # fmt: skip
            else:
                _LOG.warning(
                    "%s isn't complete: it has no footer of %s. It is read when it has; until then "
                    "the query waits for it. Write it again, or remove it",
                    escape_line(one.path), self._source.format.form.capitalize(),
                )  # fmt: skip

    def _choose(self, files: list[ListedFile], limit: int | None) -> list[ListedFile]:
        """Return the files of a batch: as many as fit, and at least one."""
        most = self._source.bytes_per_batch
        if most is None:
            most = _BATCH_BYTES if limit is None else limit * _MESSAGE_BYTES
        count, total = 0, 0
        for one in files[: self._source.files_per_batch]:
            total += one.size
            if count and total > most:
                break
            count += 1
        return files[:count]

    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Read the files of a batch, which ``end`` lists.

        Raises:
            SourceError: When a file was changed, removed or can't be read.
        """
        if start == end:
            return
        for path, size in end["batch"]:
            try:
                if os.path.getsize(path) != size:
                    raise SourceError(
                        f"{path} was changed after it was listed. Write a new file, or write "
                        "under a hidden name and rename the file when it is complete"
                    )
                yield from self._source.format.read(Path(path), size, self._source.schema)
            except (OSError, SourceError, pl.exceptions.PolarsError) as error:
                if self._source.bad_files == "fail":
                    raise _failure(path, error) from error
                _LOG.warning("%s is skipped: %s", escape_line(path), escape_line(error))

    def wait(self, start: SourceOffsets | None, timeout: float) -> bool:
        """Pause before the next listing; longer if listings take long."""
        time.sleep(min(timeout, max(_PAUSE, 5 * self._took)))
        return True


def _failure(path: str, error: Exception) -> SourceError:
    if isinstance(error, SourceError):
        return error
    problem = "doesn't exist any more" if isinstance(error, FileNotFoundError) else str(error)
    return SourceError(
        f"{path} can't be read: {problem}. Repair it, or skip such files with bad_files='skip'"
    )


@dataclass
class _Seen:
    """The files that were read so far.

    Attributes:
        oldest: Time and path up to which every file counts as read.
        recent: Newer files that were read, with their times and sizes.
        offsets: Offset that a host stores for it.
    """

    oldest: tuple[int, str] = (0, "")
    recent: dict[str, list[int]] = field(default_factory=dict)
    offsets: SourceOffsets | None = None
    _listed: set[str] | None = None

    @classmethod
    def read(cls, offsets: SourceOffsets | None) -> _Seen:
        """Return the files that were read up to an offset."""
        if offsets is None:
            return cls()
        time_of_oldest, path = offsets["oldest"]
        # Earlier versions stored names as the pattern gave them, and the folder may be relative.
        recent = {os.path.abspath(name): [*entry] for name, entry in offsets["recent"].items()}
        return cls((int(time_of_oldest), os.path.abspath(path) if path else ""), recent, offsets)

    def select_new(self, listing: list[ListedFile]) -> list[ListedFile]:
        """Return the unread files of a listing, oldest first."""
        new = []
        for one in listing:
            read = self.recent.get(one.path)
            if read is not None:
                if read[1] != one.size:
                    _LOG.warning(
                        "%s has changed since it was read. It isn't read again",
                        escape_line(one.path),
                    )
                    read[1] = one.size
                continue
            if (one.time, one.path) > self.oldest:
                new.append(one)
            elif self._listed is not None and one.path not in self._listed:
                # The file is new, since the last listing didn't have it, whatever its time.
                _LOG.warning(
                    "%s is new, with an old modification time. It is read now",
                    escape_line(one.path),
                )
                new.append(one)
        if self.oldest[0]:
            unread = {one.path for one in new}
            self._listed = {one.path for one in listing} - unread
        return new

    def add(self, files: list[ListedFile]) -> dict[str, Any]:
        """Count files as read; return the offset after them."""
        self.recent |= {one.path: [one.time, one.size] for one in files}
        beyond = len(self.recent) - MOST_REMEMBERED
        if beyond > 0:
            by_age = sorted(self.recent.items(), key=lambda one: (one[1][0], one[0]))
            path, (written, _) = by_age[beyond - 1]
            self.oldest = max(self.oldest, (written, path))
            self.recent = dict(by_age[beyond:])
        if self._listed is not None:
            self._listed |= {one.path for one in files}
        self.offsets = self.to_offsets(files)
        return dict(self.offsets)

    def to_offsets(self, files: list[ListedFile]) -> dict[str, Any]:
        """Return the offset of the files read so far, with those of one batch."""
        batch = [[one.path, one.size] for one in files]
        recent = {name: [*entry] for name, entry in self.recent.items()}
        return {"oldest": [*self.oldest], "recent": recent, "batch": batch}


@suggest_options()
def files(
    path: str | PathLike[str],
    *,
    columns: str | Mapping[str, pl.DataType | str] | None = None,
    format: FormatName | None = None,
    header: bool | None = None,
    zone: str = "UTC",
    files_per_batch: int | None = None,
    bad_files: BadFiles = "fail",
    bytes_per_batch: str | int | None = None,
) -> FileSource:
    """Describe files that a query in this process reads: those that exist, and new ones.

    Each file is read once, in the order of modification times, and of paths if these are equal. A
    file is read when it is complete: Parquet when it has its footer, text when nothing was written
    to it for a second. To have a file read at once, write it under a name that begins with a dot,
    then rename it. Files that were read may be deleted.

    The checkpoint keeps the names of the 10,000 newest files that were read. If a file arrives
    later with an older modification time than all of these, a running query reads it, but a query
    that resumes skips it.

    CSV and JSON lines follow the rules of Kafka's payloads: a record that can't be read is rejected
    as ``malformed``, with its bytes in the column ``malformed`` and what is wrong with it in
    ``malformed_detail``, and the others are kept.

    Args:
        path: Folder, with all folders below it, or a pattern: ``logs/*.csv``, ``in/**/*.parquet``.
        columns: Names and types of the columns, as text (``"id long, at timestamp"``) or as a
            mapping, whose types are text or types of Polars. Default: those of the first file.
        format: ``parquet``, ``csv`` or ``jsonl``. Default: by the ending of the path; files that
            end in ``.json`` have a value in each line, as in Spark.
        header: Whether the first line of each file of CSV names its columns. Default: where no
            ``columns`` are given.
        zone: The time zone of times without one in text.
        files_per_batch: The most files of a batch. Default: as many as ``bytes_per_batch`` allows.
        bad_files: What a file does that can't be read: ``fail`` ends the query with an error that
            names it, ``skip`` passes it over with a warning.
        bytes_per_batch: The most bytes of a batch's files, ``"64 MB"`` or a number; a batch has a
            file at least. Default: about 100 MB.

    Returns:
        The source, for ``windowed``.

    Raises:
        OptionError: When the options don't fit together.

    Example:
        >>> files("clicks/*.jsonl", columns="page string, at timestamp")
        files('clicks/*.jsonl')
    """
    pattern = parse_path("path", path)
    check_local("path", pattern)
    form = format or _FORMS.get(Path(pattern).suffix)
    if form is None:
        hint = f"give one of {', '.join(get_args(FormatName))}: format='csv'"
        raise OptionError("format", format, f"can't be inferred from {pattern!r}", hint)
    if form not in get_args(FormatName):
        raise OptionError(
            "format", form, "isn't a format", f"give one of {', '.join(get_args(FormatName))}"
        )
    check_count("files_per_batch", files_per_batch)
    if header is not None:
        check_boolean("header", header)
    if bad_files not in get_args(BadFiles):
        raise OptionError("bad_files", bad_files, "isn't a choice", "give 'fail' or 'skip'")
    text_zone: SessionZone | None = find_session_zone(zone)
    if text_zone is None:
        raise OptionError("zone", zone, "isn't a time zone", "give one such as 'Europe/Berlin'")
    schema = None if columns is None else plain_columns(columns)
    text_format = format_of(form, schema, header, text_zone)
    most_bytes = parse_bytes("bytes_per_batch", bytes_per_batch)
    return FileSource(pattern, text_format, files_per_batch, bad_files, most_bytes)
