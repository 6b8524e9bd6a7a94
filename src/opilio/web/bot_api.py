"""The bot API: pull, submit, batch, heartbeat, release."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from opilio.access.identity import Bot
from opilio.bounded_json import split_array
from opilio.contracts.bot_api import (
    BatchAnswer,
    BatchBody,
    BatchRequest,
    DoneAnswer,
    FailedAnswer,
    HeldAnswer,
    HeldJob,
    HeldRequest,
    ItemAnswer,
    Outcome,
    PullAnswer,
    PullRequest,
    RetryAnswer,
    SubmitRequest,
)
from opilio.contracts.decoding import decode, decoder
from opilio.crawl.claims import Reply
from opilio.crawl.pull import Pull
from opilio.crawl.submission import Submission, parse
from opilio.crawl.url import domain_name
from opilio.errors import Invalid, Refused
from opilio.lock_rules import Claim
from opilio.web.codec import error_body
from opilio.web.connection import while_connected
from opilio.web.routes import Call, Registry

BOT_API = Registry()
_MOST_RESULTS = 100
_MOST_COMMAS = 20_000
_RESULT, _RESULTS = decoder(Outcome), decoder(list[Outcome])


class _JobId(msgspec.Struct):
    job_id: UUID


_JOB_ID = msgspec.json.Decoder(_JobId)


@BOT_API.add(
    "POST",
    "/api/crawl/pull",
    "bot",
    "Take jobs to crawl",
    body=PullRequest,
    answer=PullAnswer,
    tag="bots",
)
async def pull(call: Call) -> Any:
    asked: PullRequest = call.body
    _must_be(call, asked.bot_id)
    queues = tuple(sorted(set(asked.capabilities)))
    domain = domain_name(asked.domain) if asked.domain is not None else None
    pull = call.opilio.dispatcher.pull(Pull(asked.bot_id, asked.max_jobs, queues, domain), asked.wait_seconds)
    return await (while_connected(call.request, pull) if asked.wait_seconds else pull)


@BOT_API.add(
    "POST",
    "/api/crawl/submit",
    "bot",
    "Hand in what came of a job",
    body=SubmitRequest,
    answer=(DoneAnswer, RetryAnswer, FailedAnswer),
    errors=("job_not_found", "not_assigned", "lock_expired", "invalid_state"),
    tag="bots",
)
async def submit(call: Call) -> Any:
    sent: SubmitRequest = call.body
    _must_be(call, sent.bot_id)
    (reply,) = await call.opilio.dispatcher.submit([parse(sent.bot_id, sent)])
    if reply.refusal is not None:
        raise reply.refusal
    return reply.data


@BOT_API.add(
    "POST",
    "/api/crawl/submit/batch",
    "bot",
    "Hand in up to 100 results, each answered on its own",
    body=BatchBody,
    documented_body=BatchRequest,
    answer=BatchAnswer,
    tag="bots",
    body_factor=4,
)
async def submit_batch(call: Call) -> Any:
    sent: BatchBody = call.body
    _must_be(call, sent.bot_id)
    outcomes = _read_results(bytes(sent.results))
    if not outcomes:
        raise Invalid("results", "is empty; send 1 to %(most)s results", most=_MOST_RESULTS)
    read = [_parse(sent.bot_id, outcome) for _, outcome in outcomes]
    replies = iter(
        await call.opilio.dispatcher.submit([item for item in read if isinstance(item, Submission)])
    )
    every = [next(replies) if isinstance(item, Submission) else Reply(refusal=item) for item in read]
    return BatchAnswer(results=_items([job_id for job_id, _ in outcomes], every))


def _read_results(text: bytes) -> "list[tuple[UUID | None, Outcome | Refused]]":
    """Each result with the id of its job: all at once if every one is well formed, as nearly always, else one by one."""
    outcomes = _read_at_once(text)
    if len(outcomes) in range(1, _MOST_RESULTS + 1):
        return [(outcome.job_id, outcome) for outcome in outcomes]
    try:
        bodies = split_array(text, _MOST_RESULTS)
    except ValueError as error:
        raise Invalid("results", "%(error)s", error=str(error)) from None
    return [_read_result(body) for body in bodies]


def _read_at_once(text: bytes) -> list[Outcome]:
    """Every result; none where one of them is wrong, or where there may be millions: few bytes compress so many."""
    if text.count(b",") > _MOST_COMMAS:
        return []
    try:
        return _RESULTS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _read_result(body: bytes) -> "tuple[UUID | None, Outcome | Refused]":
    try:
        outcome = decode(body, _RESULT)
    except Refused as refusal:
        return _job_id(body), refusal
    return outcome.job_id, outcome


def _parse(bot_id: str, read: Outcome | Refused) -> Submission | Refused:
    if isinstance(read, Refused):
        return read
    try:
        return parse(bot_id, read)
    except Refused as refusal:
        return refusal


def _job_id(body: bytes) -> UUID | None:
    """The id of the job, also where the rest of the result is wrong."""
    try:
        return _JOB_ID.decode(body).job_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


@BOT_API.add(
    "POST",
    "/api/crawl/heartbeat",
    "bot",
    "Extend the locks of long crawls",
    body=HeldRequest,
    answer=HeldAnswer,
    tag="bots",
)
async def heartbeat(call: Call) -> Any:
    held: HeldRequest = call.body
    _must_be(call, held.bot_id)
    replies = await call.opilio.dispatcher.heartbeat(_claims(held.bot_id, held.jobs))
    return HeldAnswer(jobs=_items([job.job_id for job in held.jobs], replies))


@BOT_API.add(
    "POST",
    "/api/crawl/release",
    "bot",
    "Give jobs back unharmed",
    body=HeldRequest,
    answer=HeldAnswer,
    tag="bots",
)
async def release(call: Call) -> Any:
    held: HeldRequest = call.body
    _must_be(call, held.bot_id)
    replies = await call.opilio.dispatcher.release(_claims(held.bot_id, held.jobs))
    return HeldAnswer(jobs=_items([job.job_id for job in held.jobs], replies))


def _must_be(call: Call, bot_id: str) -> None:
    bot: Bot = call.who
    bot.must_be(bot_id)


def _claims(bot_id: str, jobs: Sequence[HeldJob]) -> list[Claim]:
    return [Claim(bot_id, job.job_id, job.lock_token, b"") for job in jobs]


def _items(job_ids: Sequence[Any], replies: Sequence[Reply]) -> list[ItemAnswer]:
    return [
        ItemAnswer(job_id=job_id, success=False, error=error_body(reply.refusal))
        if reply.refusal is not None
        else ItemAnswer(job_id=job_id, success=True, data=_json(reply.data))
        for job_id, reply in zip(job_ids, replies, strict=True)
    ]


def _json(data: bytes | DoneAnswer | None) -> msgspec.Raw | DoneAnswer:
    return data if isinstance(data, DoneAnswer) else msgspec.Raw(data or b"{}")
