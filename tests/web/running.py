"""A real server process, for tests that need sockets, crashes or another event loop."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Server:
    """`opilio run api` on loopback, in a process group of its own."""

    database_url: str
    data_dir: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, **settings: str) -> "Server":
        self.port = self.port or free_port()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OPILIO_")} | {
            "OPILIO_DATABASE_URL": self.database_url,
            "OPILIO_DATA_DIR": str(self.data_dir),
            "OPILIO_METRICS_PORT": "0",
            **{f"OPILIO_{key.upper()}": value for key, value in settings.items()},
        }
        with (self.data_dir / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "opilio",
                    "run",
                    "api",
                    "--host",
                    "127.0.0.1",
                    "--port",
                    str(self.port),
                ],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_until_ready()
        return self

    def wait_until_ready(self, patience: float = 90) -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise AssertionError(
            f"the server was not ready in {patience} s:\n{(self.data_dir / 'server.log').read_text()}"
        )

    def kill(self) -> None:
        """As a crash would: the whole group, at once."""
        assert self.process is not None
        os.killpg(self.process.pid, 9)
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(timeout=15)
