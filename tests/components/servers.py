"""Starts and stops real servers as child processes: own ports, own data, nothing shared between checkouts."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_PATHS = os.pathsep.join(
    [os.environ.get("PATH", ""), "/usr/lib/rabbitmq/bin", "/usr/sbin", "/usr/local/sbin"]
)


def program(name: str) -> str | None:
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name, path=_PATHS)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A child process in a session of its own, with a folder that goes when it goes."""

    name = ""
    hello: bytes = b""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"opilio-{self.name}-"))
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def start(self, patience: float = 150) -> "Server":
        with (self.folder / "output.log").open("ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + patience
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "output.log").read_text(errors="replace")[-2000:]
                self.kill()
                raise RuntimeError(f"{self.name} did not start:\n{log}")
            time.sleep(0.1)
        return self

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                if not self.hello:
                    return True
                connection.sendall(self.hello)
                return bool(connection.recv(1))
        except OSError:
            return False

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, number)
            self.process.wait(30)
        except ProcessLookupError:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        self.process = None

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class RabbitMQ(Server):
    name = "rabbitmq"
    hello = b"AMQP\x00\x00\x09\x01"

    def __init__(self) -> None:
        super().__init__()
        self.distribution_port = free_port()
        self.epmd_port = free_port()
        (self.folder / "plugins").write_text("[].\n")
        # RabbitMQ 4's own default: what is larger must be refused here as it will be there.
        (self.folder / "rabbitmq.conf").write_text(f"max_message_size = {16 << 20}\n")

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def command(self) -> list[str]:
        # The script itself, not the distribution's wrapper, which would change the user and the folders.
        inner = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        return [str(inner) if inner.exists() else str(program("rabbitmq-server"))]

    def environment(self) -> dict[str, str]:
        folder = str(self.folder)
        return {
            "HOME": folder,
            "RABBITMQ_NODENAME": f"opilio{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    def remove(self) -> None:
        self.stop()
        epmd = program("epmd")
        if epmd:  # the name server that the node started for itself, on its own port
            subprocess.run(
                [epmd, "-port", str(self.epmd_port), "-kill"],
                capture_output=True,
                check=False,
                env={**os.environ, **self.environment()},
            )
        super().remove()


class Redis(Server):
    name = "redis"
    hello = b"PING\r\n"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        return [
            str(program("redis-server")),
            *("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)),
            *("--appendonly", "yes", "--save", "", "--daemonize", "no"),
        ]


class S3(Server):
    """A bucket is a folder; keys are of the length that the server asks for."""

    name = "s3"
    access_key = "opilio-access"
    secret_key = "opilio-secret-key"
    bucket = "opilio"
    crawl_results = "crawl-results"  # the bucket that crawlers name in their messages

    def __init__(self) -> None:
        super().__init__()
        for bucket in (self.bucket, self.crawl_results):
            (self.folder / "data" / bucket).mkdir(parents=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return [
            str(program("rclone")),
            *("serve", "s3", "--addr", f"127.0.0.1:{self.port}"),
            *("--auth-key", f"{self.access_key},{self.secret_key}", str(self.folder / "data")),
        ]

    def environment(self) -> dict[str, str]:
        return {"RCLONE_CONFIG": str(self.folder / "rclone.conf")}
