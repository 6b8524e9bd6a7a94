"""What is wrong, in words: the worst first, each with the one thing that helps."""

from dataclasses import dataclass
from datetime import timedelta

from opilio.insights.dashboard import Pulse
from opilio.web.dashboard.i18n import Words

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


def problems(pulse: Pulse, words: Words) -> list[Problem]:
    """Everything that needs a person, what stops work first."""
    found = [
        *_no_bot(pulse, words),
        *_scheduler(pulse, words),
        *_sweeper(pulse, words),
        *_delivery(pulse, words),
        *_failures(pulse, words),
        *_webhooks(pulse, words),
        *_cooling(pulse, words),
    ]
    return sorted(found, key=lambda problem: not problem.bad)


def _no_bot(pulse: Pulse, words: Words) -> list[Problem]:
    found = []
    for queue in pulse.queues:
        if not queue.waiting or (queue.bot_seen_at and queue.bot_seen_at > pulse.at - _GONE):
            continue
        jobs = words.counted("%(n)s job waits", "%(n)s jobs wait", queue.waiting)
        if queue.bot_seen_at is None:
            text = words.say("No bot with %(queue)s was ever seen: %(jobs)s", queue=queue.queue, jobs=jobs)
        else:
            since = words.since(queue.bot_seen_at, pulse.at)
            text = words.say(
                "No bot with %(queue)s for %(since)s: %(jobs)s", queue=queue.queue, since=since, jobs=jobs
            )
        detail = words.say("Bots say what they can do when they pull. Start one that can do this.")
        found.append(Problem(True, text, detail, words.say("Connect a bot"), "/bots#connect"))
    return found


def _scheduler(pulse: Pulse, words: Words) -> list[Problem]:
    if pulse.oldest_due < _LATE:
        return []
    due = words.counted(
        "%(n)s policy is due but not started", "%(n)s policies are due but not started", pulse.due
    )
    text = words.say("%(due)s, the oldest for %(since)s", due=due, since=words.span(pulse.oldest_due))
    detail = words.say("The scheduler seems not to run: opilio up and opilio run scheduler start it.")
    return [Problem(True, text, detail, words.say("Show them"), "/policies?due=yes&sort=next")]


def _sweeper(pulse: Pulse, words: Words) -> list[Problem]:
    if not pulse.overrun:
        return []
    text = words.counted(
        "%(n)s lock ran out and nobody took it back",
        "%(n)s locks ran out and nobody took them back",
        pulse.overrun,
    )
    detail = words.say("The scheduler seems not to run: opilio up and opilio run scheduler start it.")
    return [Problem(True, text, detail, words.say("Show them"), "/jobs?status=locked")]


def _delivery(pulse: Pulse, words: Words) -> list[Problem]:
    if pulse.oldest_outbox < _LATE:
        return []
    events = words.counted("%(n)s event waits to go out", "%(n)s events wait to go out", pulse.outbox)
    text = words.say(
        "%(events)s, the oldest for %(since)s", events=events, since=words.span(pulse.oldest_outbox)
    )
    detail = words.say("Delivery seems not to run: opilio up and opilio run delivery start it.")
    return [Problem(False, text, detail, words.say("Show them"), "/events")]


def _failures(pulse: Pulse, words: Words) -> list[Problem]:
    hour = pulse.hour
    lost = hour.failed + hour.expired
    if hour.ended < _ENOUGH_TO_JUDGE or lost / hour.ended < _BAD_SHARE:
        return []
    text = words.say("%(share)s of crawls failed in the last hour", share=words.percent(lost / hour.ended))
    most = ", ".join(f"{code} ({words.number(n)})" for code, n in list(pulse.error_codes.items())[:3])
    detail = words.say("Most frequent: %(codes)s", codes=most) if most else ""
    return [Problem(True, text, detail, words.say("Show them"), "/jobs?status=failed")]


def _webhooks(pulse: Pulse, words: Words) -> list[Problem]:
    found = []
    for hook in pulse.troubled_webhooks:
        if hook.status == "disabled":
            text = words.say("The webhook to %(url)s was switched off", url=hook.url)
        else:
            since = words.since(hook.failing_since, pulse.at) if hook.failing_since else ""
            text = words.say("The webhook to %(url)s fails since %(since)s", url=hook.url, since=since)
        found.append(
            Problem(
                False, text, hook.status_reason or "", words.say("Show it"), f"/webhooks/{hook.endpoint_id}"
            )
        )
    return found


def _cooling(pulse: Pulse, words: Words) -> list[Problem]:
    found = []
    for host in pulse.cooling:
        if not host.waiting:
            continue
        jobs = words.counted("%(n)s job waits", "%(n)s jobs wait", host.waiting)
        left = words.span(host.cooling_until - pulse.at)
        text = words.say(
            "%(host)s is left alone for another %(left)s: %(jobs)s", host=host.host, left=left, jobs=jobs
        )
        found.append(
            Problem(False, text, host.cooling_reason or "", words.say("Show it"), f"/hosts?q={host.host}")
        )
    return found
