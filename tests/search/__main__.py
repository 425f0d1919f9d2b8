"""Runs ``python -m tests.search --minutes 30 --seed 7 --runners engine,standalone``."""

from __future__ import annotations

import argparse
import random
import sys

from tests.join_runners import EngineJoinRunner, StandaloneJoinRunner
from tests.runners import EngineRunner, StandaloneRunner
from tests.search.finding import Subject
from tests.search.rounds import Search
from tests.search.subjects import Joins, Twice, Windows

RUNNERS = ("engine", "standalone", "duckdb", "spark")
ENGINES = [
    EngineRunner(),
    EngineRunner(3),
    EngineRunner(4, restart=True),
    EngineRunner(2, repeat=True),
]
OPERATORS = [
    StandaloneRunner(),
    StandaloneRunner(restart=True),
    StandaloneRunner("rocks", restart=True),
    StandaloneRunner(single=True),
    StandaloneRunner(tables=True),
]
JOIN_ENGINES = [
    EngineJoinRunner(),
    EngineJoinRunner(shards=3),
    EngineJoinRunner(shards=2, restart=True),
    EngineJoinRunner(repeat=True),
]
JOIN_OPERATORS = [
    StandaloneJoinRunner(),
    StandaloneJoinRunner(restart=True),
    StandaloneJoinRunner("rocks", restart=True),
    StandaloneJoinRunner(single=True),
]


def list_subjects(runners: list[str]) -> list[Subject]:
    """Return the subjects to search with these runners."""
    subjects: list[Subject] = []
    by_duckdb = "duckdb" in runners
    if "engine" in runners:
        subjects += [Windows(ENGINES, 40), Twice(ENGINES, 20, by_duckdb), Joins(JOIN_ENGINES, 40)]
    if "standalone" in runners:
        subjects += [Windows(OPERATORS, 40), Joins(JOIN_OPERATORS, 40)]
    if "spark" in runners:
        from tests.search import on_spark

        subjects += on_spark.list_subjects()
    return subjects


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the options of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.search", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long (default 10)")
    parser.add_argument("--seed", type=int, help="seed of all cases; random by default")
    parser.add_argument("--round", type=int, help="run only this round of the seed")
    parser.add_argument("--runners", default=",".join(RUNNERS), help="some of %(default)s")
    options = parser.parse_args(arguments)
    options.runners = options.runners.split(",")
    unknown = sorted({*options.runners} - {*RUNNERS, "oracle"})
    if unknown:
        parser.error(f"no runners: {', '.join(unknown)}; there are {', '.join(RUNNERS)}")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(2**31)
    return options


def main(arguments: list[str]) -> int:
    """Run a search; return 1 if it found a difference."""
    options = parse_options(arguments)
    search = Search(list_subjects(options.runners), options.seed, sys.stdout)
    return 1 if search.run(60 * options.minutes, options.round) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
