"""The URL of a webhook: what is accepted, and the host that it belongs to."""

from urllib.parse import SplitResult, urlsplit

from opilio.errors import Invalid
from opilio.net.allowed_addresses import AllowList

_DEFAULT_PORTS = {"http": 80, "https": 443}


def checked(url: str, allow: AllowList) -> str:
    """Refuses a URL that can never be delivered to; host names are checked when connecting."""
    parts = _split(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise Invalid("url", "must be an http or https URL with a host")
    if parts.username or parts.password:
        raise Invalid("url", "must not carry credentials: receivers verify the signature instead")
    if not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
        raise Invalid("url", "must be plain ASCII without spaces")
    if not allow.permits_host(parts.hostname):
        raise Invalid(
            "url",
            "%(host)s is a private or reserved address; %(setting)s can allow it",
            host=parts.hostname,
            setting="OPILIO_WEBHOOK_ALLOW_PRIVATE",
        )
    return url


def host_of(url: str) -> str:
    """Host and port: endpoints behind the same one are down together."""
    parts = _split(url)
    return f"{parts.hostname}:{parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise Invalid("url", "%(reason)s", reason=error) from None
    return parts
