"""Opilio behind PgBouncer in transaction mode, with few server connections and many tasks at once."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from opilio.contracts.policies import PolicyInput
from opilio.runtime.bootstrap import open_opilio
from opilio.runtime.settings import load_settings
from tests.components.servers import Server
from tests.deploy.programs import need

SERVER_CONNECTIONS = 3


class PgBouncer(Server):
    name = "pgbouncer"

    def __init__(self, socket: str) -> None:
        super().__init__()
        self.socket = socket
        self.folder.chmod(0o777)
        (self.folder / "users").write_text('"postgres" ""\n')
        (self.folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={socket} user=postgres\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {self.folder}/users\npool_mode = transaction\n"
            f"default_pool_size = {SERVER_CONNECTIONS}\nmax_client_conn = 500\n"
        )

    def command(self) -> list[str]:
        # It refuses to be root, and must reach the socket: so it runs as the server does.
        owner = Path(self.socket).stat().st_uid
        as_other = ["setpriv", f"--reuid={owner}", "--clear-groups"] if os.geteuid() == 0 else []
        return [*as_other, need("pgbouncer"), str(self.folder / "pgbouncer.ini")]


@pytest.fixture
def pgbouncer(server_url: str) -> Iterator[PgBouncer]:
    server = PgBouncer(parse_qs(urlsplit(server_url).query)["host"][0])
    server.start()
    yield server
    server.remove()


async def test_it_works_through_a_transaction_pooler(pgbouncer: PgBouncer, database_url: str, tmp_path):
    name = urlsplit(database_url).path.strip("/")
    settings = load_settings(
        data_dir=tmp_path,
        database_url=f"postgresql://postgres@127.0.0.1:{pgbouncer.port}/{name}",
        database_direct_url=database_url,
        database_pool_size=16,
    )
    async with open_opilio(settings, name="opilio pooled") as opilio:
        heard = asyncio.Event()
        subscription = await opilio.database.listen(["opilio_test"], lambda *_: heard.set())

        async def work(number: int) -> None:
            policy_id = await opilio.policies.create(
                PolicyInput(url=f"https://a.example/{number}", labels={"n": "1"})
            )
            assert (await opilio.insights.policy(policy_id)).url.endswith(f"/{number}")

        await asyncio.gather(*(work(number) for number in range(200)))
        assert await opilio.scheduler.create_due()
        stats = await opilio.insights.stats()
        assert stats.policies["enabled"] == 200

        async with opilio.database.try_lock("turn") as mine, opilio.database.try_lock("turn") as other:
            assert (mine, other) == (True, False)
        async with opilio.database.try_lock("turn") as again:
            assert again
        await opilio.database.notify("opilio_test", "x")
        await asyncio.wait_for(heard.wait(), 10)
        await subscription.close()

    direct = await asyncpg.connect(database_url)
    through = await direct.fetchval(
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'opilio pooled'"
    )
    await direct.close()
    assert through <= SERVER_CONNECTIONS
