"""When pages changed, as their site's map says: `Result(changed_at=…)` hands it to the adaptive schedule."""

from datetime import UTC, datetime
from xml.parsers import expat

from opilio.bot.errors import BotError


def change_times(sitemap: bytes) -> dict[str, datetime]:
    """The `lastmod` of each `<url>` that has one; a date alone is the start of that day (UTC)."""
    found: dict[str, datetime] = {}
    texts: dict[str, list[str]] = {}
    open_tags: list[str] = []

    def start(name: str, _: dict[str, str]) -> None:
        open_tags.append(name.rpartition(":")[2])
        if open_tags[-1] == "url":
            texts.clear()

    def text(data: str) -> None:
        if open_tags[-2:-1] == ["url"]:
            texts.setdefault(open_tags[-1], []).append(data)

    def end(_: str) -> None:
        if open_tags.pop() == "url":
            at = _time("".join(texts.get("lastmod", ())).strip())
            url = "".join(texts.get("loc", ())).strip()
            if at and url:
                found[url] = at

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(sitemap, True)
    except expat.ExpatError as error:
        raise BotError(f"the sitemap is not XML that can be read: {error}") from None
    return found


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _refuse_doctype(*_: object) -> None:
    raise BotError("the sitemap has a DOCTYPE, which a sitemap does not need and which can be an attack")
