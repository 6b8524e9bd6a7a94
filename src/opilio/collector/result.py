"""A result, whatever format it came in, and how it is told from any other."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from opilio.contracts.codes import Category, category_of

Format = Literal["v2", "old", "flat"]
_LONGEST_IDENTITY = 160

# Task-level codes. AUTH_FAILED is no use to try again here, though it is for a single item.
PARTIAL = "CRAWL_PARTIAL"
TIMEOUT = "TIMEOUT"
_RETRYABLE = frozenset({"SEARCH_FAILED", "RATE_LIMITED", TIMEOUT})
_FINAL = frozenset({"RATE_LIMITED_PERMANENT", "AUTH_FAILED", "INVALID_KEYWORD", "BLOCKED"})
_RETRYABLE_CATEGORIES = frozenset({Category.NETWORK, Category.STORAGE})


def retryable(code: str | None, successful: int) -> bool:
    """Whether a failed task is worth another attempt; one that got something keeps it instead."""
    if code == PARTIAL:
        return successful == 0
    if code in _FINAL:
        return False
    return code in _RETRYABLE or category_of(code) in _RETRYABLE_CATEGORIES


@dataclass(frozen=True, slots=True)
class Result:
    """What a crawler says about one task."""

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
    digest: str  # of the body, where no attempt tells results apart
    code: str | None = None
    message: str | None = None
    violations: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Equal for the same result, however often it is delivered."""
        told = f"body:{self.digest}" if self.attempt is None else f"{self.attempt}/{self.cursor}"
        return shortened(f"{self.platform}/{self.job_id}/{told}")

    @property
    def items(self) -> int:
        return self.successful + self.failed

    @property
    def usable(self) -> bool:
        """A failure that got something is kept, like a success."""
        return self.success or (self.code == PARTIAL and self.successful > 0)


@dataclass(frozen=True, slots=True)
class Analysis:
    """What analytics says about one batch."""

    project_id: str
    job_id: str
    success_count: int
    error_count: int
    platform: str = ""
    violations: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Two platforms have a batch of the same name: where the platform is told, it tells them apart."""
        return shortened(f"analyze/{self.platform}/{self.job_id}")


def digest(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def shortened(identity: str) -> str:
    """Identities are kept by the million: a long one is kept as its digest."""
    return identity if len(identity) <= _LONGEST_IDENTITY else f"digest:{digest(identity.encode())}"
