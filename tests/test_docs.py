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
