"""Docs that cannot rot: what they list is compared with the code."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from opilio.cli.app import app
from opilio.contracts.envelope import STATUS_OF
from opilio.crawl.priority import Rules
from opilio.runtime.setting_forms import parse_rules
from opilio.runtime.settings import SETTINGS

DOCS = Path(__file__).parents[1] / "docs"


def test_every_error_code_is_documented_with_its_status() -> None:
    listed: dict[str, int] = {}
    for codes, status in re.findall(
        r"^\| (`[^|]+`) \| (\d+) \|", (DOCS / "reference/http.md").read_text(), re.MULTILINE
    ):
        listed |= dict.fromkeys(re.findall(r"`(\w+)`", codes), int(status))
    assert listed == STATUS_OF


ROOT = DOCS.parent
PAGES = [
    *DOCS.rglob("*.md"),
    *ROOT.glob("*.md"),
    *(ROOT / "deploy").rglob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
]
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)")


def anchors(page: Path) -> set[str]:
    """The ids that the site and code hosts give to headings, and those written by hand."""
    text = page.read_text()
    found: set[str] = set(re.findall(r'(?:\bid="|\{ ?#)([\w-]+)', text))
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain).strip()))
    return found


def broken_link(page: Path, link: str) -> str:
    """Why a link leads nowhere; empty if it leads somewhere."""
    target, _, anchor = link.partition("#")
    file = (page.parent / target).resolve() if target else page
    if not file.exists():
        return "no such file"
    if DOCS in page.parents and DOCS not in file.parents:
        return "outside of the site"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return "no such heading"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = _LINK.findall(_FENCE.sub("", page.read_text()))
    inside = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert {link: fault for link in inside if (fault := broken_link(page, link))} == {}


def test_a_broken_link_is_seen() -> None:
    page = DOCS / "how-to/install.md"
    assert broken_link(page, "../tutorial.md#1-start-it") == ""
    assert broken_link(page, "../tutorial.md#1-begin") == "no such heading"
    assert broken_link(page, "../tutoria.md") == "no such file"
    assert broken_link(page, "../../README.md") == "outside of the site"


def test_every_page_of_the_dashboard_is_in_its_guide() -> None:
    guide = (DOCS / "how-to/use-the-dashboard.md").read_text()
    listed = re.findall(r"^\| [^|]+ \| `(/[a-z]*)` \|", guide, re.MULTILINE)
    layout = (DOCS.parent / "src/opilio/web/templates/layout.html").read_text()
    in_menus = re.findall(r'(?:ui\.nav\("|class="dropdown-item" href=")(/[a-z]*)"', layout)
    assert listed == in_menus


def test_the_files_that_the_architecture_walks_through_exist() -> None:
    page = (DOCS / "explanation/architecture.md").read_text()
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page)
    assert "crawl/submit.py" in named
    assert "collector/intake.py" in named
    missing = [path for path in named if not (DOCS.parent / "src/opilio" / path).exists()]
    assert missing == []


def test_the_files_that_contributing_names_exist() -> None:
    root = DOCS.parent
    page = (root / "CONTRIBUTING.md").read_text()
    chapter = page.partition("## How to add")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:[a-z_-]+/)+(?:[a-z_-]+\.[a-z]+)?)`", chapter)
    assert len(re.findall(r"^\*\*An? ", chapter, re.MULTILINE)) == 6
    missing = [
        path for path in named if not (root / "src/opilio" / path).exists() and not (root / path).exists()
    ]
    assert missing == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    listed = re.findall(r"(\S+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


# ── commands ─────────────────────────────────────────────────────────────────────────────────────

_CODE = re.compile(r"```(?:sh|bash|console|text|)\n(.*?)```|`([^`\n]+)`", re.DOTALL)
_COMMAND = re.compile(r"(?:^|[\s(;|&$]|bin/)opilio ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)(?: |$|\n|\))")


def named_commands(text: str) -> set[str]:
    """`opilio a b` in code, without options and arguments."""
    code = "\n".join(block or inline for block, inline in _CODE.findall(text))
    return {found.strip() for found in _COMMAND.findall(re.sub(r"#[^\n]*", "", code))}


def known(words: list[str]) -> bool:
    command: Any = get_command(app)
    for word in words:
        if not hasattr(command, "list_commands"):  # Typer brings its own copy of click
            return True  # the rest are arguments
        command = command.get_command(None, word)
        if command is None:
            return False
    return True


@pytest.mark.parametrize(
    "page",
    [*DOCS.rglob("*.md"), *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md"))],
    ids=lambda page: page.stem,
)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    assert [name for name in sorted(named_commands(text)) if not known(name.split())] == []


def test_commands_are_found_in_pages() -> None:
    found = set().union(*(named_commands(page.read_text()) for page in DOCS.rglob("*.md")))
    assert {"up", "doctor", "db upgrade", "bots token", "policies import", "jobs why"} <= found
    assert not known(["policies", "explode"])


def test_the_rules_of_the_guide_are_the_rules_of_the_program() -> None:
    page = (DOCS / "how-to/set-priorities.md").read_text()
    table = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    defaults = Rules()
    assert {name for name, _, _ in table} == {"overdue", "error_rate", "hot"}
    for name, bands, points in table:
        rule = getattr(defaults, name)
        assert [float(band) for band in bands.split(",")] == list(rule.bands)
        assert [int(point) for point in points.split(",")] == list(rule.points)
    snippet = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert snippet
    rules = parse_rules(tomllib.loads(snippet[1])["rules"])
    assert (rules.overdue(5), rules.error_rate(0.85), rules.hot(1)) == (25, -30, 20)


def test_every_setting_that_a_page_names_exists() -> None:
    settings = {f"OPILIO_{name.upper()}" for name in SETTINGS}
    others = {
        "OPILIO_SERVER",
        "OPILIO_BOT_TOKEN",
        "OPILIO_BOT_ID",
        "OPILIO_BOT_ALLOW_PRIVATE",
        "OPILIO_BOT_DOMAIN",
        "OPILIO_BENCH_TRACE",  # read by bench/freshness.py
        "OPILIO_BENCH_PROCESSES",
        "OPILIO_BENCH_DATA",  # read by bench/__main__.py
    }
    wrong = [
        f"{page.relative_to(DOCS)}: {name}"
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"\bOPILIO_[A-Z_]+[A-Z]\b(?![_…])", page.read_text())
        if name.partition("__")[0] not in settings | others
    ]
    assert wrong == []
