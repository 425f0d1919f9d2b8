"""All tasks, and their texts when this module is run: ``python -m tests.docs.tasks.listing``."""

from __future__ import annotations

from tests.docs.tasks import (
    aggregates,
    first_hour,
    joins,
    newcomers,
    operation,
    sources,
    sql,
    windows,
)

TASKS = [
    *windows.TASKS,
    *aggregates.TASKS,
    *joins.TASKS,
    *sources.TASKS,
    *sql.TASKS,
    *operation.TASKS,
    *newcomers.TASKS,
    *first_hour.TASKS,
]

if __name__ == "__main__":
    for task in TASKS:
        print(f"## {task.name}\n\n{task.text}\n")
