"""An app that is killed: counts views from a file into RocksDB until the end of the file.

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


def make_app() -> tuple[App, Any, Any]:
    """Return the app, its windowed table, and the table of closed windows."""
    app = App("victim", max_ahead=None, lateness="5 seconds")
    closed = app.Table("closed", default=list)

    def close(key: Any, value: Any) -> None:
        page, window = key
        # A table is committed together with the closing of the window.
        closed[page] += [[window.start, value]]

    views = app.Table("views", default=int, on_window_close=close).hopping(30, 10, expires=60)

    @app.agent(app.topic("views"))
    async def count(events: Any) -> None:
        async for event in events:
            views[event["page"]] += event["times"]

    return app, views, closed


def open_app(folder: Path) -> tuple[Running, Any, Any]:
    app, views, closed = make_app()
    return app.open(store=rocks(folder / "state"), partitions=2), views, closed


def main(folder: Path) -> None:
    running, _, _ = open_app(folder)
    source = mt.source(folder / "views.jsonl", key="page", time="at")
    start_file = folder / "begun"
    with running:
        start_file.write_text(str(int(start_file.read_text()) + 1 if start_file.exists() else 1))
        running.feed({"views": source}, batch=BATCH)
        (folder / "done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
