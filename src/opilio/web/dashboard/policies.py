"""Policies: the list, and the page of one."""

from decimal import Decimal
from typing import Any

from opilio.contracts.policies import PolicyPatch
from opilio.crawl.priority import QUEUES, History, Score, score
from opilio.errors import NotFound
from opilio.insights.dashboard import PolicyFilter
from opilio.web.dashboard.commands import as_commands
from opilio.web.dashboard.page import Page, Site, Visit, go

POLICIES = Site()
SORTS = ("newest", "next", "priority", "failures", "url")
_SIZE = 50
_OPTIONS = {"enabled": "--enabled/--disabled", "host": "--host", "q": "--search"}


def policy_filter(visit: Visit) -> PolicyFilter:
    """What the address says is shown, counted and touched by bulk actions alike."""
    key, _, value = (visit.arg("label") or "").partition("=")
    queue = visit.arg("queue")
    return PolicyFilter(
        enabled=visit.flag("enabled"),
        host=(visit.arg("host") or "").lower() or None,
        q=visit.arg("q"),
        queue=queue if queue in QUEUES else None,
        is_hot=visit.flag("hot"),
        failing=visit.flag("failing"),
        due=visit.flag("due"),
        label_key=key or None,
        label_value=value if key else None,
    )


@POLICIES.page("/policies")
async def list_policies(visit: Visit) -> Page:
    sort = visit.arg("sort") or "newest"
    number = visit.page_number()
    rows = await visit.opilio.figures.policies(
        policy_filter(visit), sort=sort if sort in SORTS else "newest", page=number, size=_SIZE
    )
    shown = rows[:_SIZE]
    say = visit.words.say
    return Page(
        "policies.html",
        say("Policies"),
        {
            "rows": shown,
            "more": len(rows) > _SIZE,
            "number": number,
            "saved": await visit.opilio.views.all("policies"),
            "system": [
                ("", say("All")),
                ("failing=yes&sort=failures", say("Failing now")),
                ("due=yes&sort=next", say("Due now")),
                ("enabled=no", say("Switched off")),
                ("hot=yes&sort=priority", say("Hot")),
            ],
            "now": (await visit.app.live.pulse()).at,
        },
        rows=shown,
        watch="policies=" + ",".join(str(row["id"]) for row in shown),
        commands=as_commands(visit, "opilio policies list", "/policies", _OPTIONS),
    )


@POLICIES.page("/policies/{id:str}")
async def one_policy(visit: Visit) -> Page:
    opilio = visit.opilio
    policy = await opilio.insights.policy(visit.id())
    fields = await opilio.figures.fields(policy.id)
    why = await opilio.insights.policy_why(policy.id)
    runs = await opilio.insights.jobs(policy_id=policy.id, limit=20)
    changes = await opilio.insights.history(policy.id, limit=30)
    last = await opilio.figures.last_values(policy.id)
    rated = rate(visit, policy)
    return Page(
        "policy.html",
        policy.url,
        {
            "policy": policy,
            "why": why,
            "runs": runs.items,
            "changes": changes.items,
            "last": last,
            "rated": rated,
            "reasons": reasons_in_words(visit, rated),
            "charts": [field for field in ("price", "in_stock") if field in fields] + _numbers(fields, last),
        },
        data={"policy": policy, "why": why, "runs": runs.items, "changes": changes.items},
        charts=True,
        watch=f"policies={policy.id}",
    )


def _numbers(fields: list[str], last: Any) -> list[str]:
    """The extra values that are numbers: an article number that is text has no curve."""
    found = (last and last["last_data"]) or {}
    return [field for field in fields if _is_plain(found.get(field.removeprefix("data.")))][:4]


@POLICIES.page("/policies/{id:str}/values")
async def values(visit: Visit) -> Page:
    """The history of one value, for its chart."""
    rows = await visit.opilio.figures.values(visit.id(), visit.arg("field") or "price")
    return Page("refused.html", "", rows=[row for row in rows if _is_plain(row["value"])])


def _is_plain(value: Any) -> bool:
    """What can stand on an axis."""
    return isinstance(value, int | float | Decimal)


@POLICIES.action("/policies/{id:str}/run")
async def run_policy(visit: Visit) -> Any:
    policy = await visit.opilio.insights.policy(visit.id())
    job_id = await run_now(visit, policy)
    return go(f"/jobs/{job_id}", visit.words.say("The job waits for a bot."))


async def run_now(visit: Visit, policy: Any) -> Any:
    job_id = await visit.opilio.scheduling.run_now(policy.id, rate(visit, policy).priority, visit.actor)
    if job_id is None:
        raise NotFound(f"there is no policy {policy.id}")
    visit.app.desk.work_appeared()
    await visit.note("policy.run", str(policy.id))
    return job_id


@POLICIES.action("/policies/{id:str}/switch")
async def switch_policy(visit: Visit) -> Any:
    enabled = visit.said("enabled") == "yes"
    await visit.opilio.policies.change(visit.id(), PolicyPatch(enabled=enabled))
    visit.app.desk.work_appeared()
    await visit.note("policy.change", str(visit.id()), {"enabled": enabled})
    return go(
        f"/policies/{visit.id()}",
        visit.words.say("Switched on.") if enabled else visit.words.say("Switched off."),
    )


@POLICIES.action("/policies/{id:str}/delete")
async def delete_policy(visit: Visit) -> Any:
    if not await visit.opilio.policies.delete([visit.id()]):
        raise NotFound(f"there is no policy {visit.id()}")
    await visit.note("policy.delete", str(visit.id()))
    return go("/policies", visit.words.say("Deleted; its results stay."))


def rate(visit: Visit, policy: Any, overdue: float = 0.0) -> Score:
    """The priority that the rule engine gives, and why; the same rules as the scheduler's."""
    history = History(policy.priority, overdue, getattr(policy, "error_rate", 0.0), policy.hot)
    return score(history, visit.opilio.settings.rule_table)


def reasons_in_words(visit: Visit, rated: Score) -> list[tuple[str, int]]:
    say = visit.words.say
    names = {
        "importance": say("base priority"),
        "overdue": say("overdue"),
        "error_rate": say("past errors"),
        "hot": say("hot"),
    }
    return [(names[name], points) for name, points in rated.reasons if points or name == "importance"]
