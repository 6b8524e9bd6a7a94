"""The command palette: from a few letters to a page, a policy, a host, a bot or a job."""

from urllib.parse import quote
from uuid import UUID

from opilio.errors import NotFound
from opilio.insights.dashboard import PolicyFilter
from opilio.web.dashboard.page import Page, PageRequest, Section

PALETTE = Section()
_MOST = 6
_TEXT = 80
PaletteItem = tuple[str, str, str]


@PALETTE.page("/palette", as_data=False)
async def palette(request: PageRequest) -> Page:
    wanted = request.query("q") or ""
    found = [item for item in _pages(request) if wanted.lower() in item[0].lower()]
    if wanted:
        found += await _things(request, wanted)
    return Page("parts/palette.html", "", {"items": found[:30], "wanted": wanted})


def _pages(request: PageRequest) -> list[PaletteItem]:
    """Name, address, kind."""
    gettext = request.locale.gettext
    page, command = gettext("page"), gettext("command")
    items = [
        (gettext("Dark theme"), "cookie:opilio_theme=dark", command),
        (gettext("Light theme"), "cookie:opilio_theme=light", command),
        ("Tiếng Việt", "cookie:opilio_lang=vi", command),
        ("English", "cookie:opilio_lang=en", command),
        (gettext("Account"), "/account", page),
        (gettext("Expired"), "/jobs?status=expired", page),
        (gettext("Export prices"), "/prices/export", command),
        (gettext("Overview"), "/", page),
        (gettext("Price changes"), "/prices", page),
        (gettext("Alerts"), "/alerts", page),
        (gettext("Policies"), "/policies", page),
        (gettext("Failing"), "/policies?failing=yes&sort=failures", page),
        (gettext("Jobs"), "/jobs", page),
        (gettext("Running"), "/jobs?status=locked", page),
        (gettext("Failed jobs"), "/jobs?status=failed", page),
        (gettext("Results"), "/results", page),
        (gettext("Bots"), "/bots", page),
        (gettext("Hosts"), "/hosts", page),
        (gettext("Projects"), "/projects", page),
        (gettext("Projects in progress"), "/projects?status=PROCESSING", page),
        (gettext("Analytics"), "/analytics", page),
        (gettext("Webhooks"), "/webhooks", page),
        (gettext("Events"), "/events", page),
        (gettext("Dead letters"), "/dlq", page),
        ("API", "/reference", page),
    ]
    if request.can("write"):
        items += [
            (gettext("New policy"), "/policies/new", command),
            (gettext("Import a list"), "/policies/import", command),
            (gettext("New alert"), "/alerts#alert-form", command),
            (gettext("New project"), "/projects/new", command),
        ]
    if request.can("admin"):
        items += [
            (gettext("Connect a bot"), "/bots#connect", command),
            (gettext("Settings"), "/settings", page),
            (gettext("Operators"), "/settings", page),
            (gettext("API keys"), "/settings", page),
            (gettext("Audit log"), "/settings/audit", page),
        ]
    return items


async def _things(request: PageRequest, wanted: str) -> list[PaletteItem]:
    gettext, figures = request.locale.gettext, request.opilio.figures
    found = await _by_id(request, wanted)
    policies = await figures.policies(PolicyFilter(q=wanted), sort="newest", page=1, size=_MOST)
    found += [
        (row["last_title"] or row["url"], f"/policies/{row['id']}", gettext("policy"))
        for row in policies[:_MOST]
    ]
    hosts = await figures.hosts(q=wanted, cooling=None, page=1, size=_MOST)
    found += [(row["host"], f"/hosts/{quote(row['host'])}", gettext("host")) for row in hosts[:_MOST]]
    bots = await request.opilio.insights.bots(limit=200)
    matching = [bot.bot_id for bot in bots.items if wanted.lower() in bot.bot_id.lower()]
    found += [(bot, f"/bots/{quote(bot)}", gettext("bot")) for bot in matching[:_MOST]]
    found += await _webhooks(request, wanted)
    found += await _errors(request, wanted)
    projects = await request.opilio.project_insights.projects(limit=_MOST, q=wanted)
    found += [
        (project.brand_name or project.project_id, f"/projects/{project.project_id}", gettext("project"))
        for project in projects.items
    ]
    found += [
        (project.brand_name or project.project_id, f"/analytics/{project.project_id}", gettext("Analytics"))
        for project in projects.items
    ]
    found += await _posts(request, wanted)
    views = await request.opilio.views.all()
    found += [
        (view["name"], f"/{view['page']}?{view['query']}", gettext("view"))
        for view in views
        if wanted.lower() in view["name"].lower()
    ]
    return found


async def _posts(request: PageRequest, wanted: str) -> list[PaletteItem]:
    """Posts by their words or author; each opens its project's posts with the same search."""
    rows = await request.opilio.analytics.posts_like(wanted, most=_MOST)
    return [
        (
            f"{row['author'] or row['project_id']}: {row['content_text'][:_TEXT]}",
            f"/analytics/{quote(row['project_id'])}?q={quote(wanted)}#posts",
            request.locale.gettext("post"),
        )
        for row in rows
    ]


async def _webhooks(request: PageRequest, wanted: str) -> list[PaletteItem]:
    found = await request.opilio.webhooks.page(limit=200)
    return [
        (hook.url, f"/webhooks/{hook.id}", request.locale.gettext("webhook"))
        for hook in found.items
        if wanted.lower() in f"{hook.url} {hook.description}".lower()
    ][:_MOST]


async def _errors(request: PageRequest, wanted: str) -> list[PaletteItem]:
    """Error codes that bots reported lately, and jobs by the URL that they crawl."""
    gettext = request.locale.gettext
    status = await request.app.live.system_status()
    found = [
        (code, f"/jobs?status=failed&error={quote(code)}", gettext("error"))
        for code in status.error_codes
        if wanted.lower() in code.lower()
    ]
    return [
        *found,
        (gettext("Jobs with “%(wanted)s”", wanted=wanted), f"/jobs?q={quote(wanted)}", gettext("search")),
        (
            gettext("Results with “%(wanted)s”", wanted=wanted),
            f"/results?q={quote(wanted)}",
            gettext("search"),
        ),
    ]


async def _by_id(request: PageRequest, wanted: str) -> list[PaletteItem]:
    """An id that somebody pasted: a job or a policy."""
    try:
        thing = UUID(wanted)
    except ValueError:
        return []
    found: list[PaletteItem] = []
    for ask, path, kind in (
        (request.opilio.insights.job, "jobs", request.locale.gettext("job")),
        (request.opilio.insights.policy, "policies", request.locale.gettext("policy")),
    ):
        try:
            await ask(thing)
        except NotFound:
            continue
        found.append((wanted, f"/{path}/{thing}", kind))
    return found
