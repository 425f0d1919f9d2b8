"""A connection to PostgreSQL that survives the server's restarts, and hides its password."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from muntin.model.errors import MissingExtraError, OptionError, SinkError
from muntin.model.patience import AwayError, Patience
from muntin.model.references import resolve, resolve_address, resolve_all
from muntin.model.secrets import HIDDEN, REFERENCE
from muntin.sinks.postgres_rows import ROW_ERRORS
from muntin.sinks.unwritable import RowsRefusedError

if TYPE_CHECKING:
    from psycopg import Connection, Error

_T = TypeVar("_T")
_FIRST_PAUSE = 0.1
# How long a statement waits for a lock before that is logged, and it is tried again.
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '5s'"
# How long to retry while a reachable server refuses the connection.
_REFUSED_SECONDS = 2.0
# Classes of errors that may be temporary: lost connections, deadlocks, a full disk or memory,
# locks, a server that is stopping or starting, its machine, another server behind it.
_TEMPORARY_ERRORS = ("08", "40", "53", "55", "57", "58", "HV")


_UNKNOWN_PARAMETER = re.compile(r'(?:query parameter: |connection option )"(\w+)"')
# The values of parameters for security, which libpq only checks when it connects.
_CHOICES = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer", "require"),
}
_PLAIN_MODES = ("disable", "allow", "prefer")
_CERTIFICATES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir")
# The names of parameters in a query of an address, and in keywords with values.
_QUERY_PAIR = re.compile(r"(?:^|&)(\w+)=")
_PAIR = re.compile(r"(\w+)\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)")


class PostgresLink:
    """A connection that is opened on demand, and reopened after it was lost."""

    def __init__(self, dsn: str, patience: float, password: str | None = None) -> None:
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("to_postgres()", "postgres") from error
        self._dsn, self._password = dsn, password
        parameters = self._find_parameters()
        self.location = "{}:{}/{}".format(
            # An `@` in a password that isn't escaped leaves the rest of it before the host.
            (parameters.get("host") or "localhost").rpartition("@")[2],
            parameters.get("port") or 5432,
            parameters.get("dbname") or "",
        )
        self.patience = patience
        self._connection: Connection[Any] | None = None

    def __repr__(self) -> str:
        return f"Link({self.location!r})"

    def __getstate__(self) -> dict[str, Any]:
        # Over Spark Connect the sink is sent to the server, which opens its own connection.
        return {**vars(self), "_connection": None}

    def run(self, work: Callable[[Connection[Any]], _T]) -> _T:
        """Run work in one transaction, and repeat it as a whole if the server went away.

        The work must be idempotent: if the connection is lost during the commit, it is unknown
        whether it was committed.

        Raises:
            SinkError: When the server refuses the connection, or isn't back in time.
        """
        waiting = Patience(f"PostgreSQL at {self.location}", self.patience, _FIRST_PAUSE)
        try:
            return waiting.run(lambda: self._attempt(work, waiting))
        except AwayError as error:
            raise SinkError(self._explain(str(error), False)) from None

    def _attempt(self, work: Callable[[Connection[Any]], _T], waiting: Patience) -> _T:
        """Run work once.

        Raises:
            AwayError: When it failed in a way that a retry may mend.
            SinkError: When the server refuses the connection or the work.
        """
        from psycopg import InterfaceError, OperationalError, errors

        try:
            connection = self._open()
            with connection.transaction():
                # A table that another transaction has locked would be waited for without a word.
                connection.execute(_LOCK_TIMEOUT)
                return work(connection)
        except errors.ReadOnlySqlTransaction as error:
            # After a failover another server may be there.
            self.close()
            raise AwayError(_to_line(error), "takes no writes") from None
        except errors.LockNotAvailable as error:
            raise AwayError(_to_line(error), "has the table locked by another session") from None
        except errors.InvalidSchemaName as error:
            self.close()
            problem = f"PostgreSQL at {self.location} lacks a schema: {_to_line(error)}"
            raise SinkError(f"{problem}; create it, or give another one") from None
        except errors.InsufficientPrivilege as error:
            self.close()
            raise SinkError(self._explain(_to_line(error), True)) from None
        except (OperationalError, InterfaceError) as error:
            connected, problem = self._connection is not None, _to_line(error)
            self.close()
            if connected and not _is_temporary(error):
                raise SinkError(self._explain(problem, True)) from None
            if not connected and self._is_refused():
                # The server may just have started; if not, waiting longer won't help.
                seconds = min(_REFUSED_SECONDS, self.patience)
                if waiting.downtime() >= seconds:
                    raise SinkError(self._explain(problem, True)) from None
                raise AwayError(problem, "refuses us", seconds) from None
            raise AwayError(problem) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _find_parameters(self) -> dict[str, Any]:
        """Return the parameters of connections, with the secrets that references name."""
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        # Between keywords and values, a value with spaces would end too early.
        is_address = "://" in self._dsn or REFERENCE.fullmatch(self._dsn) is not None
        try:
            dsn = resolve_address("dsn", self._dsn) if is_address else self._dsn
            pairs = conninfo_to_dict(dsn).items()
        except ProgrammingError as error:
            if name := _UNKNOWN_PARAMETER.search(str(error)):
                hint = "write it as libpq does, such as sslmode"
                raise OptionError("dsn", name[1], "isn't a parameter", hint) from None
            hint = "write it as 'postgresql://user@host:5432/database' or 'host=… dbname=…'"
            raise OptionError("dsn", HIDDEN, "isn't an address", hint) from None
        parameters = {name: str(value) for name, value in pairs}
        if not is_address:
            parameters = resolve_all(parameters)
        if self._password is not None:
            parameters["password"] = resolve("password", self._password)
        _check_security(dsn, parameters)
        return {"connect_timeout": 10, **parameters}

    def _open(self) -> Connection[Any]:
        import psycopg

        if self._connection is None or self._connection.closed:
            self._connection = None
            # Without prepared statements the connection may go through a pooler.
            parameters = {**self._find_parameters(), "application_name": "muntin"}
            self._connection = psycopg.connect(
                autocommit=True, prepare_threshold=None, **parameters
            )
        return self._connection

    def _is_refused(self) -> bool:
        """Return whether a server accepts connections but not ours, or libpq refuses to connect."""
        from psycopg import pq
        from psycopg.conninfo import make_conninfo

        answer = pq.PGconn.ping(make_conninfo(**self._find_parameters()).encode())
        return answer in (pq.Ping.OK, pq.Ping.NO_ATTEMPT)

    def _explain(self, message: str, refused: bool) -> str:
        if refused:
            return f"PostgreSQL at {self.location} refuses us: {message}; fix the dsn or the rights"
        waited = f"for {self.patience:g} seconds"
        hint = "bring the server back and start the query again: it goes on where it was"
        return f"PostgreSQL at {self.location} couldn't be written to {waited}: {message}; {hint}"


def _check_security(dsn: str, parameters: Mapping[str, str]) -> None:
    """Refuse parameters of which libpq would ignore one, and perhaps connect in plain text.

    Raises:
        OptionError: For a mistyped choice, a repeated name, and certificates without encryption.
    """
    for option, values in _CHOICES.items():
        if parameters.get(option, values[0]) not in values:
            hint = f"give one of {', '.join(values)}"
            raise OptionError(option, parameters[option], "isn't a choice", hint)
    pairs = _QUERY_PAIR.findall(dsn.partition("?")[2]) if "://" in dsn else _PAIR.findall(dsn)
    name, times = Counter(pairs).most_common(1)[0] if pairs else ("", 0)
    if times > 1:
        hint = "leave one out: libpq takes the last one"
        raise OptionError("dsn", name, f"is given {times} times", hint)
    mode = parameters.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer"
    if mode in _PLAIN_MODES and not {"service", "PGSERVICE"} & {*parameters, *os.environ}:
        for name in _CERTIFICATES:
            # With `system` libpq encrypts and verifies by itself.
            if parameters.get(name, "system") != "system":
                problem = f"has no effect with sslmode={mode}, which may connect in plain text"
                raise OptionError(name, parameters[name], problem, "add sslmode=verify-full")


def _to_line(error: Error) -> str:
    """Return the message of an error, without the statement that PostgreSQL shows below it."""
    return " ".join((error.diag.message_primary or str(error)).split())


def _is_temporary(error: Error) -> bool:
    """Return whether a retry may succeed; an error without a code means a lost connection."""
    return error.sqlstate is None or error.sqlstate.startswith(_TEMPORARY_ERRORS)


@contextmanager
def translate_refusals() -> Iterator[None]:
    """Convert errors about the contents of rows to ``RowsRefusedError``."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        code = error.sqlstate
        # Without a code, psycopg refused values before sending them.
        if code.startswith(ROW_ERRORS) if code else isinstance(error, psycopg.DataError):
            raise RowsRefusedError(error.diag.message_primary or str(error)) from error
        raise
    except (UnicodeError, OverflowError, ValueError) as error:
        raise RowsRefusedError(str(error)) from error
