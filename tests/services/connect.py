"""A server of Spark Connect on loopback, for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

from tests.services.machine import free_port, listens, wait_until

from muntin.spark.session import settings

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """A server with two cores; it runs from the start."""

    def __init__(self) -> None:
        self.folder = Path(mkdtemp(prefix="muntin-connect-"))
        port = free_port()
        self.url = f"sc://127.0.0.1:{port}"
        server_settings = {
            **settings("local[2]"),
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.streaming.pollingDelay": "50ms",
        }
        submit = Path(sys.executable).with_name("spark-submit")
        command = [str(submit), "--master", "local[2]", "--class", _CLASS]
        for name, value in server_settings.items():
            command += ["--conf", f"{name}={value}"]
        # Spark gives its Python processes ten seconds, which those without bytecode exceed.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYSPARK_PYTHON": sys.executable, "POLARS_MAX_THREADS": "1"}
        self.log = self.folder / "log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, "spark-internal"],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(lambda: listens(port), self._process, self.log)

    def remove(self) -> None:
        """Stop the server, and delete its folder."""
        self._process.terminate()
        self._process.wait(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)
