"""Spark's process that plans the batches of a Python data source, on the driver's machine."""

from __future__ import annotations

import sys
from types import TracebackType

_RUNNER = "python_streaming_source_runner"


def silence_lost_jvm() -> None:
    """Keep the process of a data source from printing that the JVM has closed its connection.

    The JVM does so whenever a query stops. Exceptions of a source are sent to the JVM, and are not
    among those that end the process. In another process nothing changes.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name.endswith(_RUNNER):
        sys.excepthook = _show_exception


def _show_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if not isinstance(error, ConnectionError | EOFError):
        sys.__excepthook__(kind, error, trace)
