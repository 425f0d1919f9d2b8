"""Runs ``python -m tests.simulation --seed 7 --minutes 10``; ``--only`` runs one seed."""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.cases import HOSTS, KINDS, draw_case
from tests.simulation.running import Simulation, judge
from tests.simulation.smaller import shrink


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the options of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; another one each time")
    parser.add_argument("--minutes", type=float, default=1, help="how long (default 1)")
    parser.add_argument(
        "--only", action="store_true", help="run the one case of --seed, and shrink"
    )
    parser.add_argument("--processes", type=int, default=2, help="how many (default 2)")
    parser.add_argument("--hosts", default=",".join(HOSTS), help="some of %(default)s")
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of %(default)s")
    options = parser.parse_args(arguments)
    options.hosts, options.kinds = options.hosts.split(","), options.kinds.split(",")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(2**31)
    return options


def simulate(options: argparse.Namespace, process: int) -> tuple[list[int], int, int, int]:
    """Run one process's share; return failing seeds, and numbers of cases, batches and faults."""
    # Imported objects stay alive, and cases leave hardly any reference cycles.
    gc.freeze()
    gc.set_threshold(100_000)
    first, stride = options.seed + process, options.processes
    simulation = Simulation(first, stride, options.hosts, options.kinds)
    seeds: list[int] = []
    deadline = time.monotonic() + 60 * options.minutes
    while (seconds_left := deadline - time.monotonic()) > 0:
        # A search that is killed has printed its findings until then.
        for finding in simulation.run(min(seconds_left, 60)):
            seeds.append(finding.case.seed)
            print(f"failing seed: {finding.case.seed}", flush=True)
        print(f"before seed {simulation.first}: {simulation.cases} cases, "
              f"{simulation.steps} batches", flush=True)  # fmt: skip
    return seeds, simulation.cases, simulation.steps, simulation.faults


def main(arguments: list[str]) -> int:
    """Simulate cases; return 1 if any of them fails."""
    options = parse_options(arguments)
    seeds = [options.seed] if options.only else _search(options)
    failing = 0
    for seed in seeds[:5]:
        case = draw_case(seed, options.hosts, options.kinds)
        if judge(case).differences:
            failing += 1
            print(shrink(case), flush=True)
    return 1 if failing else 0


def _search(options: argparse.Namespace) -> list[int]:
    started_at = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        shares = [pool.submit(simulate, options, n) for n in range(options.processes)]
        results = [share.result() for share in shares]
    cases, steps, faults = (sum(result[i] for result in results) for i in (1, 2, 3))
    rate = steps / (time.monotonic() - started_at)
    print(f"seed {options.seed}: {cases} cases, {steps} batches ({rate:.0f}/s), {faults} faults")
    seeds = sorted(seed for result in results for seed in result[0])
    if seeds:
        print(f"failing seeds: {seeds}")
    return seeds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
