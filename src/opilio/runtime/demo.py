"""The demo of `opilio up`: a shop on loopback with a bot that crawls it, and a project on simulated platforms.

It begins on a fresh data directory only, stays with it, and goes with `opilio demo remove`.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import obstore

from opilio import audit
from opilio.adapters.buckets import Buckets, crawl_bucket
from opilio.adapters.postgres import Session, load_queries
from opilio.contracts.projects import ProjectInput
from opilio.crawl.import_policies import import_rows, read_values
from opilio.crawl.policies import Policies
from opilio.demo import DemoShop, demo_policies, serving_shop
from opilio.errors import NotFound
from opilio.logs import get_logger
from opilio.net.allowed_addresses import parse_allow
from opilio.runtime.bootstrap import Opilio
from opilio.runtime.demo_history import add_history, remove_figures
from opilio.runtime.instance_file import DEMO_NOTE
from opilio.runtime.supervisor import Command

BOT = "demo-bot"
DEMO_LOG = "demo.log"
_Q = load_queries("opilio.runtime")
_PROJECT = ProjectInput(
    project_id="demo",
    brand_name="Trà sữa",
    # Keywords that the simulated platforms have enough posts for: a shortage would be a warning on the terminal.
    brand_keywords=["trà sữa", "trà chanh"],
    competitor_keywords={"Cà phê": ["cà phê", "cold brew"], "Matcha": ["matcha latte"]},
    limit_per_keyword=40,
)
_log = get_logger(__name__)


async def start_demo(opilio: Opilio, url: str) -> list[Command]:
    """Prepares the demo's data and answers the processes to run beside Opilio; none where it does not belong."""
    note = _note(opilio.settings.data_dir)
    if not note.exists():
        if (await opilio.insights.policies(limit=1)).items:
            return []  # the user's own data: no demo here
        await _begin(opilio, note)
    written = json.loads(note.read_text(encoding="utf-8"))
    shop = DemoShop(written["address"], written["busy_address"])
    port = int(shop.address.rpartition(":")[2])
    if not _is_free(port):
        _log.warning("demo.port_taken", port=port, remedy="end what holds it, or run `opilio demo remove`")
        return []
    here = {"OPILIO_DATA_DIR": str(opilio.settings.data_dir), "OPILIO_DATABASE_URL": opilio.database.url}
    # One task at a time and some seconds for each, so that a person can watch the project's progress.
    pace = ("--at-once", "1", "--seconds-per-post", "0.2")
    crawlers = (sys.executable, "-m", "opilio", "crawler", "simulate", "--json", *pace)
    token = {"OPILIO_BOT_TOKEN": await _fresh_token(opilio)}
    log = opilio.settings.data_dir / DEMO_LOG
    log.unlink(missing_ok=True)  # each start writes its own
    return [
        Command("demo-crawlers", crawlers, here, log),
        Command("demo-shop", (sys.executable, "-m", "opilio.demo", str(port)), {}, log),
        Command("demo-bot", _bot_words(url, shop), token, log),
    ]


async def remove_demo(opilio: Opilio, *, by: str) -> int:
    """Deletes everything that the demo brought, but for the audit log; answers how many policies went."""
    note = _note(opilio.settings.data_dir)
    since = json.loads(note.read_text(encoding="utf-8")).get("since") if note.exists() else None
    await remove_figures(opilio.database, datetime.fromisoformat(since) if since else None)
    await _revoke(opilio, by)  # its bot may still run: from now on it gets no jobs
    tasks = await opilio.database.fetch(_Q.demo_tasks, project=_PROJECT.project_id)
    removed = await opilio.database.transact(_delete_rows)
    await _delete_batches(
        opilio.settings.blobs, [f"crawl/{task['platform']}/{task['job_id']}/" for task in tasks]
    )
    await audit.record(opilio.database, by, "demo.remove", "demo", {"policies": removed})
    note.unlink(missing_ok=True)
    (opilio.settings.data_dir / DEMO_LOG).unlink(missing_ok=True)
    return removed


async def _delete_rows(session: Session) -> int:
    rows = await session.fetch(_Q.demo_rows)
    values = {
        "policy_ids": [row["policy_id"] for row in rows],
        "urls": [row["url"] for row in rows],
        "host_ids": list({row["host_id"] for row in rows}),
        "bot": BOT,
        "project": _PROJECT.project_id,
    }
    for statement in _Q:
        if statement.name.startswith("delete_"):
            await session.execute(statement, **{name: values[name] for name in statement.params})
    return len(rows)


async def _delete_batches(blobs: str, prefixes: Sequence[str]) -> None:
    """What the simulated crawlers stored."""
    store = Buckets(blobs).store(crawl_bucket(blobs))
    for prefix in prefixes:
        async for chunk in obstore.list(store, prefix, chunk_size=1000):
            await obstore.delete_async(store, [meta["path"] for meta in chunk])


def _note(data_dir: Path) -> Path:
    """Where the shop's addresses are kept: policies name them, so they must not change."""
    return data_dir / DEMO_NOTE


async def _begin(opilio: Opilio, note: Path) -> None:
    async with serving_shop() as shop:  # takes a free port, and lets it go again for the shop's own process
        addresses = {"address": shop.address, "busy_address": shop.busy_address}
    # The demo may name its own shop, whatever OPILIO_CRAWL_ALLOW_PRIVATE says; nobody else gains by that.
    policies = Policies(opilio.database, allow=parse_allow(shop.allow))
    readings = read_values(demo_policies(shop.address, shop.busy_address))
    async for _ in import_rows(policies, readings, "demo"):
        pass
    await add_history(opilio.database)
    await opilio.projects.create(_PROJECT, by="demo")
    content = json.dumps(addresses | {"since": datetime.now(UTC).isoformat()})
    await asyncio.to_thread(note.write_text, content, encoding="utf-8")


def _bot_words(url: str, shop: DemoShop) -> tuple[str, ...]:
    from opilio.bot.reference.find_chromium import find_browser  # noqa: PLC0415 - needs the extra `bot`

    able = "http,js" if find_browser() else "http"
    words = (sys.executable, "-m", "opilio", "bot", "run", "--server", url, "--bot-id", BOT, "--json")
    # Jobs of the demo's shop alone: a job for another host is for somebody else's bot, and nothing leaves the machine.
    only = [word for host in shop.hosts for word in ("--domain", host)]
    return (*words, *only, "--capabilities", able, "--allow-private", shop.allow, "--raw-html")


async def _fresh_token(opilio: Opilio) -> str:
    """A token for this run alone: it is kept nowhere."""
    await _revoke(opilio, audit.SYSTEM)
    _, token = await opilio.credentials.new_bot_token(BOT)
    return token


async def _revoke(opilio: Opilio, by: str) -> None:
    try:
        await opilio.credentials.revoke_bot_tokens(BOT, by=by)
    except NotFound:
        _log.debug("demo.no_token_yet")


def _is_free(port: int) -> bool:
    with socket.socket() as knock:
        knock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            knock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
