"""The cell magic ``%%muntin``: a statement of SQL over the variables of a notebook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, cell_magic, magics_class

from muntin.dataframe.host import choose_host
from muntin.dataframe.sql import bind_compiled
from muntin.model.errors import MuntinError, OptionError
from muntin.model.pipeline import find_tables

if TYPE_CHECKING:
    from muntin.sql.script import CompiledQuery


@magics_class
class MuntinMagics(Magics):
    """The magics of a notebook."""

    @cell_magic
    def muntin(self, line: str, cell: str) -> Any:
        """Run a statement over the frames, sources and queries of this notebook.

        Its tables are variables, by their names. With ``%%muntin NAME`` the query is also assigned
        to that variable. ``EXPLAIN SELECT`` prints what the query would do.

        Returns:
            The results of finite inputs; the query over a stream, to be started.

        Raises:
            SqlError: When the statement can't run.
        """
        try:
            return self._run_statement(line.strip(), cell)
        except MuntinError as error:
            # It says where in the cell it is, so our own lines of code would only hide it.
            message = f"{type(error).__name__}: {error}"
            error._render_traceback_ = lambda: [message]  # type: ignore[attr-defined]
            raise

    def _run_statement(self, name: str, cell: str) -> Any:
        from muntin.sql import api

        if name and not name.isidentifier():
            raise OptionError("%%muntin", name, "isn't a name", "write the statement below it")
        assert self.shell is not None
        variables: dict[str, Any] = self.shell.user_ns
        question = api.compile_query(cell)
        read = find_tables(question.lowered.query) - question.tables.keys()
        every = {key: value for key, value in variables.items()
                 if not key.startswith("_") and _is_table(value)}  # fmt: skip
        tables = {key: value for key, value in every.items() if key.lower() in read}
        # Of variables that differ in case alone, the statement means the one that it spells.
        spelled = {key.lower(): key for key in tables if re.search(rf"\b{key}\b", cell)}
        tables = {key: value for key, value in tables.items()
                  if spelled.get(key.lower(), key) == key}  # fmt: skip
        session: Any = variables.get("spark")
        hosts = {choose_host(key, value, None) for key, value in tables.items()}
        is_complete = len(tables) == len(read)
        is_on_spark = session is not None and (not is_complete or "spark" in hosts)
        if not is_complete and not is_on_spark:
            _refuse_missing_table(question, read - {key.lower() for key in tables}, [*every])
        query: Any = bind_compiled(question, session if is_on_spark else None, tables)
        if name:
            variables[name] = query
        if question.explain is not None:
            print(query.explain())
            return None
        return query if query.plan.reads_streams else query.results


def _refuse_missing_table(
    question: CompiledQuery, missing: frozenset[str], names: list[str]
) -> None:
    """Refuse a table that is no variable of the notebook, with the names of those that are."""
    hint = f"the tables of this notebook are {', '.join(names)}"
    hint = hint if names else "assign a frame or a source to a variable of that name"
    error = OptionError("FROM", min(missing), "isn't a table", hint)
    raise question.locate_error(error) from None


def _is_table(value: object) -> bool:
    try:
        choose_host("table", value, None)
    except OptionError:
        return False
    return True
