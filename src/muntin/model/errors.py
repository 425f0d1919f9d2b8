"""The exceptions that muntin raises on purpose; their messages have a hint for a fix."""

from __future__ import annotations

import os
from collections.abc import Sequence

from muntin.model.printable import escape_controls
from muntin.model.secrets import redact


class MuntinError(Exception):
    """The root of all errors raised by muntin.

    Their messages quote what others wrote, so secrets are masked in them, and control characters
    escaped.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(_clean(one) if isinstance(one, str) else one for one in args))


def _clean(text: str) -> str:
    return escape_controls(redact(text))


class OptionError(MuntinError, ValueError):
    """An option has a value that can't work; raised before anything runs.

    Args:
        option: The option as the user writes it, for example ``slide``.
        value: The refused value.
        problem: The reason why it can't work.
        hint: A value or an option that works.

    Example:
        >>> print(OptionError("slide", "2 h", "is greater than the size", "use 1 hour or less"))
        slide='2 h' is greater than the size; use 1 hour or less
    """

    def __init__(self, option: str, value: object, problem: str, hint: str) -> None:
        self.option = option
        self.value = value
        self.problem = problem
        self.hint = hint
        super().__init__(f"{option}={_format_value(value)} {problem}; {hint}")


def _format_value(value: object) -> str:
    """Format a value on one line; a frame or an array by its type."""
    text = repr(value)
    if "\n" not in text:
        return text
    kind = type(value)
    return f"<{kind.__module__.partition('.')[0]}.{kind.__qualname__}>"


class SqlError(MuntinError, ValueError):
    r"""A statement can't work; the message marks the place with a caret and has a hint.

    Args:
        text: The whole text.
        span: Position of the problem: its first character, and the one after its last.
        problem: The reason why it can't work.
        hint: A statement that works.

    Example:
        >>> print(SqlError("SELECT x\nFORM t", (9, 13), "FORM isn't known here", "write FROM"))
        line 2: FORM isn't known here; write FROM
          FORM t
          ^^^^
    """

    def __init__(self, text: str, span: tuple[int, int], problem: str, hint: str) -> None:
        self.text = text
        self.span = span
        self.problem = problem
        self.hint = hint
        super().__init__(f"{problem}; {hint}")

    def __str__(self) -> str:
        # A span after the last character marks the end of the text, which has no line of its own.
        start = min(max(self.span[0], 0), len(self.text.rstrip()))
        before = self.text[:start]
        line = before.count("\n") + 1
        column = start - (before.rfind("\n") + 1)
        line_text = redact(self.text).split("\n")[line - 1]
        width = max(1, min(self.span[1] - start, len(line_text) - column))
        # Tabs are kept, so that the caret is below the problem.
        indent = "".join("\t" if c == "\t" else " " for c in line_text[:column])
        heading = f"line {line}: {self.problem}; {self.hint}"
        quoted = _replace_unprintable(line_text).rstrip()
        return f"{_replace_unprintable(heading)}\n  {quoted}\n  {indent}{'^' * width}"


class ProblemsError(MuntinError):
    """Several mistakes of one file, each on lines of its own.

    Attributes:
        problems: The mistakes, in the order of the file.
    """

    def __init__(self, problems: Sequence[MuntinError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))

    @classmethod
    def raise_if_any(cls, problems: Sequence[MuntinError]) -> None:
        """Raise the mistakes of a list: a single one as it is, several as one error."""
        flat = [
            problem for p in problems for problem in (p.problems if isinstance(p, cls) else (p,))
        ]
        if len(flat) == 1:
            raise flat[0]
        if flat:
            raise cls(flat)


def _replace_unprintable(text: str) -> str:
    """Replace unprintable characters, so that the caret below the line stays aligned."""
    return "".join(c if c.isprintable() or c == "\t" else "·" for c in text)


class SettingError(MuntinError):
    """A setting of the Spark session is missing or wrong; the message names it and its value."""


class SpecChangedError(MuntinError):
    """A checkpoint was written by another spec; the message lists the differences."""


class StateCorruptedError(MuntinError):
    """A stored blob can't be read, since it isn't as it was written."""


class LeaseLostError(MuntinError):
    """A running query's checkpoint was deleted, or taken over by another query."""


class WaitingWindowsError(MuntinError):
    """More windows wait to emit than ``early(over=…, stop=True)`` allows; nothing is stored."""


class RefusedError(MuntinError):
    """A consumer can't accept an output now; the output is kept, and sent again later."""


class SinkError(MuntinError):
    """A sink can't write a batch; the message names the place and a fix, and no password."""


class BatchError(MuntinError):
    """The user's code in a query raised an error: a sink, a function, an aggregate or an agent.

    The exception is its ``__cause__``. If another process raised it, the cause is one of the same
    class, if this process has that class, with the traceback as a note.

    Args:
        message: The exception's class and message.
        batch: The number of the batch.
        part: The part of the query that ran.
        line: The line that raised it.

    Example:
        >>> print(BatchError("KeyError: 'x'", 3, "the sink of results", "app.py:7, in write"))
        KeyError: 'x' (batch 3, the sink of results, app.py:7, in write)
    """

    def __init__(self, message: str, batch: int, part: str, line: str) -> None:
        self.batch = batch
        self.part = part
        self.line = line
        super().__init__(f"{message} (batch {batch}, {part}, {line})")


class SourceError(MuntinError):
    """A source can't deliver the messages of a batch; the message says which, and what to do."""


class SelectorDisabledError(RefusedError):
    """An operator accepts no messages while its outputs wait to be sent; the message has a fix.

    Source: the Samza SQL window operator design (the message selector is disabled).
    """


class PartitionError(MuntinError):
    """A table is written under a key that its stream isn't partitioned by."""


class OutsideStreamError(MuntinError, RuntimeError):
    """A value needs the current event of an agent, and there is none."""


class MissingExtraError(MuntinError, ImportError):
    """An optional part of muntin isn't installed; the message has the command to install it."""

    def __init__(self, feature: str, extra: str, instead: str = "") -> None:
        way = f", or {instead}" if instead else ""
        super().__init__(f"{feature} needs an extra: pip install 'muntin[{extra}]'{way}")


def describe_os_error(error: OSError) -> str:
    """Return the reason of an error of the operating system, without its path."""
    return os.strerror(error.errno) if error.errno else str(error)
