"""The cell magic ``%%muntin``: a statement of SQL over the variables of a notebook."""

from __future__ import annotations

import re
from typing import Any

from IPython.core.magic import Magics, cell_magic, magics_class

from muntin.dataframe.host import choose_host
from muntin.dataframe.sql import sql
from muntin.model.errors import OptionError
from muntin.model.pipeline import find_tables


@magics_class
class MuntinMagics(Magics):
    """The magics of a notebook."""

    @cell_magic
    def muntin(self, line: str, cell: str) -> Any:
        """Run a statement over the frames, sources and queries of this notebook.

        Its tables are variables, by their names. With ``%%muntin NAME`` the query is also assigned
        to that variable.

        Returns:
            The results of finite inputs; the query over a stream, to be started.

        Raises:
            SqlError: When the statement can't run.
        """
        from muntin.sql import api

        name = line.strip()
        if name and not name.isidentifier():
            raise OptionError("%%muntin", name, "isn't a name", "write the statement below it")
        assert self.shell is not None
        variables: dict[str, Any] = self.shell.user_ns
        question = api.compile_query(cell)
        read = find_tables(question.lowered.query) - question.tables.keys()
        tables = {key: value for key, value in variables.items()
                  if key.lower() in read and _is_table(value)}  # fmt: skip
        # Of variables that differ in case alone, the statement means the one that it spells.
        spelled = {key.lower(): key for key in tables if re.search(rf"\b{key}\b", cell)}
        tables = {key: value for key, value in tables.items()
                  if spelled.get(key.lower(), key) == key}  # fmt: skip
        session: Any = variables.get("spark")
        hosts = {choose_host(key, value, None) for key, value in tables.items()}
        is_on_spark = session is not None and (len(tables) < len(read) or "spark" in hosts)
        query = sql(session, cell, **tables) if is_on_spark else sql(cell, **tables)
        if name:
            variables[name] = query
        return query if query.plan.reads_streams else query.results


def _is_table(value: object) -> bool:
    try:
        choose_host("table", value, None)
    except OptionError:
        return False
    return True
