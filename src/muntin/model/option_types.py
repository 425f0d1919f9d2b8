"""Checks of options of plain types: booleans, whole numbers and texts."""

from __future__ import annotations

import re
from decimal import Decimal
from os import PathLike, fspath
from os.path import expanduser

from muntin.model.errors import OptionError

# The greatest count that every host and file format can hold.
MOST_COUNTED = (1 << 63) - 1
MOST_SHARDS = 10_000

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)
_POWERS = {unit: 1024**power for power, unit in enumerate(("", "k", "m", "g", "t"))}


def check_boolean(option: str, value: object) -> None:
    """Refuse a value that isn't a boolean: a text such as ``"no"`` would count as true."""
    if not isinstance(value, bool):
        raise OptionError(option, value, "isn't True or False", "give one of them")


def check_count(option: str, value: object, *, of: str = "", most: int = MOST_COUNTED) -> None:
    """Refuse a value that is neither ``None`` nor a whole number from 1 to ``most``."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(option, value, "isn't a whole number", "give 1 or more")
    if value < 1:
        raise OptionError(option, value, f"is less than one {of}".rstrip(), "give 1 or more")
    if value > most:
        raise OptionError(option, value, "is too great", f"give {most:,} or less")


def check_shards(shards: object) -> None:
    """Refuse what is no number of shards, or more than a query can have."""
    check_count("shards", shards, most=MOST_SHARDS)


def parse_bytes(option: str, value: object) -> int | None:
    """Return a number of bytes, written as a number or with a unit; units are powers of 1024.

    Example: ``parse_bytes("bytes_per_batch", "64 MB")`` is 67108864.
    """
    if value is None:
        return None
    hint = "give one as '64 MB'"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise OptionError(option, value, "isn't a number of bytes", hint)
    parts = _SIZE.fullmatch(str(value))
    if parts is None:
        raise OptionError(option, value, "isn't a number of bytes", hint)
    size = int(Decimal(parts[1]) * _POWERS[parts[2].lower()])
    if size < 1:
        raise OptionError(option, value, "is less than one byte", hint)
    if size > MOST_COUNTED:
        raise OptionError(option, value, "is too great", hint)
    return size


def parse_folder(option: str, value: object) -> str:
    """Return the path of a folder as text; an empty one would be the current folder.

    A path that begins with ``~`` is that of the user's home.
    """
    hint = "give a folder, as in 'checkpoints/views'"
    path = value.__fspath__() if isinstance(value, PathLike) else value
    if not isinstance(path, str):
        raise OptionError(option, value, "isn't a path", hint)
    if not path.strip():
        raise OptionError(option, path, "is empty", hint)
    return expanduser(path)


def parse_path(option: str, value: object) -> str:
    """Return the path of a folder, a file or a pattern as text, with the user's home for ``~``."""
    if not isinstance(value, str | PathLike):
        raise OptionError(option, value, "isn't a path", "give a text, or a path of pathlib")
    return expanduser(fspath(value))


def check_local(option: str, path: str | PathLike[str]) -> None:
    """Refuse the address of an object store, which would be read as a folder of that name."""
    if "://" in fspath(path):
        hint = "give a folder of this machine, or run the query on Spark"
        raise OptionError(option, path, "is no local folder", hint)


def check_text(option: str, value: object) -> None:
    """Refuse a value that isn't a text with at least one character that can be seen."""
    if not isinstance(value, str):
        raise OptionError(option, value, "isn't a text", "give one")
    if not value.strip():
        raise OptionError(option, value, "is empty", "give a text")


def check_seconds(option: str, value: object) -> None:
    """Refuse a value that is neither ``None`` nor a number of seconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and (not is_number or value != value):
        hint = "give one such as 12, or nothing to wait without a limit"
        raise OptionError(option, value, "isn't a number of seconds", hint)


def check_name(option: str, value: object) -> None:
    """Refuse a value that isn't the name of a column."""
    if value is not None and not isinstance(value, str):
        hint = "give its name; select an expression under a name first"
        raise OptionError(option, value, "isn't the name of a column", hint)
