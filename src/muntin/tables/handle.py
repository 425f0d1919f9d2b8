"""The handle by which agents and apps reach the entries of a table, wherever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from muntin.model.attribute_hints import NextWords
from muntin.model.errors import OptionError
from muntin.tables.copartition import belongs_to
from muntin.tables.current import EventCursor, find_cursor, require_cursor
from muntin.tables.shard import TableShard
from muntin.tables.spec import TableSpec

if TYPE_CHECKING:
    from muntin.tables.app import App
    from muntin.tables.partition import Partition

_S = TypeVar("_S", bound=TableShard)


class Handle(NextWords, Generic[_S]):
    """A table of an app in the hands of a user, which locates its entries.

    Attributes:
        kind: The class of the table's shards.
    """

    _kind_of_words = "table"
    kind: Any

    def __init__(self, app: App, name: str) -> None:
        self.app = app
        self.name = name
        self._everywhere = self.spec.everywhere

    @property
    def spec(self) -> TableSpec:
        """The definition of the table."""
        return self.app.tables[self.name]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec}>"

    def get_shards(self) -> list[_S]:
        """Return the shard of the current partition; all shards from outside or if global.

        Raises:
            OutsideStreamError: When there is neither an agent nor an open app.
        """
        cursor = find_cursor()
        if cursor is not None and not self._everywhere:
            return [self._get_shard_of(cursor.part)]
        return [self._get_shard_of(part) for part in self.app.require_running(self.name).parts]

    def get_shard(self, key: Any) -> _S:
        """Return the shard where a key is read: the current one, or wherever the key is."""
        cursor = find_cursor()
        if cursor is not None:
            own_shard = self._get_shard_of(cursor.part)
            if not self._everywhere or (cursor.key is not None and belongs_to(key, cursor.key)):
                return own_shard
        owner = self._get_shard_of(
            self.app.require_running(self.name).find_partition(self.name, key)
        )
        return owner if cursor is None or owner.has_key(key) else own_shard

    def require_own_shard(self) -> tuple[EventCursor, _S]:
        """Return the agent's cursor and the shard of its partition, the only one that it may write.

        Raises:
            OutsideStreamError: Outside of an agent.
        """
        cursor = require_cursor(f"table {self.name!r} is written")
        return cursor, self._get_shard_of(cursor.part)

    def _get_shard_of(self, part: Partition | None) -> _S:
        assert part is not None
        shard = part.shards[self.name]
        if not isinstance(shard, self.kind):
            problem = "has windows" if self.spec.windows is not None else "has no windows"
            hint = "use what .tumbling(), .hopping() or .session() returned"
            raise OptionError("table", self.name, problem, hint)
        return shard
