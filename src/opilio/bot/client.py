"""Client of the bot API: one method per endpoint; requests are retried while the server does not answer."""

import asyncio
import logging
import random
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

import httpx2
import msgspec
import stamina

from opilio.bot.error_codes import retry_after
from opilio.bot.errors import NotAllowed, Refused, ServerAway
from opilio.contracts.bot_api import (
    BatchAnswer,
    HeldAnswer,
    HeldJob,
    HeldRequest,
    ItemAnswer,
    Outcome,
    PullAnswer,
    PulledJob,
    PullRequest,
    Queue,
)
from opilio.contracts.envelope import ErrorBody

T = TypeVar("T")
log = logging.getLogger("opilio.bot")

# Statuses of a server that is restarting or overloaded: the request is retried.
_RETRIED_STATUSES = {408, 429, 500, 502, 503, 504}
_LONGEST_WAIT = 30.0


class _Envelope(msgspec.Struct):
    success: bool
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: ErrorBody | None = None


class ControlPlane:
    """The bot API for one bot; methods raise `Refused` when the server refuses, and retry while it does not answer."""

    def __init__(
        self,
        server: str,
        token: str,
        bot_id: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.bot_id = bot_id or default_bot_id()
        self._takes_id_of_token = bot_id is None
        self.server = server.rstrip("/")
        self._http = httpx2.AsyncClient(
            base_url=self.server,
            headers={"authorization": f"Bearer {token}", "user-agent": "opilio-bot/1"},
            transport=transport,
            timeout=httpx2.Timeout(30, connect=10),
        )
        self.away = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def pull(
        self,
        *,
        max_jobs: int = 10,
        domain: str | None = None,
        capabilities: Sequence[Queue] = ("http",),
        wait_seconds: float = 0,
    ) -> PullAnswer:
        """Up to `max_jobs` jobs, or an empty answer after `wait_seconds`."""
        body = PullRequest(
            bot_id=self.bot_id,
            max_jobs=max_jobs,
            domain=domain,
            capabilities=list(capabilities),
            wait_seconds=wait_seconds,
        )
        try:
            return await self._until_answered(
                lambda: self._post("pull", body, PullAnswer, patience=wait_seconds + 30)
            )
        except NotAllowed as refusal:
            if not self._took_id_from(refusal):
                raise
        body.bot_id = self.bot_id
        return await self._until_answered(
            lambda: self._post("pull", body, PullAnswer, patience=wait_seconds + 30)
        )

    async def submit(self, outcomes: Sequence[Outcome | msgspec.Raw]) -> list[ItemAnswer]:
        """Up to 100 outcomes, each answered separately; repeating after a lost reply is safe."""
        body = {"bot_id": self.bot_id, "results": outcomes}
        answer = await self._until_answered(lambda: self._post("submit/batch", body, BatchAnswer))
        return answer.results

    async def heartbeat(self, jobs: list[PulledJob]) -> list[ItemAnswer]:
        return await self._until_answered(lambda: self._held("heartbeat", jobs))

    async def release(self, jobs: list[PulledJob]) -> list[ItemAnswer]:
        return await self._until_answered(lambda: self._held("release", jobs))

    def _took_id_from(self, refusal: NotAllowed) -> bool:
        """Without a given bot id, takes the id of the token, which the refusal names."""
        name = refusal.details.get("bot_id") if isinstance(refusal.details, dict) else None
        if not self._takes_id_of_token or not isinstance(name, str) or name == self.bot_id:
            return False
        log.info("using the bot id %s of the token", name)
        self.bot_id = name
        return True

    async def _held(self, path: str, jobs: list[PulledJob]) -> list[ItemAnswer]:
        held = [HeldJob(job_id=job.job_id, lock_token=job.lock_token) for job in jobs]
        answer = await self._post(path, HeldRequest(bot_id=self.bot_id, jobs=held), HeldAnswer)
        return answer.jobs

    async def _until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Retries with growing pauses while the server does not answer, until the caller is cancelled."""
        async for attempt in stamina.retry_context(
            on=self._wait_before_retry,
            attempts=None,
            timeout=None,
            wait_initial=0.2,
            wait_max=_LONGEST_WAIT,
            wait_jitter=0.5,
        ):
            with attempt:
                answer = await call()
        if self.away:
            self.away = False
            log.info("%s answers again", self.server)
        return answer

    def _wait_before_retry(self, error: Exception) -> bool | float:
        if not isinstance(error, ServerAway):
            return False
        if not self.away:
            self.away = True
            log.warning("%s does not answer, retrying: %s", self.server, error)
        if error.retry_after is None:
            return True
        # Jitter, so that many bots told the same wait do not return at the same moment.
        return min(error.retry_after, _LONGEST_WAIT) + random.random() * 0.5

    async def _post(self, path: str, body: Any, answer: type[T], patience: float = 30) -> T:
        url = f"/api/crawl/{path}/"
        content = msgspec.json.encode(body)
        try:
            async with asyncio.timeout(patience + 10):
                response = await self._http.post(
                    url,
                    content=content,
                    headers={"content-type": "application/json"},
                    timeout=httpx2.Timeout(patience, connect=10),
                )
        except (httpx2.TransportError, TimeoutError) as error:
            raise ServerAway(f"{type(error).__name__}: {error}".rstrip(": ")) from error
        return _data_of(response, answer)


def default_bot_id() -> str:
    """The host name, in the characters that a bot id may have."""
    return re.sub(r"[^A-Za-z0-9._:@-]", "-", socket.gethostname())[:100] or "bot"


def _data_of(response: httpx2.Response, answer: type[T]) -> T:
    if response.status_code in _RETRIED_STATUSES:
        wait = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        raise ServerAway(f"the server answered {response.status_code}", wait)
    try:
        envelope = msgspec.json.decode(response.content, type=_Envelope)
        if envelope.success:
            return msgspec.json.decode(envelope.data, type=answer)
    except msgspec.DecodeError as error:
        raise Refused(
            response.status_code,
            "invalid_answer",
            f"{response.request.url} answered {response.status_code} which is not an answer of the bot API: {error}",
        ) from error
    fault = envelope.error or ErrorBody("unknown", "the server gave no reason")
    kind = NotAllowed if response.status_code in (401, 403) else Refused
    raise kind(response.status_code, fault.code, fault.message, fault.details)
