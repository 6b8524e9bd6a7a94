"""What `opilio doctor` says about one subject."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "fault"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its subject, its verdict, what was seen, and what to do if it is not well."""

    subject: str
    verdict: Verdict
    said: str
    remedy: str | None = None
