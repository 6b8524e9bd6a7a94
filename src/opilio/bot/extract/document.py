"""Decodes a page of bounded size into text and a tree. No I/O."""

import functools
import hashlib
import json
import re
import warnings
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from parsel import Selector
from w3lib.encoding import html_to_unicode, read_bom

from opilio.bot.errors import CrawlError
from opilio.contracts.codes import ErrorCode

# Nesting beyond the parser's depth is cut off on purpose, so the warning is not useful.
warnings.filterwarnings("ignore", message="Input data is too big", module=r"parsel\.")

MAX_BYTES = 10 * 1024 * 1024
_REGION = re.compile(r"^[a-z]{2,3}[-_](?:[a-z]{4}[-_])?([a-z]{2})\b", re.IGNORECASE)
_OF_LANGUAGE = {
    "vi": "VN",
    "ja": "JP",
    "sv": "SE",
    "da": "DK",
    "nb": "NO",
    "nn": "NO",
    "no": "NO",
    "is": "IS",
}
_VISIBLE_TEXT = (
    "//body//text()[not(ancestor::script or ancestor::style or ancestor::noscript or ancestor::template)]"
)


class Document:
    """One page: source, tree, and the regions it declares."""

    def __init__(self, body: bytes, url: str = "", content_type: str | None = None) -> None:
        if len(body) > MAX_BYTES:
            raise CrawlError(
                ErrorCode.MEDIA_TOO_LARGE, f"the page has {len(body)} bytes, {MAX_BYTES} is the limit"
            )
        self.url = url
        # The HTML parser stops at a NUL.
        self.text = decoded(body, content_type).replace("\x00", "")

    @functools.cached_property
    def tree(self) -> Selector:
        return Selector(text=self.text or "<html></html>", type="html", huge_tree=False, base_url=self.url)

    @functools.cached_property
    def json(self) -> Any:
        """The page parsed as JSON, or None when it is not JSON."""
        return parsed_json(self.text)

    @functools.cached_property
    def regions(self) -> list[str]:
        """Countries that the page declares by language, locale and top-level domain."""
        said = self.tree.xpath("/html/@lang | //meta[@property='og:locale']/@content").getall()
        found = [match[1].upper() for text in said if (match := _REGION.match(text.strip()))]
        found += [
            _OF_LANGUAGE[text.strip()[:2].lower()]
            for text in said
            if text.strip()[:2].lower() in _OF_LANGUAGE
        ]
        suffix = (urlsplit(self.url).hostname or "").rpartition(".")[2].upper()
        return [*found, suffix] if len(suffix) == 2 else found

    @functools.cached_property
    def content_hash(self) -> str:
        """SHA-256 of the visible text, so that scripts, tokens and white space do not count as a change."""
        visible = self.text if self.json is not None else " ".join(self.tree.xpath(_VISIBLE_TEXT).getall())
        return hashlib.sha256(" ".join(visible.split()).encode("utf-8", "replace")).hexdigest()


def decoded(body: bytes, content_type: str | None = None) -> str:
    """Decodes as UTF-8 where the bytes are valid UTF-8, even against the header; else as header or page declare."""
    if read_bom(body)[0] is None and not body.isascii():
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError:
            # Not UTF-8: use the declared encoding.
            return html_to_unicode(content_type, body, default_encoding="cp1252")[1]
    return html_to_unicode(content_type, body, default_encoding="utf-8")[1]


def parsed_json(text: str) -> Any:
    """Parses JSON with exact numbers; None when it is invalid or nested too deeply."""
    text = text.strip()
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text, strict=False, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
