"""What the rest of the package calls; the extra ``sql`` is asked for here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from muntin.model.aggregates import Aggregate
from muntin.model.errors import MissingExtraError
from muntin.model.pipeline import Pipeline

if TYPE_CHECKING:
    from muntin.sql.script import Question, Session


def need() -> None:
    """Refuse to go on without sqlglot."""
    if find_spec("sqlglot") is None:
        raise MissingExtraError("SQL for windows", "sql")


def pipeline(text: str, given: Mapping[str, str] | None = None) -> Pipeline:
    """A pipeline out of SQL statements.

    Args:
        text: ``CREATE TABLE``, ``CREATE VIEW``, ``SET`` and ``INSERT INTO`` statements.
        given: What ``${name}`` is replaced by.

    Raises:
        SqlError: When it can't be run, at the place.
        MissingExtraError: When sqlglot isn't installed.

    Example:
        >>> made = pipeline('''
        ...     CREATE TABLE clicks (page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - 30 SECONDS)
        ...     WITH (connector = 'json', path = 'clicks/');
        ...     CREATE TABLE views WITH (connector = 'parquet', path = 'views/');
        ...     INSERT INTO views SELECT page, count(*) AS n
        ...     FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10 MINUTES))
        ...     GROUP BY page, window_start, window_end
        ... ''')
        >>> str(made.flows[0].query.spec.windows)
        'tumbling 10 minutes'
    """
    need()
    from muntin.sql import script

    return script.pipeline(text, given)


def question(
    text: str, given: Mapping[str, str] | None = None, session: Session | None = None
) -> Question:
    """The one query of a text, with what is defined before it.

    Raises:
        SqlError: When there is none, or it can't be run, at the place.
        MissingExtraError: When sqlglot isn't installed.
    """
    need()
    from muntin.sql import script

    return script.question(text, given, session)


def session() -> Session:
    """Nothing defined yet, for statements that come one by one."""
    need()
    from muntin.sql import script

    return script.session()


def step(text: str, session: Session) -> Question | None:
    """One statement of several that come one by one; see ``muntin.sql.script.step``."""
    need()
    from muntin.sql import script

    return script.step(text, session)


def split(text: str) -> list[str]:
    """The statements of a text.

    Example:
        >>> split("SET a = ';'; SELECT 1")
        ["SET a = ';';", ' SELECT 1']
    """
    need()
    from muntin.sql import script

    return script.split(text)


def aggregate(text: str) -> Aggregate:
    """An aggregate that is written as SQL.

    Raises:
        SqlError: When it isn't one.
        MissingExtraError: When sqlglot isn't installed.

    Example:
        >>> str(aggregate("quantile(delay, 0.95)"))
        'quantile(delay, q=0.95, k=200)'
    """
    need()
    from muntin.sql.aggregates import alone

    return alone(text)
