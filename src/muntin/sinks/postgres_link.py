"""A connection to PostgreSQL that outlives the server's restarts, and never shows its password."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from muntin.model.errors import MissingExtraError, OptionError, SinkError
from muntin.sinks.postgres_rows import OF_ROWS
from muntin.sinks.unwritable import RowsRefusedError

if TYPE_CHECKING:
    from psycopg import Connection, Error

T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# How long a server that is there may refuse us.
_REFUSED = 2.0
# Those that may go away: lost connections, deadlocks, a full disk or memory, locks, a server that
# is stopped or starting, its machine, another server behind it.
_OF_SERVER = ("08", "40", "53", "55", "57", "58", "HV")


class Link:
    """A connection that is made when it is needed, and again when it was lost."""

    def __init__(self, dsn: str, patience: float, password: str | None = None) -> None:
        try:
            from psycopg import ProgrammingError
            from psycopg.conninfo import conninfo_to_dict, make_conninfo
        except ImportError as error:
            raise MissingExtraError("to_postgres()", "postgres") from error
        try:
            known = conninfo_to_dict(dsn)
        except ProgrammingError:
            hint = "write it as 'postgresql://user@host:5432/database' or 'host=… dbname=…'"
            raise OptionError("dsn", "(hidden)", "isn't an address", hint) from None
        self.place = "{}:{}/{}".format(
            known.get("host") or "localhost", known.get("port") or 5432, known.get("dbname") or ""
        )
        self.patience = patience
        more = {} if password is None else {"password": password}
        waits = known.get("connect_timeout") or 10
        self._dsn = make_conninfo(dsn, connect_timeout=waits, **more)
        self._connection: Connection[Any] | None = None

    def __repr__(self) -> str:
        return f"Link({self.place!r})"

    def __getstate__(self) -> dict[str, Any]:
        # Over Spark Connect it goes to the server, which makes a connection of its own.
        return {**vars(self), "_connection": None}

    def run(self, work: Callable[[Connection[Any]], T]) -> T:
        """Do something in one transaction; all of it again when the server went away.

        What is given must change nothing when it is done twice: where the connection is lost in
        the commit, nobody can know whether that was done.
        """
        from psycopg import InterfaceError, OperationalError

        deadline, pause = time.monotonic() + self.patience, _FIRST_PAUSE
        refused = False
        while True:
            try:
                connection = self._open()
                with connection.transaction():
                    return work(connection)
            except (OperationalError, InterfaceError) as error:
                if self._connection is not None and not _passes(error):
                    self.close()
                    raise SinkError(self._explained(error, True)) from None
                if self._connection is None and self._answers() and not refused:
                    # It may have come up just now; if it hasn't, waiting won't change its mind.
                    refused, deadline = True, min(deadline, time.monotonic() + _REFUSED)
                self.close()
                if time.monotonic() + pause > deadline:
                    raise SinkError(self._explained(error, refused)) from None
            except BaseException:
                self.close()
                raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> Connection[Any]:
        import psycopg

        if self._connection is None or self._connection.closed:
            self._connection = None
            # Without prepared statements a pooler may stand in between.
            self._connection = psycopg.connect(
                self._dsn, autocommit=True, prepare_threshold=None, application_name="muntin"
            )
        return self._connection

    def _answers(self) -> bool:
        """Whether a server is there that takes connections, though not ours."""
        from psycopg import pq

        return pq.PGconn.ping(self._dsn.encode()) == pq.Ping.OK

    def _explained(self, error: Exception, refused: bool) -> str:
        message = " ".join(str(error).split())
        if refused:
            return f"PostgreSQL at {self.place} refuses us: {message}; fix the dsn or the rights"
        waited = f"for {self.patience:g} seconds"
        hint = "bring the server back and start the query again: it goes on where it was"
        return f"PostgreSQL at {self.place} couldn't be written to {waited}: {message}; {hint}"


def _passes(error: Error) -> bool:
    """Whether it may be otherwise when it is tried again; without a code the connection is lost."""
    return error.sqlstate is None or error.sqlstate.startswith(_OF_SERVER)


@contextmanager
def refusals() -> Iterator[None]:
    """While rows are written: what is refused for what is in them is a ``RowsRefusedError``."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        known = error.sqlstate
        # Without a code, values were refused before they were sent.
        if known.startswith(OF_ROWS) if known else isinstance(error, psycopg.DataError):
            raise RowsRefusedError(error.diag.message_primary or str(error)) from error
        raise
    except (UnicodeError, OverflowError, ValueError) as error:
        raise RowsRefusedError(str(error)) from error
