"""The command: ``python -m tests.search --minutes 30 --seed 7 --doors engine,standalone``."""

from __future__ import annotations

import argparse
import random
import sys

from tests.doors import EngineDoor, StandaloneDoor
from tests.join_doors import EngineJoinDoor, StandaloneJoinDoor
from tests.search.finding import Subject
from tests.search.rounds import Search
from tests.search.subjects import Joins, Twice, Windows

DOORS = ("engine", "standalone", "duckdb", "spark")
ENGINES = [
    EngineDoor(),
    EngineDoor(3),
    EngineDoor(4, restart=True),
    EngineDoor(2, repeat=True),
]
OPERATORS = [
    StandaloneDoor(),
    StandaloneDoor(restart=True),
    StandaloneDoor("rocks", restart=True),
    StandaloneDoor(single=True),
    StandaloneDoor(tables=True),
]
JOIN_ENGINES = [
    EngineJoinDoor(),
    EngineJoinDoor(shards=3),
    EngineJoinDoor(shards=2, restart=True),
    EngineJoinDoor(repeat=True),
]
JOIN_OPERATORS = [
    StandaloneJoinDoor(),
    StandaloneJoinDoor(restart=True),
    StandaloneJoinDoor("rocks", restart=True),
    StandaloneJoinDoor(single=True),
]


def subjects(doors: list[str]) -> list[Subject]:
    """What is looked at through these doors."""
    found: list[Subject] = []
    by_duckdb = "duckdb" in doors
    if "engine" in doors:
        found += [Windows(ENGINES, 40), Twice(ENGINES, 20, by_duckdb), Joins(JOIN_ENGINES, 40)]
    if "standalone" in doors:
        found += [Windows(OPERATORS, 40), Joins(JOIN_OPERATORS, 40)]
    if "spark" in doors:
        from tests.search import on_spark

        found += on_spark.subjects()
    return found


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The options, or an explanation of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.search", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long (default 10)")
    parser.add_argument("--seed", type=int, help="what is drawn; another one each time")
    parser.add_argument("--round", type=int, help="look at this round only, of that seed")
    parser.add_argument("--doors", default=",".join(DOORS), help="some of %(default)s")
    options = parser.parse_args(arguments)
    options.doors = options.doors.split(",")
    unknown = sorted({*options.doors} - {*DOORS, "oracle"})
    if unknown:
        parser.error(f"no doors: {', '.join(unknown)}; there are {', '.join(DOORS)}")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(2**31)
    return options


def main(arguments: list[str]) -> int:
    """Search; 1 where something was found."""
    options = parsed(arguments)
    search = Search(subjects(options.doors), options.seed, sys.stdout)
    return 1 if search.run(60 * options.minutes, options.round) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
