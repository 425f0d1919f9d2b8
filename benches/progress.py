"""Prints the running step and its duration, in plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HEARTBEAT_SECONDS = 15.0


class Progress:
    """Writes lines with the time since the start; a terminal also shows a running clock."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.live = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Write a line."""
        elapsed = int(time.perf_counter() - self.started)
        clear = "\r\x1b[K" if self.live else ""
        clock = f"{elapsed // 60:4d}:{elapsed % 60:02d}"
        print(f"{clear}[{clock}] {text}", file=sys.stderr, flush=True)

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[float], None]]:
        """Announce a step, show that it is running, and print its duration."""
        announced = 0.0

        def tick(elapsed: float) -> None:
            nonlocal announced
            if self.live:
                print(f"\r\x1b[K  {name} … {elapsed:.0f} s", end="", file=sys.stderr, flush=True)
            elif elapsed - announced >= HEARTBEAT_SECONDS:
                announced = elapsed
                self.say(f"{name} … still running, {elapsed:.0f} s")

        began = time.perf_counter()
        if not self.live:
            self.say(f"{name} …")
        try:
            yield tick
        except BaseException:
            self.say(f"{name}: stopped after {time.perf_counter() - began:.1f} s")
            raise
        self.say(f"{name}: {time.perf_counter() - began:.1f} s")
