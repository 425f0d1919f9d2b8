from __future__ import annotations

from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame

from muntin.model.errors import OptionError
from muntin.model.pipeline import Column, TableRelation, WindowLookup
from muntin.spark.lookups import TableBeside, in_full

LOOKUP = WindowLookup(
    TableRelation("names"), "n", "left", (("`k`", "name"),), ("k",), "__muntin_table0"
)


def make_table(*names: str) -> TableBeside:
    return TableBeside(LOOKUP, Mock(spec=DataFrame, columns=list(names), sparkSession=object()))


def test_all_columns_but_those_that_are_shown_once() -> None:
    columns = list(in_full([Column("k", "`k`"), LOOKUP.all], [make_table("K", "name", "short")]))
    assert [column.name for column in columns] == ["k", "name", "short"]
    assert columns[1].text == "__muntin_table0.`name`"


def test_columns_that_are_there_twice() -> None:
    with pytest.raises(OptionError, match="has columns that the windows have as well: Total"):
        list(in_full([Column("total", "`total`"), LOOKUP.all], [make_table("name", "Total")]))


def test_over_spark_connect_a_table_is_in_another_session() -> None:
    with pytest.raises(OptionError, match="another session than the batches of Spark Connect"):
        make_table("name").check()
