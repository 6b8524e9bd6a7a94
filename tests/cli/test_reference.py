"""Pages that are made from the program say what the program says."""

from pathlib import Path

import pytest

from opilio.cli.reference import PAGES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name):
    assert (REFERENCE / name).read_text() == PAGES[name](), "`make reference` writes it anew"
