"""The documentation site as `make docs` builds it: it stands alone, and every link of it leads somewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
_LOADED = re.compile(r'<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)="([^"]*)"')
_LINKED = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"')
_ID = re.compile(r'\bid="([^"]*)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built beside the checkout, so that nothing of an earlier build is in it."""
    place = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", place / "docs")
    shutil.copy(ROOT / "mkdocs.yml", place)
    (place / "docs/assets").mkdir(exist_ok=True)
    (place / "docs/assets/mermaid.min.js").touch()  # `make docs` brings it
    program = Path(sys.executable).with_name("zensical")
    built = subprocess.run(
        [program, "build", "--strict"], cwd=place, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return place / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, str]:
    return {page: page.read_text(encoding="utf-8") for page in site.rglob("index.html")}


def test_nothing_is_loaded_from_elsewhere(pages):
    loaded = {address for text in pages.values() for address in _LOADED.findall(text)}
    assert any("bundle" in address for address in loaded)
    assert [address for address in loaded if re.match(r"(?:[a-z]+:)?//", address)] == []


def test_every_link_leads_to_a_page_and_a_heading_of_the_site(site, pages):
    ids = {page: set(_ID.findall(text)) for page, text in pages.items()}
    assert "opiliogone" in ids[site / "how-to/runbook/index.html"]
    broken = []
    for page, text in pages.items():
        for link in _LINKED.findall(text):
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            there = (page.parent / target).resolve() if target else page
            file = there / "index.html" if there.is_dir() else there
            if not file.is_file() or (anchor and file in ids and anchor not in ids[file]):
                broken.append((str(page.relative_to(site)), link))
    assert broken == []


def test_a_reader_has_search_a_dark_mode_copy_buttons_and_a_navigation(site, pages):
    assert (site / "search.json").stat().st_size > 100_000
    home = pages[site / "index.html"]
    assert 'data-md-color-scheme="slate"' in home
    assert "content.code.copy" in home
    order = [home.index(f"{title}") for title in ("How to", "Operate", "Explanation", "Reference")]
    assert order == sorted(order)
