"""Ten minutes of one query, and the memory of its processes: ``python -m benches.soak``.

The query has everything on that holds state: early firing each second, late messages, grace. Its
keys come and go, so that only what retention bounds may stay.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from benches import processes, venvs
from benches.__main__ import RESULTS
from benches.roster import PEERS
from benches.rounds import ROOT, environment_of

KINDS = ("driver", "JVM", "workers")
EVERY_SECONDS = 5.0


def memory(session: int) -> dict[str, float]:
    """Resident memory by kind of process, MB; pages that workers share count once each."""
    found = dict.fromkeys(KINDS, 0.0)
    for pid in processes.members(session):
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_text()
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            kind = "workers" if "muntin.spark.host.daemon" in command else "driver"
            kind = "JVM" if "SparkSubmit" in command else kind
            found[kind] += pages * processes.PAGE / 1_048_576
    return found


def soak(minutes: float) -> list[dict[str, float]]:
    """Run the query for some minutes.

    Returns:
        Seconds since the start and the memory of each kind, every few seconds.
    """
    python = str(venvs.ensure("muntin"))
    command = [python, "-m", "benches.peers.muntin_soak", str(minutes * 60)]
    process = subprocess.Popen(
        command,
        env=environment_of(PEERS["muntin"]),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    samples, started = [], time.perf_counter()
    try:
        while process.poll() is None:
            time.sleep(EVERY_SECONDS)
            samples.append({"seconds": time.perf_counter() - started, **memory(process.pid)})
    finally:
        processes.end_session(process.pid)
        process.wait()
    if process.returncode:
        raise processes.RunError(f"the soak ended with code {process.returncode}")
    return samples[:-1]


def table(samples: list[dict[str, float]]) -> str:
    """The median of each minute, as Markdown."""
    lines = ["| minute | " + " | ".join(f"{kind} MB" for kind in KINDS) + " |"]
    lines.append("| --- " * (1 + len(KINDS)) + "|")
    for minute in range(int(samples[-1]["seconds"] // 60) + 1):
        within = [s for s in samples if int(s["seconds"] // 60) == minute]
        if len(within) > 1:
            medians = (statistics.median(s[kind] for s in within) for kind in KINDS)
            lines.append(f"| {minute + 1} | " + " | ".join(f"{m:.0f}" for m in medians) + " |")
    return "\n".join(lines)


def main() -> int:
    """Soak, print and keep the table."""
    parser = argparse.ArgumentParser(prog="benches.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    minutes = parser.parse_args().minutes
    samples = soak(minutes)
    emitted = table(samples)
    print(emitted)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "soak.json").write_text(json.dumps(samples, indent=1) + "\n")
    (RESULTS / "soak.md").write_text(
        f"# Memory over {minutes:g} minutes\n\n"
        "20 000 rows/s, keys that change every minute, tumbling 10 s, early each second, grace\n"
        "30 s; resident memory, the median of each minute.\n\n" + emitted + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
