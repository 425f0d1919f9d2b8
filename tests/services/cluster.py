"""A standalone Spark cluster on loopback for tests: a master, and workers of one core each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
from tests.services.machine import QUICK, archive_options, free_port, listens, wait_until
from tests.spark.drivers import kill, members, start

_SPARK = Path(pyspark.__file__).parent


class Cluster:
    """A cluster whose processes stand for machines.

    Attributes:
        master: The cluster's address.
        workers: The running workers.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.port = free_port()
        self.master = f"spark://127.0.0.1:{self.port}"
        self.log = folder / "master.log"
        self._number = 0
        self._head = self._start(
            "master.Master", "--host", "127.0.0.1", "--port", str(self.port), log=self.log
        )
        wait_until(lambda: listens(self.port), self._head, self.log)
        self.workers = [self.worker() for _ in range(workers)]

    def worker(self) -> subprocess.Popen[bytes]:
        """Start another worker, and wait until the master knows it."""
        self._number += 1
        log, host = self.folder / f"worker-{self._number}.log", f"127.0.0.{self._number + 1}"
        work = self.folder / f"work-{self._number}"
        worker = self._start(
            "worker.Worker", "--host", host, "--cores", "1", "--memory", "1g",
            "--work-dir", str(work), self.master, log=log,
        )  # fmt: skip
        wait_until(lambda: "Successfully registered" in log.read_text(), worker, log)
        return worker

    def python_workers(self) -> list[int]:
        """Return the Python processes of all executors."""
        return self._list_members("muntin.spark.host.daemon")

    def executors(self) -> list[int]:
        """Return the JVMs of all executors."""
        return self._list_members("CoarseGrainedExecutorBackend")

    def _list_members(self, word: str) -> list[int]:
        return [pid for worker in self.workers for pid in members(worker, word)]

    def remove(self) -> None:
        """Kill all processes."""
        for process in (*self.workers, self._head):
            kill(process)

    def _start(self, role: str, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
        command = [str(_SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        environment = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} {archive_options()}".rstrip(),
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        return start([*command, *arguments, "--webui-port", "0"], log, environment)
