"""Current problems, the worst first, each with what to do."""

from dataclasses import dataclass
from datetime import timedelta

from opilio.insights.dashboard import SystemStatus
from opilio.web.dashboard.i18n import Locale

_GONE = timedelta(minutes=2)
_LATE = 60.0
_ENOUGH_TO_JUDGE = 20
_BAD_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Problem:
    bad: bool
    text: str
    detail: str
    action: str
    href: str


def problems(system_status: SystemStatus, locale: Locale) -> list[Problem]:
    """Everything that needs a person, what stops work first."""
    found = [
        *_no_bot(system_status, locale),
        *_scheduler(system_status, locale),
        *_sweeper(system_status, locale),
        *_delivery(system_status, locale),
        *_failures(system_status, locale),
        *_webhooks(system_status, locale),
        *_cooling(system_status, locale),
    ]
    return sorted(found, key=lambda problem: not problem.bad)


def _no_bot(system_status: SystemStatus, locale: Locale) -> list[Problem]:
    found = []
    for queue in system_status.queues:
        if not queue.waiting or (queue.bot_seen_at and queue.bot_seen_at > system_status.at - _GONE):
            continue
        jobs = locale.ngettext("%(n)s job waiting", "%(n)s jobs waiting", queue.waiting)
        if queue.bot_seen_at is None:
            text = locale.gettext(
                "No %(queue)s bot has connected yet: %(jobs)s", queue=queue.queue, jobs=jobs
            )
        else:
            since = locale.since(queue.bot_seen_at, system_status.at)
            text = locale.gettext(
                "No %(queue)s bot for %(since)s: %(jobs)s", queue=queue.queue, since=since, jobs=jobs
            )
        detail = locale.gettext("Start a bot with this capability.")
        found.append(Problem(True, text, detail, locale.gettext("Connect a bot"), "/bots#connect"))
    return found


def _scheduler(system_status: SystemStatus, locale: Locale) -> list[Problem]:
    if system_status.oldest_due < _LATE:
        return []
    due = locale.ngettext("%(n)s policy is overdue", "%(n)s policies are overdue", system_status.due)
    text = locale.gettext(
        "%(due)s, oldest %(since)s ago", due=due, since=locale.span(system_status.oldest_due)
    )
    detail = locale.gettext("The scheduler is not running. Start it with “opilio run scheduler”.")
    return [Problem(True, text, detail, locale.gettext("View"), "/policies?due=yes&sort=next")]


def _sweeper(system_status: SystemStatus, locale: Locale) -> list[Problem]:
    if not system_status.overrun:
        return []
    text = locale.ngettext(
        "%(n)s expired lock was not released",
        "%(n)s expired locks were not released",
        system_status.overrun,
    )
    detail = locale.gettext("The scheduler is not running. Start it with “opilio run scheduler”.")
    return [Problem(True, text, detail, locale.gettext("View"), "/jobs?status=locked")]


def _delivery(system_status: SystemStatus, locale: Locale) -> list[Problem]:
    if system_status.oldest_outbox < _LATE:
        return []
    events = locale.ngettext(
        "%(n)s event not yet delivered", "%(n)s events not yet delivered", system_status.outbox
    )
    text = locale.gettext(
        "%(events)s, oldest %(since)s ago", events=events, since=locale.span(system_status.oldest_outbox)
    )
    detail = locale.gettext("Delivery is not running. Start it with “opilio run delivery”.")
    return [Problem(False, text, detail, locale.gettext("View"), "/events")]


def _failures(system_status: SystemStatus, locale: Locale) -> list[Problem]:
    hour = system_status.hour
    lost = hour.failed + hour.expired
    if hour.ended < _ENOUGH_TO_JUDGE or lost / hour.ended < _BAD_SHARE:
        return []
    text = locale.gettext(
        "%(share)s of crawls failed in the last hour", share=locale.percent(lost / hour.ended)
    )
    most = ", ".join(
        f"{code} ({locale.number(n)})" for code, n in list(system_status.error_codes.items())[:3]
    )
    detail = locale.gettext("Most frequent: %(codes)s", codes=most) if most else ""
    return [Problem(True, text, detail, locale.gettext("View"), "/jobs?status=failed")]


def _webhooks(system_status: SystemStatus, locale: Locale) -> list[Problem]:
    found = []
    for hook in system_status.troubled_webhooks:
        if hook.status == "disabled":
            text = locale.gettext("Webhook %(url)s is disabled", url=hook.url)
        else:
            since = locale.since(hook.failing_since, system_status.at) if hook.failing_since else ""
            text = locale.gettext("Webhook %(url)s has been failing for %(since)s", url=hook.url, since=since)
        found.append(
            Problem(
                False,
                text,
                hook.status_reason or "",
                locale.gettext("View"),
                f"/webhooks/{hook.endpoint_id}",
            )
        )
    return found


def _cooling(system_status: SystemStatus, locale: Locale) -> list[Problem]:
    found = []
    for host in system_status.cooling:
        if not host.waiting:
            continue
        jobs = locale.ngettext("%(n)s job waiting", "%(n)s jobs waiting", host.waiting)
        left = locale.span(host.cooling_until - system_status.at)
        text = locale.gettext(
            "%(host)s is cooling down for another %(left)s: %(jobs)s", host=host.host, left=left, jobs=jobs
        )
        found.append(
            Problem(False, text, host.cooling_reason or "", locale.gettext("View"), f"/hosts?q={host.host}")
        )
    return found
