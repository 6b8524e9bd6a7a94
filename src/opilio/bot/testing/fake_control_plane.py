"""The fake control plane: the bot API in one process, over a transport or over TCP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx2
import msgspec

from opilio.bot.testing.fake_jobs import FakeJob, JobTable
from opilio.bounded_json import split_array
from opilio.contracts.bot_api import (
    BatchAnswer,
    BatchBody,
    HeldAnswer,
    HeldRequest,
    ItemAnswer,
    Outcome,
    PullAnswer,
    PullRequest,
    SubmitRequest,
)
from opilio.contracts.decoding import decode, decoder
from opilio.contracts.envelope import STATUS_OF, ErrorBody, Failure
from opilio.errors import Invalid, Refused
from opilio.net import loopback_server
from opilio.net.loopback_server import HangUp, Reply, Request

_JSON = {"content-type": "application/json"}
_MOST_BODY_BYTES = 16 * 1024 * 1024
_MOST_RESULTS = 100
_EMPTY_HANDED_SECONDS = 60.0  # what the server says while nothing is scheduled
_encode = msgspec.json.Encoder(decimal_format="number").encode
_PULL, _SUBMIT, _BATCH = decoder(PullRequest), decoder(SubmitRequest), decoder(BatchBody)
_RESULT, _HELD = decoder(Outcome), decoder(HeldRequest)


@dataclass(slots=True)
class _Fault:
    """A fault for the next requests to an endpoint."""

    endpoint: str
    status: int | None
    retry_after: float | None
    times: int
    after_work: bool


class FakeControlPlane:
    """Gives out the jobs you add and keeps what bots submit; refusals are those of the real server.

    Faults: `fail_next("submit", 503, retry_after=1)`, `lose_reply("submit")` (the request is carried out, the answer
    lost), `away = True` (no answer), `skip(seconds)` (locks expire), `revoke(token)`.
    """

    server = "http://control-plane.test"

    def __init__(self) -> None:
        self.away = False
        self.requests: dict[str, int] = {}
        self._table = JobTable()
        self._tokens: dict[str, str] = {}
        self._faults: list[_Fault] = []
        self._waiters: set[asyncio.Event] = set()
        self._endpoints: dict[str, Callable[[str, bytes], Awaitable[Any]]] = {
            "pull": self._pull,
            "submit": self._submit,
            "submit/batch": self._submit_batch,
            "heartbeat": self._heartbeat,
            "release": self._release,
        }

    # -- for tests -------------------------------------------------------

    def token(self, bot_id: str) -> str:
        """A token for this bot; several may be valid at once."""
        token = f"fake-{bot_id}-{len(self._tokens)}"
        self._tokens[token] = bot_id
        return token

    def revoke(self, token: str) -> None:
        del self._tokens[token]

    def add(
        self,
        url: str,
        *,
        queue: str = "http",
        priority: int = 50,
        crawl_config: dict[str, Any] | None = None,
        rule_set: Any = None,
        max_retries: int = 3,
        timeout_seconds: float = 600,
    ) -> UUID:
        job = FakeJob(
            url=url,
            queue=queue,
            priority=priority,
            crawl_config=crawl_config or {},
            rule_set={} if rule_set is None else rule_set,
            max_retries=max_retries,
            timeout_seconds=float(timeout_seconds),
        )
        self._table.add(job)
        self._notify()
        return job.job_id

    def job(self, job_id: UUID) -> FakeJob:
        return self._table.jobs[job_id]

    @property
    def jobs(self) -> list[FakeJob]:
        return list(self._table.jobs.values())

    @property
    def unfinished(self) -> list[FakeJob]:
        return list(self._table.open.values())

    def skip(self, seconds: float) -> None:
        """Moves the clock forward; locks that expired are noticed at the next request."""
        self._table.skipped += timedelta(seconds=seconds)

    def fail_next(
        self, endpoint: str, status: int, *, retry_after: float | None = None, times: int = 1
    ) -> None:
        self._faults.append(_Fault(endpoint, status, retry_after, times, after_work=False))

    def lose_reply(self, endpoint: str, *, times: int = 1) -> None:
        """Carries out the next request, but loses its answer."""
        self._faults.append(_Fault(endpoint, None, None, times, after_work=True))

    async def until(self, condition: Callable[["FakeControlPlane"], bool], seconds: float = 30) -> None:
        """Waits until a condition is true; checked after each request."""
        async with asyncio.timeout(seconds):
            await self._changed_until(lambda: condition(self))

    async def settled(self, seconds: float = 30) -> None:
        """Waits until every job is finished."""
        await self.until(lambda plane: all(job.final for job in plane.jobs), seconds)

    # -- for bots -----------------------------------------------------------------------

    @property
    def transport(self) -> httpx2.AsyncBaseTransport:
        """For `Bot(…, transport=…)`: no socket, no port."""

        async def handle(request: httpx2.Request) -> httpx2.Response:
            asked = Request(request.method, request.url.path, dict(request.headers), request.content)
            try:
                reply = await self(asked)
            except HangUp as gone:
                raise httpx2.ReadError("the connection was closed", request=request) from gone
            return httpx2.Response(reply.status, headers=reply.headers, content=reply.body)

        return httpx2.MockTransport(handle)

    @contextlib.asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[str]:
        """A real port on loopback, for bots in other processes or languages; yields the address."""
        async with loopback_server.serving(self, port=port) as address:
            yield address

    async def __call__(self, request: Request) -> Reply:
        if self.away:
            raise HangUp
        endpoint = request.path.strip("/").removeprefix("api/crawl/")
        self.requests[endpoint] = self.requests.get(endpoint, 0) + 1
        self._notify()
        fault = self._fault_for(endpoint)
        if fault is not None and not fault.after_work:
            return _fault_reply(fault)
        reply = await self._answer(endpoint, request)
        self._notify()
        if fault is not None:
            raise HangUp
        return reply

    # -- the bot API -----------------------------------------------------------------------------

    async def _answer(self, endpoint: str, request: Request) -> Reply:
        try:
            if endpoint not in self._endpoints:
                raise Refused("not_found", "page not found: %(path)s", path=request.path)
            if request.method != "POST":
                raise Refused(
                    "method_not_allowed",
                    "%(method)s is not allowed here; allowed: OPTIONS, POST",
                    method=request.method,
                )
            bot_id = self._bot_of(request)
            most = _MOST_BODY_BYTES * (4 if endpoint == "submit/batch" else 1)
            if len(request.body) > most:
                raise Refused("payload_too_large", "the body is larger than %(n)s bytes", n=most)
            data = await self._endpoints[endpoint](bot_id, request.body)
        except Refused as error:
            return _refused(error)
        return Reply(200, b'{"success":true,"data":%b}' % _encode(data), _JSON)

    def _bot_of(self, request: Request) -> str:
        header = request.headers.get("authorization", "")
        kind, _, token = header.partition(" ")
        if not header:
            raise Refused("unauthorized", "send the header `Authorization: Bearer <token>`, or log in")
        if kind.lower() != "bearer" or not token.strip():
            raise Refused("unauthorized", "send the header `Authorization: Bearer <token>`")
        if token.strip() not in self._tokens:
            raise Refused("unauthorized", "the token or API key is unknown or was revoked")
        return self._tokens[token.strip()]

    async def _pull(self, owner: str, body: bytes) -> PullAnswer:
        request = decode(body, _PULL)
        _check_owner(owner, request.bot_id)
        jobs, skipped = self._table.pull(request)
        if not jobs and request.wait_seconds:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(request.wait_seconds):
                    await self._changed_until(lambda: self._table.has_pending(request))
            jobs, skipped = self._table.pull(request)
        handed_out = [job.handed_out() for job in jobs]
        retry_after = None if jobs else _EMPTY_HANDED_SECONDS
        return PullAnswer(jobs=handed_out, count=len(jobs), skipped=skipped, retry_after=retry_after)

    async def _submit(self, owner: str, body: bytes) -> Any:
        request = decode(body, _SUBMIT)
        _check_owner(owner, request.bot_id)
        return self._table.submit(owner, _outcome_of(request))

    async def _submit_batch(self, owner: str, body: bytes) -> BatchAnswer:
        request = decode(body, _BATCH)
        _check_owner(owner, request.bot_id)
        try:
            bodies = split_array(bytes(request.results), _MOST_RESULTS)
        except ValueError as error:
            raise Invalid("results", "%(error)s", error=str(error)) from None
        if not bodies:
            raise Invalid("results", "is empty; send 1 to %(most)s results", most=_MOST_RESULTS)
        return BatchAnswer(results=[self._submit_item(owner, item) for item in bodies])

    def _submit_item(self, owner: str, body: bytes) -> ItemAnswer:
        try:
            outcome = decode(body, _RESULT)
        except Refused as error:
            return ItemAnswer(job_id=_job_id(body), success=False, error=_body(error))
        return _item(outcome.job_id, self._table.submit, owner, outcome)

    async def _heartbeat(self, owner: str, body: bytes) -> HeldAnswer:
        return self._each_held(owner, body, self._table.heartbeat)

    async def _release(self, owner: str, body: bytes) -> HeldAnswer:
        return self._each_held(owner, body, self._table.release)

    def _each_held(self, owner: str, body: bytes, work: Callable[..., Any]) -> HeldAnswer:
        request = decode(body, _HELD)
        _check_owner(owner, request.bot_id)
        return HeldAnswer(jobs=[_item(held.job_id, work, owner, held) for held in request.jobs])

    # -- faults and signals ----------------------------------------------------------------------

    def _fault_for(self, endpoint: str) -> _Fault | None:
        for fault in self._faults:
            if endpoint == fault.endpoint or endpoint.startswith(f"{fault.endpoint}/"):
                fault.times -= 1
                if fault.times == 0:
                    self._faults.remove(fault)
                return fault
        return None

    def _notify(self) -> None:
        for waiter in self._waiters:
            waiter.set()

    async def _changed_until(self, condition: Callable[[], bool]) -> None:
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        try:
            while not condition():
                await waiter.wait()
                waiter.clear()
        finally:
            self._waiters.discard(waiter)


def _check_owner(owner: str, bot_id: str) -> None:
    if owner != bot_id:
        raise Refused(
            "forbidden",
            "this token belongs to the bot %(owner)s; it cannot be used for %(bot_id)s",
            {"bot_id": owner},
            owner=owner,
            bot_id=bot_id,
        )


def _outcome_of(request: SubmitRequest) -> Outcome:
    return Outcome(**{name: getattr(request, name) for name in Outcome.__struct_fields__})


def _job_id(body: bytes) -> UUID | None:
    """The id of the job, also where the rest of the result is wrong."""
    try:
        return UUID(msgspec.json.decode(body)["job_id"])
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError, ValueError, AttributeError):
        return None


def _item(job_id: UUID, work: Callable[..., Any], *args: Any) -> ItemAnswer:
    try:
        return ItemAnswer(job_id=job_id, success=True, data=work(*args))
    except Refused as error:
        return ItemAnswer(job_id=job_id, success=False, error=_body(error))


def _body(error: Refused) -> ErrorBody:
    return ErrorBody(error.code, error.message, error.details)


def _refused(error: Refused) -> Reply:
    headers = dict(_JSON)
    if error.code == "unauthorized":
        headers["www-authenticate"] = "Bearer"
    if error.code == "method_not_allowed":
        headers["allow"] = "OPTIONS, POST"
    return Reply(STATUS_OF[error.code], msgspec.json.encode(Failure(_body(error))), headers)


def _fault_reply(fault: _Fault) -> Reply:
    assert fault.status is not None
    headers = dict(_JSON)
    if fault.retry_after is not None:
        headers["retry-after"] = f"{fault.retry_after:g}"
    code = {401: "unauthorized", 403: "forbidden", 429: "rate_limited", 413: "payload_too_large"}.get(
        fault.status, "unavailable"
    )
    body = Failure(ErrorBody(code, "a fault set by the test"))
    return Reply(fault.status, msgspec.json.encode(body), headers)
