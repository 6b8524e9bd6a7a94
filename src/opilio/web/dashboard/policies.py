"""Policies: the list, and the page of one."""

from decimal import Decimal
from typing import Any

from opilio.contracts.policies import PolicyPatch
from opilio.crawl.priority import QUEUES, History, Score, score
from opilio.errors import NotFound
from opilio.insights.dashboard import PolicyFilter
from opilio.web.dashboard.commands import as_commands
from opilio.web.dashboard.page import MAX_PAGE, Found, Page, PageRequest, Section, redirect

POLICIES = Section()
SORTS = ("newest", "next", "priority", "failures", "url", "price")
_SIZE = 50
_OPTIONS = {"enabled": "--enabled/--disabled", "host": "--host", "q": "--search"}


def policy_filter(request: PageRequest) -> PolicyFilter:
    """The filter of the address, used by the list, its count and bulk actions alike."""
    key, _, value = (request.query("label") or "").partition("=")
    queue = request.query("queue")
    return PolicyFilter(
        enabled=request.flag("enabled"),
        host=(request.query("host") or "").lower() or None,
        q=request.query("q"),
        queue=queue if queue in QUEUES else None,
        is_hot=request.flag("hot"),
        failing=request.flag("failing"),
        due=request.flag("due"),
        label_key=key or None,
        label_value=value if key else None,
    )


@POLICIES.page("/policies")
async def list_policies(request: PageRequest) -> Page:
    sort, reverse = request.sort(SORTS)
    number, chosen = (
        request.page_number(),
        await request.opilio.figures.search_policies(policy_filter(request)),
    )
    rows = await request.opilio.figures.policies(chosen, sort=sort, reverse=reverse, page=number, size=_SIZE)
    found = Found(rows[:_SIZE], more=len(rows) > _SIZE)
    shown = found.items
    now = await request.app.live.now()
    gettext = request.locale.gettext
    return Page(
        "policies.html",
        gettext("Policies"),
        {
            "rows": shown,
            "more": found.more and number < MAX_PAGE,
            "number": number,
            "total": await found.total(request, lambda: request.opilio.sorted_lists.count_policies(chosen)),
            "saved": await request.opilio.views.all("policies"),
            "system": [
                ("", gettext("All")),
                ("failing=yes&sort=failures", gettext("Failing")),
                ("due=yes&sort=next", gettext("Due now")),
                ("enabled=no", gettext("Disabled")),
                ("hot=yes&sort=priority", gettext("Hot")),
            ],
            "now": now,
            "trends": await request.opilio.prices.trends([row["id"] for row in shown], now),
        },
        rows=shown,
        watch="policies=" + ",".join(str(row["id"]) for row in shown),
        commands=as_commands(request, "opilio policies list", "/policies", _OPTIONS),
    )


@POLICIES.page("/policies/{id:str}")
async def one_policy(request: PageRequest) -> Page:
    opilio = request.opilio
    watch = await request.watch(policies=[request.id()])
    policy = await opilio.insights.policy(request.id())
    fields = await opilio.figures.fields(policy.id)
    why = await opilio.insights.policy_why(policy.id)
    runs = await opilio.insights.jobs(policy_id=policy.id, limit=20)
    changes = await opilio.insights.history(policy.id, limit=30)
    last = await opilio.figures.last_values(policy.id)
    rated = rate(request, policy)
    now = await request.app.live.now()
    trends = await opilio.prices.trends([policy.id], now)
    title = last["last_title"] if last else None
    learnt = await opilio.recrawl.policy(policy.id)
    return Page(
        "policy.html",
        title or policy.url,
        {
            "policy": policy,
            "learnt": learnt,
            "why": why,
            "runs": runs.items,
            "changes": changes.items,
            "last": last,
            "rated": rated,
            "reasons": reasons_in_words(request, rated),
            "trend": trends[policy.id],
            "charts": [field for field in ("price", "in_stock") if field in fields] + _numbers(fields, last),
        },
        data={
            "policy": policy,
            "recrawl": learnt,
            "why": why.as_answer(),
            "runs": runs.items,
            "changes": changes.items,
        },
        charts=True,
        watch=watch,
    )


def _numbers(fields: list[str], last: Any) -> list[str]:
    """The extra values that are numbers: text has no curve."""
    found = (last and last["last_data"]) or {}
    return [field for field in fields if _is_plain(found.get(field.removeprefix("data.")))][:4]


@POLICIES.page("/policies/{id:str}/values")
async def values(request: PageRequest) -> Page:
    """The history of one value, for its chart."""
    rows = await request.opilio.figures.values(request.id(), request.query("field") or "price")
    return Page(None, "", rows=[row for row in rows if _is_plain(row["value"])])


@POLICIES.page("/policies/{id:str}/history")
async def price_history(request: PageRequest) -> Page:
    """Prices with what explains them: times without stock, and crawls that failed."""
    prices = await request.opilio.figures.values(request.id(), "price")
    data = {
        "prices": [row for row in prices if _is_plain(row["value"])],
        "stock": await request.opilio.prices.stock(request.id()),
        "failures": await request.opilio.prices.failures(request.id()),
    }
    return Page(None, "", data=data, rows=data["prices"])


def _is_plain(value: Any) -> bool:
    """Whether a value can be plotted."""
    return isinstance(value, int | float | Decimal)


@POLICIES.action("/policies/{id:str}/run")
async def run_policy(request: PageRequest) -> Any:
    job_id = await request.opilio.operator_actions.run_now(request.id(), request.actor)
    return redirect(f"/jobs/{job_id}", request.locale.gettext("The job is ready. It waits for a bot."))


@POLICIES.action("/policies/{id:str}/switch")
async def switch_policy(request: PageRequest) -> Any:
    enabled = request.field("enabled") == "yes"
    await request.opilio.policies.change(request.id(), PolicyPatch(enabled=enabled), request.actor)
    return redirect(
        f"/policies/{request.id()}",
        request.locale.gettext("Enabled.") if enabled else request.locale.gettext("Disabled."),
    )


@POLICIES.action("/policies/{id:str}/delete")
async def delete_policy(request: PageRequest) -> Any:
    if not await request.opilio.policies.delete([request.id()], request.actor):
        raise NotFound("there is no policy %(id)s", id=request.id())
    return redirect("/policies", request.locale.gettext("Policy deleted. Its results are kept."))


def rate(request: PageRequest, policy: Any, overdue: float = 0.0) -> Score:
    """The priority that the rule engine gives, and why; the same rules as the scheduler's."""
    history = History(policy.priority, overdue, getattr(policy, "error_rate", 0.0), policy.hot)
    return score(history, request.opilio.settings.rule_table)


def reasons_in_words(request: PageRequest, rated: Score) -> list[tuple[str, int]]:
    gettext = request.locale.gettext
    names = {
        "importance": gettext("base priority"),
        "overdue": gettext("overdue"),
        "error_rate": gettext("error rate"),
        "hot": gettext("hot"),
    }
    return [(names[name], points) for name, points in rated.reasons if points or name == "importance"]
