"""Chooses the handler of a job, and which queues and domains to pull. No I/O."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from opilio.bot.errors import Misconfigured
from opilio.bot.result import Result
from opilio.contracts.bot_api import PulledJob, Queue

Crawl = Callable[[PulledJob], Awaitable[Result | dict[str, Any]]]
QUEUES: tuple[Queue, ...] = ("http", "js", "special")


@dataclass(frozen=True, slots=True)
class Handler:
    crawl: Crawl
    queue: Queue | None
    domain: str | None

    def takes(self, queue: str, host: str) -> bool:
        return self.queue in (None, queue) and (self.domain is None or within(host, self.domain))

    @property
    def narrowness(self) -> tuple[int, bool]:
        """The narrower handler wins: the longer domain first, then the one that names its queue."""
        return len(self.domain or ""), self.queue is not None


@dataclass(frozen=True, slots=True)
class Scope:
    """What one pull loop asks for."""

    domain: str | None
    capabilities: tuple[Queue, ...]


def within(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


def choose(handlers: list[Handler], job: PulledJob) -> Handler | None:
    host = urlsplit(job.url).hostname or ""
    fitting = [handler for handler in handlers if handler.takes(job.queue, host)]
    return max(fitting, key=lambda handler: handler.narrowness, default=None)


def capabilities_of(handlers: list[Handler]) -> list[Queue]:
    """The capabilities if none are given: the queues that handlers name, or `http`."""
    named = {handler.queue or "http" for handler in handlers}
    return [queue for queue in QUEUES if queue in named]


def scopes_of(handlers: list[Handler], capabilities: list[Queue]) -> list[Scope]:
    """The fewest scopes that cover every job with a handler, and no other job.

    A handler without a domain covers its queues for all domains; the remaining queues are pulled domain by domain.
    """
    everywhere = _queues([handler for handler in handlers if handler.domain is None], capabilities)
    scopes = [Scope(None, everywhere)] if everywhere else []
    for domain in sorted({handler.domain for handler in handlers if handler.domain}):
        mine = _queues([handler for handler in handlers if handler.domain == domain], capabilities)
        rest = tuple(queue for queue in mine if queue not in everywhere)
        if rest:
            scopes.append(Scope(domain, rest))
    _check_covered(scopes, capabilities)
    return scopes


def _queues(handlers: list[Handler], capabilities: list[Queue]) -> tuple[Queue, ...]:
    return tuple(
        queue for queue in capabilities if any(handler.queue in (None, queue) for handler in handlers)
    )


def _check_covered(scopes: list[Scope], capabilities: list[Queue]) -> None:
    covered = {queue for scope in scopes for queue in scope.capabilities}
    missing = [queue for queue in capabilities if queue not in covered]
    if missing:
        raise Misconfigured(f"no handler takes jobs of the queue {missing[0]!r}; add one with @bot.handler()")
