"""An S3 server for tests, on loopback, whose buckets are temporary folders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from pyarrow import fs
from tests.services.gate import Gate
from tests.services.machine import SERVICES, free_port, listens, wait_until

SERVER, JARS = SERVICES / "s3" / "versitygw", SERVICES / "s3" / "jars"
_USER, _SECRET = "muntin", "muntin-secret"


class S3:
    """A server that is started, killed and started again.

    Args:
        refuses: The share of the requests that a proxy refuses, as a busy server does.

    Attributes:
        folder: The folder of its buckets, where an object is a file.
        settings: Settings of a session that reaches it, as options of ``muntin.session``.
    """

    def __init__(self, *, refuses: float = 0.0) -> None:
        # Go may be missing where the other services are installed, so tests are skipped even then.
        if not SERVER.exists() or not any(JARS.glob("hadoop-aws-*.jar")):
            pytest.skip("there is no S3 server: run scripts/services.sh, with Go on the path")
        self.home = Path(tempfile.mkdtemp(prefix="muntin-s3-"))
        self.folder = self.home / "data"
        self.folder.mkdir()
        self.log = self.home / "log"
        self.port = free_port()
        self.gate = Gate(self.port, refuses) if refuses else None
        port = self.port if self.gate is None else self.gate.port
        self.settings = {
            "spark__jars": ",".join(map(str, sorted(JARS.glob("*.jar")))),
            "spark__hadoop__fs__s3a__endpoint": f"http://127.0.0.1:{port}",
            "spark__hadoop__fs__s3a__endpoint__region": "us-east-1",
            "spark__hadoop__fs__s3a__access__key": _USER,
            "spark__hadoop__fs__s3a__secret__key": _SECRET,
            "spark__hadoop__fs__s3a__path__style__access": "true",
            "spark__hadoop__fs__s3a__connection__ssl__enabled": "false",
        }
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        address = ["--port", f"127.0.0.1:{self.port}"]
        command = [str(SERVER), "--access", _USER, "--secret", _SECRET, *address, "posix", "."]
        with open(self.log, "ab") as log:
            environment = {**os.environ, "NO_COLOR": "1"}
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=environment
            )
        wait_until(lambda: listens(self.port), self.process, self.log)

    def upload(self, source: Path, target: str) -> None:
        """Copy the files of a folder into a folder of a bucket, with their modification times."""
        address = f"http://127.0.0.1:{self.port}"
        files = fs.S3FileSystem(
            access_key=_USER,
            secret_key=_SECRET,
            endpoint_override=address,
            region="us-east-1",
            allow_bucket_creation=True,
        )
        files.create_dir(target.split("/")[0])
        for path in sorted(source.iterdir()):
            with files.open_output_stream(f"{target}/{path.name}") as out:
                out.write(path.read_bytes())
            modified = path.stat().st_mtime
            os.utime(self.folder / target / path.name, (modified, modified))

    def kill(self) -> None:
        """Kill the server, as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=60)

    def remove(self) -> None:
        """Kill the server, and delete its folder."""
        if self.gate is not None:
            self.gate.close()
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)
