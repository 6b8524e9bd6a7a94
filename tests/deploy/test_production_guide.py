"""The production guide, command by command as it is printed: five roles as units say it, watched by a real Prometheus.

There is no systemd in a container, so `systemctl` only notes what it was told, and the test runs the units itself.
"""

import asyncio
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from opilio.adapters.postgres import migrate
from tests.components.fixtures import rabbitmq, redis_server, redis_url
from tests.components.servers import RabbitMQ, Server, free_port, program
from tests.conftest import database_at
from tests.deploy.programs import DEPLOY, host_of, need
from tests.deploy.test_failover import binary
from tests.guides import Reader, blocks

__all__ = ["rabbitmq", "redis_server", "redis_url"]

ROLES = ("api", "scheduler", "delivery", "collector", "analytics")
PATIENCE = 90  # seconds


class Machine:
    """Runs units from where the guide installed them."""

    def __init__(self, folder: Path, reader: Reader) -> None:
        self.units, self.reader, self.folder = folder / "etc/systemd/system", reader, folder
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, unit: str) -> subprocess.Popen[bytes]:
        name, _, instance = unit.partition("@")
        text = (self.units / f"{name}{'@' if instance else ''}.service").read_text().replace("%i", instance)
        env = dict(self.reader.env)
        for file in re.findall(r"^EnvironmentFile=-?(\S+)$", text, re.MULTILINE):
            lines = Path(self.reader.typed(file)).read_text().splitlines()
            env |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        [command] = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
        words = shlex.split(self.reader.typed(command))
        with (self.folder / f"{unit}.log").open("wb") as log:
            process = subprocess.Popen(words, env=env, stdout=log, stderr=log, cwd=self.folder)
        self.running.append(process)
        return process

    def log(self, unit: str) -> str:
        return (self.folder / f"{unit}.log").read_text()[-2000:]

    def stop(self) -> None:
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(60)


class Prometheus(Server):
    name = "prometheus"

    def __init__(self, config: Path) -> None:
        super().__init__()
        self.config = config

    def command(self) -> list[str]:
        return [
            need("prometheus"),
            f"--config.file={self.config}",
            f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    async def value(self, query: str) -> dict[str, str]:
        async with httpx2.AsyncClient(trust_env=False) as client:
            url = f"http://127.0.0.1:{self.port}/api/v1/query"
            found = (await client.get(url, params={"query": query})).json()["data"]["result"]
        return {row["metric"].get("role", ""): row["value"][1] for row in found}


@pytest.fixture
def reader(tmp_path: Path, server_url: str, spare: str, rabbitmq: RabbitMQ) -> Reader:
    """Real commands, with this test's folders; what would change the machine only notes its words."""
    values = {
        "/etc/": f"{tmp_path}/etc/",
        "/opt/opilio/bin": str(Path(sys.executable).parent),
        "/var/lib/opilio": str(tmp_path / "lib"),
        " -g opilio": "",
        "create role opilio": f"create role {spare}",
        "--owner opilio opilio": f"--owner {spare} {spare}",
    }
    made = Reader(tmp_path, values, at=DEPLOY.parent)
    for folder in ("etc/systemd/system", "etc/prometheus"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("apt-get", "useradd", "systemctl"):
        made.stand_in(name)
    as_postgres = f"PGHOST={host_of(server_url)} PGUSER=postgres PATH={Path(binary('psql')).parent}:$PATH"
    made.stand_in("su", f'{as_postgres} bash -c "$3"')
    of_node = " ".join(f"{key}={shlex.quote(value)}" for key, value in rabbitmq.environment().items())
    # The tool itself: the distribution's wrapper changes the user.
    inner = Path("/usr/lib/rabbitmq/bin/rabbitmqctl")
    made.stand_in("rabbitmqctl", f'{of_node} {inner if inner.exists() else program("rabbitmqctl")} "$@"')
    return made


def write_settings(folder: Path, server_url: str, spare: str, rabbitmq: RabbitMQ, redis_url: str) -> int:
    """What the reader writes into the file: the URLs of the services; and free ports instead of the fixed ones."""
    file, port = folder / "etc/opilio/opilio.env", free_port()
    text = file.read_text()
    for ours, here in (
        ("postgresql://opilio:PASSWORD@127.0.0.1/opilio", database_at(server_url, spare).replace("postgres:@", f"{spare}:PASSWORD@")),
        ("amqp://opilio:PASSWORD@127.0.0.1/", f"amqp://opilio:PASSWORD@127.0.0.1:{rabbitmq.port}/"),
        ("redis://127.0.0.1/0", redis_url),
        ("https://crawl.example.com", f"http://127.0.0.1:{port}"),
        ("OPILIO_BLOBS_URL=s3://opilio?endpoint=http://127.0.0.1:9000\n", ""),
        ("/var/lib/opilio", str(folder / "lib")),
    ):  # fmt: skip
        assert ours in text, ours
        text = text.replace(ours, here)
    file.write_text(f"{text}OPILIO_PORT={port}\n")
    return port


@pytest.fixture
def machine(tmp_path: Path, reader: Reader) -> Iterator[Machine]:
    made = Machine(tmp_path, reader)
    yield made
    made.stop()


async def test_one_machine_from_nothing_to_a_scraped_prometheus(
    reader, machine, tmp_path, server_url, spare, rabbitmq, redis_url
):
    guide = blocks("how-to/run-in-production.md")
    services, units, start, shell, watch, first = guide[3:9]
    for block in (services, units):
        await asyncio.to_thread(reader.run, block)
    port = write_settings(tmp_path, server_url, spare, rabbitmq, redis_url)
    await asyncio.to_thread(reader.run, start)
    assert reader.noted()[-2:] == [
        "systemctl start opilio-migrate",
        f"systemctl enable --now opilio.target {' '.join(f'opilio@{role}' for role in ROLES)}",
    ]
    ports = {str(9190 + number): str(free_port()) for number in range(len(ROLES))}
    for role, ours in zip(ROLES, ports, strict=True):
        file = tmp_path / f"etc/opilio/{role}.env"
        file.write_text(file.read_text().replace(f"PORT={ours}", f"PORT={ports[ours]}"))
    assert await asyncio.to_thread(machine.start("opilio-migrate").wait, 60) == 0, machine.log(
        "opilio-migrate"
    )
    for role in ROLES:
        machine.start(f"opilio@{role}")
    await asyncio.gather(
        *(until_ready(machine, role, ports[ours]) for role, ours in zip(ROLES, ports, strict=True))
    )

    await asyncio.to_thread(until_healthy, reader, shell)
    settings, _, doctor = shell.rpartition("opilio doctor\n")
    assert doctor == ""
    said = await asyncio.to_thread(reader.run, settings + first)
    [link] = re.findall(rf"http://127.0.0.1:{port}/login/\S+", said)
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(link)).status_code == 200
        pulled = await client.post(
            f"http://127.0.0.1:{port}/api/crawl/pull/",
            json={"bot_id": "bot-1"},
            headers={"authorization": f"Bearer {said.split()[-1]}"},
        )
        assert pulled.json()["success"] is True
    await asyncio.to_thread(reader.run, watch)
    config = tmp_path / "etc/prometheus/prometheus.yml"
    text = config.read_text().replace("interval: 15s", "interval: 1s")
    for ours, here in ports.items():
        text = text.replace(f"127.0.0.1:{ours}", f"127.0.0.1:{here}")
    config.write_text(text)
    await scraped(Prometheus(config))


def until_healthy(reader: Reader, block: str) -> None:
    """The doctor gives each service a few seconds, which a busy machine may not have: as a person, ask again."""
    for tries_left in (2, 1, 0):
        try:
            assert f"revision {migrate.newest()}, the newest" in reader.run(block)
        except AssertionError:
            if not tries_left:
                raise
        else:
            return


async def until_ready(machine: Machine, role: str, port: str) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client:
        try:
            async with asyncio.timeout(PATIENCE):
                while not await answers(client, f"http://127.0.0.1:{port}/readyz"):
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pytest.fail(f"{role} is not ready: {machine.log(f'opilio@{role}')}")


async def answers(client: httpx2.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == 200
    except httpx2.TransportError:
        return False


async def scraped(prometheus: Prometheus) -> None:
    """All five roles are targets that are up, and the rules are loaded."""
    try:
        await asyncio.to_thread(prometheus.start)
        async with asyncio.timeout(PATIENCE):
            while await prometheus.value("sum by (role) (opilio_role_up)") != dict.fromkeys(ROLES, "1"):
                await asyncio.sleep(0.2)
    finally:
        prometheus.remove()
