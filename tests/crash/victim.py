"""An app that is killed: counts views from a file into RocksDB until there are no more.

Usage: victim.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import muntin as mt
from muntin.stores import rocks
from muntin.tables import App, Running

BATCH = 20


def views_app() -> tuple[App, Any, Any]:
    """The app, its windowed table, and what its windows closed with."""
    app = App("victim", max_ahead=None, lateness="5 seconds")
    closed = app.Table("closed", default=list)

    def close(key: Any, value: Any) -> None:
        page, window = key
        # In a table, so that it is committed with the closing.
        closed[page] += [[window.start, value]]

    views = app.Table("views", default=int, on_window_close=close).hopping(30, 10, expires=60)

    @app.agent(app.topic("views"))
    async def count(events: Any) -> None:
        async for event in events:
            views[event["page"]] += event["times"]

    return app, views, closed


def opened(folder: Path) -> tuple[Running, Any, Any]:
    app, views, closed = views_app()
    return app.open(store=rocks(folder / "state"), partitions=2), views, closed


def main(folder: Path) -> None:
    running, _, _ = opened(folder)
    source = mt.source(folder / "views.jsonl", key="page", time="at")
    begun = folder / "begun"
    with running:
        begun.write_text(str(int(begun.read_text()) + 1 if begun.exists() else 1))
        running.feed({"views": source}, batch=BATCH)
        (folder / "done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
