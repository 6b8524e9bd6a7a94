"""Keeps the catalogues in step with the source: `make translations`. New texts are added empty, lost ones are dropped."""

from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

SOURCE = Path(__file__).parents[1] / "src" / "opilio"
LOCALES = SOURCE / "web" / "dashboard" / "locale"
# Which argument is the text: errors and the answers to "why?" are written as templates where they arise.
KEYWORDS: dict[str, tuple[int, ...] | None] = {
    "_": None,
    "gettext": None,
    "ngettext": (1, 2),
    "Refused": (2,),
    "Invalid": (2,),
    "NotFound": None,
    "Conflict": None,
    "WhyReason": (2,),
    "translatable": None,
}
METHODS = [("bot/**.py", "ignore"), ("web/templates/**.html", "jinja2"), ("**.py", "python")]
OPTIONS = {
    "web/templates/**.html": {
        "extensions": "jinja2.ext.i18n,jinja2.ext.do",
        "trim_blocks": "true",
        "silent": "false",
    }
}
# The same text gives the same file: two branches that add texts merge.
_CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def texts() -> Catalog:
    """Every text that a person may read."""
    catalog = Catalog(project="Opilio", fuzzy=False)
    for file, _line, message, _comments, _context in extract_from_dir(SOURCE, METHODS, OPTIONS, KEYWORDS):
        catalog.add(message, locations=[(file, 0)])
    return catalog


def main() -> None:
    for file in LOCALES.glob("*.po"):
        catalog = read_po(file.open("rb"), locale=file.stem)
        catalog.update(texts(), no_fuzzy_matching=True)
        catalog.obsolete.clear()
        catalog.creation_date = _CREATED
        with file.open("wb") as target:
            write_po(target, catalog, sort_output=True, no_location=True, width=120)


if __name__ == "__main__":
    main()
