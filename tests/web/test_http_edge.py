"""The edge of the HTTP server, through a real one: large, slow, silent and unread requests."""

import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from opilio.contracts.policies import PolicyInput
from opilio.runtime.bootstrap import Opilio
from tests.web.running import Server

MIB = 2**20


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    server = Server(database_url, tmp_path)
    yield server
    if server.process is not None and server.process.poll() is None:
        server.kill()


@pytest.fixture
async def bot_token(opilio: Opilio) -> str:
    return (await opilio.credentials.new_bot_token("bot-1"))[1]


@pytest.fixture
async def key(opilio: Opilio) -> str:
    return (await opilio.credentials.new_key("edge", "admin"))[1]


@contextlib.asynccontextmanager
async def client(server: Server, token: str = "") -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
        yield http


async def start(server: Server, **settings: str) -> Server:
    return await asyncio.to_thread(server.start, **settings)


async def locked_job(opilio: Opilio, http: httpx2.AsyncClient) -> dict:
    await opilio.policies.create(PolicyInput(url="https://shop.example/1"))
    await opilio.scheduler.create_due()
    answer = await http.post("/api/crawl/pull/", json={"bot_id": "bot-1", "max_jobs": 1})
    return answer.json()["data"]["jobs"][0]


async def logged_in(opilio: Opilio, http: httpx2.AsyncClient, name: str) -> None:
    form = {"password": "correct horse battery", "again": "correct horse battery"}
    await http.post(f"/login/{await opilio.operators.invite(name)}", data=form)


async def test_a_page_of_12_mib_is_taken_and_one_of_17_is_413(opilio, server, bot_token) -> None:
    await start(server)
    async with client(server, bot_token) as http:
        job = await locked_job(opilio, http)
        body = {"bot_id": "bot-1", "job_id": job["job_id"], "lock_token": job["lock_token"], "success": True}
        body |= {"price": 1, "currency": "EUR", "raw_html": "x" * 17 * MIB}
        large = await http.post("/api/crawl/submit/", json=body)
        assert (large.status_code, large.json()["error"]["code"]) == (413, "payload_too_large")
        taken = await http.post("/api/crawl/submit/", json=body | {"raw_html": "x" * 12 * MIB})
        assert taken.status_code == 200, taken.text[:300]


async def test_a_dashboard_upload_is_bounded(opilio, server) -> None:
    await start(server, max_body_mb="1")
    async with client(server) as http:
        await logged_in(opilio, http, "admin")
        session = await opilio.operators.session(http.cookies["opilio_session"])
        headers = {"x-csrf-token": session.csrf_token}
        small = {"file": ("p.csv", b"url\nhttps://a.example/1\n", "text/csv")}
        assert (await http.post("/policies/import", files=small, headers=headers)).status_code < 400
        files = {"file": ("p.csv", b"x" * 5 * MIB, "text/csv")}
        answer = await http.post("/policies/import", files=files, headers=headers)
        assert answer.status_code == 413


async def test_a_body_that_a_route_does_not_read_keeps_the_connection(opilio, server, key) -> None:
    await start(server)
    policy_id = await opilio.policies.create(PolicyInput(url="https://shop.example/1"))
    paths = [f"/api/v1/policies/{policy_id}/run", "/api/v1/no-such-thing", "/api/v1/stats"]
    async with client(server, key) as http:
        for path in paths * 10:
            answer = await http.post(path, content=b"{}" * 20_000)
            assert "close" not in answer.headers.get("connection", ""), path


async def test_a_large_body_to_an_unknown_path_is_not_read_to_its_end(server) -> None:
    await start(server)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST /nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 900000000\r\n\r\n")
    writer.write(b"x" * 100_000)
    async with asyncio.timeout(15):
        status = await reader.readline()
    assert b" 4" in status
    writer.close()


async def test_a_body_that_stops_is_timed_out(server, bot_token) -> None:
    await start(server, body_timeout_seconds="1")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST /api/crawl/pull/ HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {bot_token}\r\n"
    writer.write(head.encode() + b"content-length: 100\r\n\r\n{")
    async with asyncio.timeout(10):
        status = await reader.readline()
    assert b"408" in status
    writer.close()


async def test_a_silent_connection_is_closed(server) -> None:
    await start(server, idle_connection_seconds="2")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


def silent(port: int, count: int) -> list[socket.socket]:
    connections = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=20)
        connections.append(connection)
    return connections


def long_polls(port: int, token: str, count: int) -> list[socket.socket]:
    body = json.dumps({"bot_id": "bot-1", "wait_seconds": 30}).encode()
    head = (
        "POST /api/crawl/pull/ HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {token}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    connections = silent(port, count)
    for connection in connections:
        connection.sendall(head.encode() + body)
    return connections


async def test_5000_idle_connections_and_3000_long_polls_stop_no_other_request(server, bot_token) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    await start(server)
    held = await asyncio.to_thread(silent, server.port, 5000)
    held += await asyncio.to_thread(long_polls, server.port, bot_token, 3000)
    try:
        async with client(server) as http:
            for _ in range(5):
                answer = await http.get("/healthz", timeout=10)
                assert answer.status_code == 200
            assert (await http.get("/readyz", timeout=10)).status_code in {200, 503}
    finally:
        for connection in held:
            connection.close()


async def test_one_login_has_a_bounded_number_of_event_streams(opilio, server) -> None:
    await start(server, live_streams_per_session="3")
    async with (
        asyncio.timeout(40),
        client(server) as greedy,
        client(server) as other,
        contextlib.AsyncExitStack() as held,
    ):
        await logged_in(opilio, greedy, "greedy")
        await logged_in(opilio, other, "other")
        streams = [await held.enter_async_context(greedy.stream("GET", "/live")) for _ in range(3)]
        lines = [stream.aiter_lines() for stream in streams]
        assert [await anext(line) for line in lines] == ["event: tick"] * 3
        async with greedy.stream("GET", "/live") as refused:
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
            assert b"too many live pages" in await refused.aread()
        async with other.stream("GET", "/live") as stream:
            assert stream.status_code == 200
        await streams[0].aclose()
        status = 429
        while status == 429:  # the server notices with its next write that the browser has left
            async with greedy.stream("GET", "/live") as stream:
                status = stream.status_code
        assert status == 200


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_waiting_poll_is_answered_when_the_server_stops(opilio, server, bot_token, workers) -> None:
    await start(server, api_workers=workers)
    async with client(server, bot_token) as http:
        poll = asyncio.create_task(
            http.post("/api/crawl/pull/", json={"bot_id": "bot-1", "wait_seconds": 30})
        )
        async with asyncio.timeout(20):  # until the server has seen the bot, so that the poll waits
            while not (await opilio.insights.bots()).items[0].last_seen_at:
                await asyncio.sleep(0.05)
        server.process.terminate()
        answer = await poll
        assert (answer.status_code, answer.json()["data"]["count"]) == (200, 0)
        assert await asyncio.to_thread(server.process.wait, 20) == 0


async def test_a_request_that_has_begun_is_finished_when_the_server_stops(opilio, server, bot_token) -> None:
    await start(server)
    async with client(server, bot_token) as http:
        job = await locked_job(opilio, http)
    result = {"bot_id": "bot-1", "job_id": job["job_id"], "lock_token": job["lock_token"], "success": True}
    body = json.dumps(result | {"price": 1, "currency": "EUR"}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST /api/crawl/submit/ HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {bot_token}\r\n"
    writer.write(head.encode() + f"content-length: {len(body)}\r\n\r\n".encode() + body[:10])
    await writer.drain()
    async with client(server) as http:  # answered after the request above was taken
        await http.get("/healthz")
    server.process.terminate()
    log = server.data_dir / "server.log"
    async with asyncio.timeout(20):  # it stops accepting when it has heard the signal
        while await asyncio.to_thread(accepts, server.port):
            await asyncio.sleep(0.05)
        writer.write(body[10:])
        assert b"200" in await reader.readline(), log.read_text()
    writer.close()
    assert await asyncio.to_thread(server.process.wait, 20) == 0
    assert (await opilio.insights.job(job["job_id"])).status == "done"


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def pull(token: str, *headers: str, **body: object) -> bytes:
    sent = json.dumps({"bot_id": "bot-1"} | body).encode()
    head = ("POST /api/crawl/pull/ HTTP/1.1", "host: x", f"authorization: Bearer {token}", *headers)
    return "\r\n".join((*head, f"content-length: {len(sent)}", "", "")).encode() + sent


async def answered(reader: asyncio.StreamReader) -> tuple[bytes, dict]:
    """Status line and body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
    return head.split(b"\r\n")[0], json.loads(await reader.readexactly(length) or b"null")


async def test_requests_that_arrive_together_are_answered_in_order(server, bot_token) -> None:
    await start(server)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    health = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    writer.write(pull(bot_token, wait_seconds=1) + health + pull(bot_token) + pull(bot_token) + health)
    async with asyncio.timeout(20):
        answers = [(await answered(reader))[1] for _ in range(5)]
    assert ["count" in answer.get("data", {}) for answer in answers] == [True, False, True, True, False]
    writer.close()


async def test_a_bots_request_in_pieces_is_answered_like_one_in_one_piece(server, bot_token) -> None:
    await start(server)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    sent = pull(bot_token)
    head, _, body = sent.partition(b"\r\n\r\n")
    async with asyncio.timeout(20):
        writer.write(sent)
        whole = await answered(reader)
        for piece in (head[:20], head[20:], b"\r\n\r\n", body[:5], body[5:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)  # so that each arrives alone
        assert await answered(reader) == whole
    writer.close()


async def test_a_connection_that_shall_end_ends(server, bot_token) -> None:
    await start(server)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(pull(bot_token, "connection: close"))
    async with asyncio.timeout(20):
        assert b"connection: close" in (await reader.read()).lower()
    writer.close()


async def test_a_head_that_never_ends_is_refused(server) -> None:
    await start(server, idle_connection_seconds="2")
    slow, drip = await asyncio.open_connection("127.0.0.1", server.port)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\nx-large: " + b"x" * 70_000)
    async with asyncio.timeout(20):
        status, body = await answered(reader)
        assert (b" 431 " in status, body["error"]["code"]) == (True, "payload_too_large")
        drip.write(b"GET / HTTP/1.1\r\n")
        while not slow.at_eof():  # each byte comes in time, the head does not
            with contextlib.suppress(ConnectionError):
                drip.write(b"x")
                await drip.drain()
            with contextlib.suppress(TimeoutError, ConnectionError):
                await asyncio.wait_for(slow.read(1), 0.2)
    writer.close()
    drip.close()


async def test_more_connections_than_allowed_are_told_so(server) -> None:
    await start(server, max_connections="64")
    held = await asyncio.to_thread(silent, server.port, 64)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.timeout(20):
            status, body = await answered(reader)
        assert (b" 503 " in status, body["error"]["code"]) == (True, "unavailable")
        writer.close()
    finally:
        for connection in held:
            connection.close()
