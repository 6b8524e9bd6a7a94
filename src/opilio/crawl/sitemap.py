"""Takes the addresses out of a sitemap, plain or gzipped, within bounds."""

import zlib
from typing import Any
from xml.parsers import expat

from opilio.errors import Invalid

_LARGEST_SITEMAP = 64 * 1024 * 1024  # the protocol's own limit is 50 MB
_GZIP = b"\x1f\x8b"


def sitemap_locations(data: bytes) -> list[str]:
    """The `<loc>` of each `<url>` as it is written; empty where there is none."""
    return _Sitemap().locations(_unzipped(data))


def _unzipped(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    inflater = zlib.decompressobj(wbits=31)
    try:
        plain = inflater.decompress(data, _LARGEST_SITEMAP)
    except zlib.error as error:
        raise Invalid("sitemap", "is incomplete: %(error)s", error=str(error)) from None
    if inflater.unconsumed_tail:
        raise Invalid("sitemap", "is larger than 64 MiB; split it")
    if not inflater.eof:
        raise Invalid("sitemap", "is incomplete: it ends too early")
    return plain


class _Sitemap:
    """Takes `<loc>` from `urlset/url/loc` and nothing else: images and translations have a `loc` of their own."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._space = ""
        self._text: list[str] | None = None
        self._found: list[str] = []

    def locations(self, data: bytes) -> list[str]:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _no_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        try:
            parser.Parse(data, True)
        except (expat.ExpatError, UnicodeError, LookupError, ValueError) as error:
            raise Invalid("sitemap", "is not XML that can be read: %(error)s", error=str(error)) from None
        return self._found

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        if not self._path:
            self._space = space
            _must_be_urlset(local)
        self._path.append(local if space == self._space else "")
        if self._path == ["urlset", "url"]:
            self._found.append("")
        if self._path == ["urlset", "url", "loc"]:
            self._text = []

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, _name: str) -> None:
        if self._path == ["urlset", "url", "loc"] and self._text is not None:
            self._found[-1] = "".join(self._text)
            self._text = None
        self._path.pop()


def _no_doctype(*_: Any) -> None:
    raise Invalid("sitemap", "carries a DOCTYPE, which a sitemap does not need and which can be an attack")


def _must_be_urlset(root: str) -> None:
    if root == "sitemapindex":
        raise Invalid("sitemap", "is an index of sitemaps; import each of the files that it names")
    if root != "urlset":
        raise Invalid("sitemap", "begins with <%(tag)s>; a sitemap begins with <urlset>", tag=root[:40])
