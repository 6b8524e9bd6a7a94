"""What URL a policy may have, and the one form it is kept in."""

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

import idna

from opilio.errors import Invalid
from opilio.net.allowed_addresses import Address, AllowList, literal_address

MAX_LENGTH = 2048
_DEFAULT_PORT = {"http": 80, "https": 443}
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_NUMBER = re.compile(r"^([0-9]+|0x[0-9a-f]*)$")
_LABEL = re.compile(r"^(?!-)[a-z0-9_-]{1,63}(?<!-)$")
_LOCAL_NAMES = ("localhost", "local", "internal", "localdomain", "home.arpa")
# Everything that RFC 3986 lets stand, and `%` so that what is quoted already stays as it is.
_KEEP = "%/:@!$&'()*+,;=~-._?[]"
# A URL with a lower-case host, a path, no port and no fragment, of which every character may stand as it is.
_PLAIN = re.compile(
    r"https?://([a-z0-9_.-]+)/[\w%/:@!$&'()*+,;=~.\[\]-]*(?:\?[\w%/:@!$&'()*+,;=~.?\[\]-]+)?", re.ASCII
)


class CrawlUrl(NamedTuple):
    """A URL in its normal form, and the host whose politeness it falls under."""

    url: str
    host: str


def normalise(text: str, allow: AllowList) -> CrawlUrl:
    """Host in lower case, default port and fragment dropped; refuses what a crawl must not reach."""
    return _as_it_is(text, allow) or normalise_parts(text, allow)


def _as_it_is(text: str, allow: AllowList) -> CrawlUrl | None:
    """A URL that is in its normal form already, as most of an import are; None sends it the long way."""
    plain = _PLAIN.fullmatch(text)
    if plain is None or len(text) > MAX_LENGTH:
        return None
    host = _host(plain[1], allow)
    return CrawlUrl(text, host) if host == plain[1] else None


def normalise_parts(text: str, allow: AllowList) -> CrawlUrl:
    """The long way, for every URL."""
    if len(text) > MAX_LENGTH:
        raise Invalid(
            "url",
            "is %(length)s characters long; at most %(most)s are allowed",
            length=len(text),
            most=MAX_LENGTH,
        )
    if _FORBIDDEN.search(text):
        raise Invalid("url", "contains a space, a backslash or a control character; percent-encode it")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise Invalid("url", "cannot be read: %(error)s", error=str(error)) from error
    if parts.scheme.lower() not in _DEFAULT_PORT:
        raise Invalid("url", "must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise Invalid("url", "carries a user name or password; put credentials into crawl_config.headers")
    scheme = parts.scheme.lower()
    host = _host(parts.hostname or "", allow)
    port_text = "" if port is None or port == _DEFAULT_PORT[scheme] else f":{port}"
    try:
        path, query = quote(parts.path or "/", safe=_KEEP), quote(parts.query, safe=_KEEP)
    except UnicodeEncodeError as error:
        raise Invalid("url", "contains half of a surrogate pair, which is no character") from error
    url = urlunsplit((scheme, host + port_text, path, query, ""))
    if len(url) > MAX_LENGTH:
        raise Invalid(
            "url",
            "is %(length)s characters long once encoded; at most %(most)s are allowed",
            length=len(url),
            most=MAX_LENGTH,
        )
    return CrawlUrl(url, host)


@lru_cache(maxsize=10_000)  # an import has many pages of few hosts
def _host(name: str, allow: AllowList) -> str:
    host = _ascii("url", name)  # first, because some characters become digits and dots on the way
    address = literal_address(host)
    if address is not None:
        if not allow.permits(address):
            raise Invalid(
                "url",
                "%(address)s is a private or reserved address; OPILIO_CRAWL_ALLOW_PRIVATE can allow it",
                address=str(address),
            )
        return _spelled(address)
    if not _is_name(host):
        raise Invalid("url", "has no valid host name")
    if not allow.everything and (
        host in _LOCAL_NAMES or host.endswith(tuple(f".{name}" for name in _LOCAL_NAMES))
    ):
        raise Invalid(
            "url", "%(host)s is a private name; OPILIO_CRAWL_ALLOW_PRIVATE=true can allow it", host=host
        )
    return host


def _is_name(host: str) -> bool:
    labels = host.split(".")
    # A name that ends in a number is a malformed IP address (WHATWG URL, "ends in a number").
    return len(host) <= 253 and all(_LABEL.match(label) for label in labels) and not _NUMBER.match(labels[-1])


def _spelled(address: Address) -> str:
    return f"[{address}]" if address.version == 6 else str(address)


def _ascii(field: str, name: str) -> str:
    """Lower case, without the dot of the root, international names in their ASCII form."""
    try:
        ascii_name = name if name.isascii() else idna.encode(name, uts46=True).decode()
    except (idna.IDNAError, UnicodeError) as error:
        raise Invalid(field, "has no valid host name: %(error)s", error=str(error)) from error
    return ascii_name.lower().removesuffix(".")


def domain_name(text: str) -> str:
    """The domain filter of a pull: a bare host name, in the form hosts are kept in."""
    host = _ascii("domain", text.strip())
    address = literal_address(host.removeprefix("[").removesuffix("]"))
    if address is not None:
        return _spelled(address)
    if not _is_name(host):
        raise Invalid("domain", "must be a host name such as example.com, without scheme or path")
    return host
