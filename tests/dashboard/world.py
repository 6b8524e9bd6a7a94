"""A small world to look at: shops, prices that move, a host that says 429, a bot that lost its job."""

import random
from decimal import Decimal
from typing import Any

from httpx2 import AsyncClient

from opilio.adapters.postgres.queries import parse_statement
from opilio.contracts.alerts import AlertInput, AlertScope
from opilio.contracts.policies import PolicyInput
from opilio.contracts.webhooks import EndpointCreate
from opilio.crawl.politeness import Limits
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.delivery.webhooks.client import WebhookClient
from opilio.delivery.webhooks.sender import Sender
from opilio.insights.rollup import Rollup
from opilio.loop import drain
from opilio.net.allowed_addresses import parse_allow
from opilio.runtime.bootstrap import Opilio
from tests.dashboard.listening import fill_projects
from tests.delivery.receiver import Receiver, Reply

SHOPS = ("shoes.example", "books.example", "toys.example", "vinmart.example")
GOODS = ("Running shoe Wind", "Atlas of spiders", "Wooden train", "Cà phê sữa đá", "Desk lamp", "Rain jacket")

_PAST = parse_statement(
    "past",
    """insert into figure_minute select m, (40 + 30 * sin(extract(epoch from m) / 7200) + random() * 10)::int,
  (8 + 4 * sin(extract(epoch from m) / 3600))::int, (random() * 3)::int, 3,
  (50 + 25 * sin(extract(epoch from m) / 9000) + random() * 12)::int, (random() * 3)::int, (random() * 1.2)::int,
  array[60, 6, 2, 1, 0, 0], array[8, 20, 18, 9, 4, 2, 1, 0], 62, 62 * (1.4 + random())
from generate_series(date_trunc('minute', now() - interval '24 hours'), date_trunc('minute', now() - interval '5 minutes'),
  interval '1 minute') m on conflict (minute) do update set pending = excluded.pending, locked = excluded.locked, due = excluded.due,
  bots_alive = 3, done = excluded.done, failed = excluded.failed, expired = excluded.expired, retries = excluded.retries,
  durations = excluded.durations, crawls = excluded.crawls, seconds = excluded.seconds""",
)
_AGE = parse_statement(
    "age",
    """with first as (update first_values set at = at - :days::int * interval '1 day' where change_id <= :newest::bigint)
update changed_value set at = at - :days::int * interval '1 day' where change_id <= :newest::bigint""",
)
_NEWEST = parse_statement("newest", "select coalesce(max(change_id), 0) from value_change")


async def fill(opilio: Opilio, site: str) -> dict[str, Any]:
    """Everything goes through the code that a real herd would use; only the past is made up."""
    chance = random.Random(7)
    await Rollup(opilio.database).run_once()  # or the server's own first count would wipe the past out
    await opilio.database.execute(_PAST)
    ids = [await opilio.policies.create(_policy(n, chance)) for n in range(60)]
    await _add_alerts(opilio, ids)
    tokens = {
        name: (await opilio.credentials.new_bot_token(name))[1]
        for name in ("hanoi-1", "hanoi-2", "browser-1")
    }
    async with AsyncClient(base_url=site, timeout=30) as http:
        for days_ago in reversed(range(6)):
            await _a_day(opilio, http, tokens, ids[:40], chance, age=days_ago > 0)
        await _now(opilio, http, tokens, ids)
    await _deliver(opilio)
    async with Receiver() as receiver:
        await fill_projects(opilio, receiver.url("/progress"))
    await opilio.hosts.set_limits("books.example", Limits(4, 1.5))
    await opilio.credentials.new_key("reporting", "read")
    await opilio.operators.invite("linh", "operator")
    await opilio.views.save("policies", "Shoes that fail", "host=shoes.example&failing=yes", "operator:admin")
    await opilio.policies.set_enabled(ids[50:53], enabled=False)
    return {"policies": ids}


async def _add_alerts(opilio: Opilio, ids: list[Any]) -> None:
    for name, scope, when, value in (
        ("Price drops", AlertScope(all=True), "changed_percent", 4),
        ("Cheap books", AlertScope(host="books.example"), "below", 60),
        ("Wooden train", AlertScope(policy_id=ids[2]), "above", 40),
    ):
        wanted = AlertInput(name=name, scope=scope, field="price", when=when, value=Decimal(value))
        await opilio.alerts.create(wanted, "operator:admin")


async def _deliver(opilio: Opilio) -> None:
    """Events go out to a receiver that is well, and to one that has troubles."""
    async with Receiver() as receiver, WebhookClient(parse_allow("true")) as client:
        await opilio.webhooks.create(
            EndpointCreate(url=receiver.url("/bad"), events=["crawl.job.failed"]), actor="tests"
        )
        await opilio.webhooks.create(
            EndpointCreate(
                url=receiver.url("/prices"), events=["crawl.job.*"], description="the shop's price table"
            ),
            actor="tests",
        )
        receiver.usual = lambda got: Reply(500 if got.path == "/bad" else 200)
        relay = Relay(opilio.database, to_broker)
        await drain(relay.run_once)
        sender = Sender(opilio.database, client)
        await drain(sender.run_once)


def _policy(n: int, chance: random.Random) -> PolicyInput:
    good = GOODS[n % 6].split()[0].lower() if n % 6 != 3 else "coffee"
    return PolicyInput(
        url=f"https://{SHOPS[n % 4]}/p/{n:04d}-{good}",
        frequency_hours=chance.choice([1, 6, 24, 168]),
        priority=chance.choice([20, 50, 50, 80]),
        hot=n % 11 == 0,
        crawl_config={"js_required": True} if n % 9 == 4 else {},
        labels={"team": chance.choice(["fashion", "media"])} if n % 3 == 0 else {},
        max_retries=0 if n % 7 == 5 else 2,
    )


async def _a_day(
    opilio: Opilio,
    http: AsyncClient,
    tokens: dict[str, str],
    ids: list[Any],
    chance: random.Random,
    *,
    age: bool,
) -> None:
    for policy_id in ids:
        await opilio.operator_actions.run_now(policy_id, "scheduler")
    for bot_id in ("hanoi-1", "hanoi-2"):
        while jobs := await pull(http, bot_id, tokens[bot_id], 20):
            await submit(http, bot_id, tokens[bot_id], [_outcome(job, chance) for job in jobs])
    if not age:
        return
    newest = await opilio.database.value(_NEWEST)
    await opilio.database.execute(_AGE, days=1, newest=newest)


async def _now(opilio: Opilio, http: AsyncClient, tokens: dict[str, str], ids: list[Any]) -> None:
    """Some run, some wait, one host wants to be left alone."""
    for policy_id in ids:
        await opilio.operator_actions.run_now(policy_id, "scheduler")
    held = await pull(http, "hanoi-1", tokens["hanoi-1"], 9)
    await pull(http, "hanoi-2", tokens["hanoi-2"], 4)
    tired = next(job for job in held if "toys.example" in job["url"])
    await submit(
        http,
        "hanoi-1",
        tokens["hanoi-1"],
        [
            {
                "job_id": tired["job_id"],
                "lock_token": tired["lock_token"],
                "success": False,
                "error_code": "RATE_LIMITED",
                "error_msg": "429 Too Many Requests",
                "retry_after": 480,
            }
        ],
    )


def _outcome(job: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    base = {
        "job_id": job["job_id"],
        "lock_token": job["lock_token"],
        "crawl_duration": round(chance.uniform(0.2, 7), 2),
    }
    if chance.random() < 0.1:
        return base | {
            "success": False,
            "error_code": "TIMEOUT",
            "error_msg": "the page did not answer within 30 s",
        }
    number = int(job["url"].rsplit("/", 1)[1][:4])
    vnd = "vinmart" in job["url"]
    price = (
        (89_000 + number * 1_000 + chance.randrange(-3, 4) * 1_000)
        if vnd
        else 40 + number + chance.randrange(-300, 300) / 100
    )
    return base | {
        "success": True,
        "price": price,
        "currency": "VND" if vnd else "EUR",
        "title": GOODS[number % 6],
        "in_stock": chance.random() > 0.2,
        "data": {"rating": chance.choice([4.1, 4.4, 4.6]), "sku": str(10**18 + number)},
        "raw_html": f"<h1>{GOODS[number % 6]}</h1><p class='price'>{price}</p><script>alert(1)</script>",
    }


async def pull(http: AsyncClient, bot_id: str, token: str, most: int) -> list[dict[str, Any]]:
    body = {"bot_id": bot_id, "max_jobs": most, "capabilities": ["http"]}
    answer = await http.post("/api/crawl/pull/", json=body, headers={"authorization": f"Bearer {token}"})
    return list(answer.json()["data"]["jobs"])


async def submit(http: AsyncClient, bot_id: str, token: str, results: list[dict[str, Any]]) -> None:
    body = {"bot_id": bot_id, "results": results}
    answer = await http.post(
        "/api/crawl/submit/batch/", json=body, headers={"authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 200, answer.text
