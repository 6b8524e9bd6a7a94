"""A result of any format, and its identity."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Literal

from opilio.contracts.codes import CODES, Category

Format = Literal["v2", "old", "flat"]
_LONGEST_KEY = 160

# Task-level codes. AUTH_FAILED is final for a task, though retryable for a single item.
PARTIAL = "CRAWL_PARTIAL"
TIMEOUT = "TIMEOUT"
RETRYABLE_CODES = frozenset(
    {"SEARCH_FAILED", "RATE_LIMITED", TIMEOUT}
    | {code.value for code in (*CODES[Category.NETWORK], *CODES[Category.STORAGE])}
)


def retryable(code: str | None, successful: int, codes: Collection[str] = RETRYABLE_CODES) -> bool:
    """Whether a failed task is tried again; a partial result is kept instead."""
    return successful == 0 if code == PARTIAL else code in codes


@dataclass(frozen=True, slots=True)
class Result:
    """A crawler's result of one task."""

    platform: str
    job_id: str
    format: Format
    success: bool
    successful: int
    failed: int
    skipped: int
    total_found: int | None
    requested_limit: int | None
    platform_limited: bool
    attempt: int | None
    cursor: str
    digest: str  # of the body
    code: str | None = None
    message: str | None = None
    violations: tuple[str, ...] = ()
    crawl_id: str | None = None  # the run of the crawler, where it names one
    started: bool = False  # the crawler has begun, and has nothing to report yet
    emitted_at: datetime | None = None

    @property
    def items(self) -> int:
        return self.successful + self.failed

    @property
    def usable(self) -> bool:
        """A partial failure is kept, like a success."""
        return self.success or (self.code == PARTIAL and self.successful > 0)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The counts that analytics reports for one batch."""

    project_id: str
    job_id: str
    success_count: int
    error_count: int
    platform: str = ""  # two platforms have batches of the same name
    crawl_id: str = ""
    fetch_error_count: int = 0
    size_known: bool = True  # False: an unreadable batch that nobody knows the size of
    digest: str = ""
    message_id: str = ""
    violations: tuple[str, ...] = ()


def digest(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def shortened(text: str) -> str:
    """A long text is replaced by its digest, so that it fits into an index."""
    return text if len(text) <= _LONGEST_KEY else f"digest:{digest(text.encode())}"
