"""The command palette: from a few letters to a page, a policy, a host, a bot or a job."""

from uuid import UUID

from opilio.errors import NotFound
from opilio.insights.dashboard import PolicyFilter
from opilio.web.dashboard.page import Page, Site, Visit

PALETTE = Site()
_MOST = 6
Entry = tuple[str, str, str]


@PALETTE.page("/palette", twins=False)
async def palette(visit: Visit) -> Page:
    wanted = visit.arg("q") or ""
    found = [entry for entry in _pages(visit) if wanted.lower() in entry[0].lower()]
    if wanted:
        found += await _things(visit, wanted)
    return Page("parts/palette.html", "", {"entries": found[:30], "wanted": wanted})


def _pages(visit: Visit) -> list[Entry]:
    """Name, address, kind."""
    say = visit.words.say
    page, command = say("page"), say("command")
    entries = [
        (say("Overview"), "/", page),
        (say("Policies"), "/policies", page),
        (say("Failing now"), "/policies?failing=yes&sort=failures", page),
        (say("Jobs"), "/jobs", page),
        (say("Running now"), "/jobs?status=locked", page),
        (say("Results"), "/results", page),
        (say("Bots"), "/bots", page),
        (say("Hosts"), "/hosts", page),
        (say("Projects"), "/projects", page),
        (say("Projects in progress"), "/projects?status=PROCESSING", page),
        (say("Analytics"), "/analytics", page),
        (say("Webhooks"), "/webhooks", page),
        (say("Events"), "/events", page),
        (say("Dead letters"), "/dlq", page),
        ("API", "/schema", page),
    ]
    if visit.can("write"):
        entries += [
            (say("New policy"), "/policies/new", command),
            (say("Import a list"), "/policies/import", command),
            (say("New project"), "/projects/new", command),
        ]
    if visit.can("admin"):
        entries += [
            (say("Connect a bot"), "/bots#connect", command),
            (say("Settings"), "/settings", page),
            (say("Who did what"), "/settings/audit", page),
        ]
    return entries


async def _things(visit: Visit, wanted: str) -> list[Entry]:
    say, figures = visit.words.say, visit.opilio.figures
    found = await _by_id(visit, wanted)
    policies = await figures.policies(PolicyFilter(q=wanted), sort="newest", page=1, size=_MOST)
    found += [(row["url"], f"/policies/{row['id']}", say("policy")) for row in policies[:_MOST]]
    hosts = await figures.hosts(q=wanted, cooling=None, page=1, size=_MOST)
    found += [(row["host"], f"/hosts?q={row['host']}", say("host")) for row in hosts[:_MOST]]
    bots = await visit.opilio.insights.bots(limit=200)
    matching = [bot.bot_id for bot in bots.items if wanted.lower() in bot.bot_id.lower()]
    found += [(bot, f"/jobs?bot_id={bot}", say("bot")) for bot in matching[:_MOST]]
    projects = await visit.opilio.project_insights.projects(limit=_MOST, q=wanted)
    found += [
        (project.brand_name or project.project_id, f"/projects/{project.project_id}", say("project"))
        for project in projects.items
    ]
    found += [
        (project.brand_name or project.project_id, f"/analytics/{project.project_id}", say("Analytics"))
        for project in projects.items
    ]
    views = await visit.opilio.views.all()
    found += [
        (view["name"], f"/{view['page']}?{view['query']}", say("view"))
        for view in views
        if wanted.lower() in view["name"].lower()
    ]
    return found


async def _by_id(visit: Visit, wanted: str) -> list[Entry]:
    """An id that somebody pasted: a job or a policy."""
    try:
        thing = UUID(wanted)
    except ValueError:
        return []
    found: list[Entry] = []
    for ask, path, kind in (
        (visit.opilio.insights.job, "jobs", visit.words.say("job")),
        (visit.opilio.insights.policy, "policies", visit.words.say("policy")),
    ):
        try:
            await ask(thing)
        except NotFound:
            continue
        found.append((wanted, f"/{path}/{thing}", kind))
    return found
