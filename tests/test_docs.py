"""Docs that cannot rot: what they list is compared with the code."""

import re
from pathlib import Path

from opilio.contracts.envelope import STATUS_OF

DOCS = Path(__file__).parents[1] / "docs"


def test_every_error_code_is_documented_with_its_status() -> None:
    listed: dict[str, int] = {}
    for codes, status in re.findall(
        r"^\| (`[^|]+`) \| (\d+) \|", (DOCS / "reference/http.md").read_text(), re.MULTILINE
    ):
        listed |= dict.fromkeys(re.findall(r"`(\w+)`", codes), int(status))
    assert listed == STATUS_OF


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(DOCS)} → {target}"
        for page in DOCS.rglob("*.md")
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_page_of_the_dashboard_is_in_its_guide() -> None:
    guide = (DOCS / "how-to/use-the-dashboard.md").read_text()
    listed = re.findall(r"^\| [^|]+ \| `(/[a-z]*)` \|", guide, re.MULTILINE)
    layout = (DOCS.parent / "src/opilio/web/templates/layout.html").read_text()
    assert listed == re.findall(r'ui\.nav\("(/[a-z]*)"', layout)


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
