"""Error codes of crawls and what they mean for a retry (the item-level taxonomy)."""

from enum import StrEnum


class Category(StrEnum):
    RATE_LIMITING = "rate_limiting"
    CONTENT = "content"
    NETWORK = "network"
    PARSING = "parsing"
    MEDIA = "media"
    STORAGE = "storage"
    GENERIC = "generic"


class ErrorCode(StrEnum):
    RATE_LIMITED = "RATE_LIMITED"
    AUTH_FAILED = "AUTH_FAILED"
    ACCESS_DENIED = "ACCESS_DENIED"
    CONTENT_REMOVED = "CONTENT_REMOVED"
    CONTENT_NOT_FOUND = "CONTENT_NOT_FOUND"
    CONTENT_UNAVAILABLE = "CONTENT_UNAVAILABLE"
    NETWORK_ERROR = "NETWORK_ERROR"
    TIMEOUT = "TIMEOUT"
    CONNECTION_REFUSED = "CONNECTION_REFUSED"
    DNS_ERROR = "DNS_ERROR"
    PARSE_ERROR = "PARSE_ERROR"
    INVALID_URL = "INVALID_URL"
    INVALID_RESPONSE = "INVALID_RESPONSE"
    MEDIA_DOWNLOAD_FAILED = "MEDIA_DOWNLOAD_FAILED"
    MEDIA_TOO_LARGE = "MEDIA_TOO_LARGE"
    MEDIA_FORMAT_ERROR = "MEDIA_FORMAT_ERROR"
    STORAGE_ERROR = "STORAGE_ERROR"
    UPLOAD_FAILED = "UPLOAD_FAILED"
    DATABASE_ERROR = "DATABASE_ERROR"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    INTERNAL_ERROR = "INTERNAL_ERROR"


_C = ErrorCode
CODES: dict[Category, tuple[ErrorCode, ...]] = {
    Category.RATE_LIMITING: (_C.RATE_LIMITED, _C.AUTH_FAILED, _C.ACCESS_DENIED),
    Category.CONTENT: (_C.CONTENT_REMOVED, _C.CONTENT_NOT_FOUND, _C.CONTENT_UNAVAILABLE),
    Category.NETWORK: (_C.NETWORK_ERROR, _C.TIMEOUT, _C.CONNECTION_REFUSED, _C.DNS_ERROR),
    Category.PARSING: (_C.PARSE_ERROR, _C.INVALID_URL, _C.INVALID_RESPONSE),
    Category.MEDIA: (_C.MEDIA_DOWNLOAD_FAILED, _C.MEDIA_TOO_LARGE, _C.MEDIA_FORMAT_ERROR),
    Category.STORAGE: (_C.STORAGE_ERROR, _C.UPLOAD_FAILED, _C.DATABASE_ERROR),
    Category.GENERIC: (_C.UNKNOWN_ERROR, _C.INTERNAL_ERROR),
}
_CATEGORY_OF: dict[str, Category] = {code: category for category, codes in CODES.items() for code in codes}
# Trying again cannot bring back a removed page or repair a parser.
_FINAL = {Category.CONTENT, Category.PARSING, Category.MEDIA}


def category_of(code: str | None) -> Category:
    """The category of a code; one we do not know is generic, and is kept as it came."""
    return _CATEGORY_OF.get(code or "", Category.GENERIC)


FINAL_CODES = frozenset(code for category in _FINAL for code in CODES[category])


def worth_retrying(code: str | None) -> bool:
    return category_of(code) not in _FINAL
