"""The sockets under the HTTP client: TLS, ends of connections, time limits."""

import asyncio
import ssl
import subprocess
from contextlib import suppress

import httpcore2
import pytest

from opilio.delivery.webhooks import client as posting
from opilio.delivery.webhooks.client import WebhookClient
from opilio.net.allowed_addresses import parse_allow
from opilio.net.guarded_connect import GuardedBackend
from opilio.net.tcp import connect

ALLOW = parse_allow("127.0.0.0/8")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


async def _answer(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    size = next(
        (
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        ),
        0,
    )
    body = await reader.readexactly(size)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


@pytest.fixture
async def tls_port(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()


def _client(trusted=None) -> httpcore2.AsyncConnectionPool:
    context = ssl.create_default_context(cafile=trusted)
    return httpcore2.AsyncConnectionPool(context, network_backend=GuardedBackend(ALLOW))


async def test_tls_carries_large_bodies_both_ways(tls_port, certificate):
    body = b"x" * 3_000_000
    async with _client(certificate / "cert.pem") as client:
        answer = await client.request("POST", f"https://localhost:{tls_port}/", content=body)
    assert answer.content == body


async def test_an_untrusted_certificate_is_refused(tls_port):
    async with _client() as client:
        with pytest.raises(httpcore2.ConnectError, match=r"(?i)certificate"):
            await client.request("GET", f"https://localhost:{tls_port}/")


async def test_a_certificate_for_another_name_is_refused(tls_port, certificate):
    """The connection goes to an address, but the name is what must be vouched for."""
    async with _client(certificate / "cert.pem") as client:
        with pytest.raises(httpcore2.ConnectError, match=r"(?i)mismatch|not valid for"):
            await client.request("GET", f"https://127.0.0.1:{tls_port}/")


async def test_a_connection_that_was_closed_while_idle_is_not_used_again():
    server = await asyncio.start_server(_close_after_one, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with _client() as client:
        for _ in range(3):
            assert (await client.request("POST", url, content=b"hello")).content == b"hello"
            await asyncio.sleep(0.05)
    server.close()


async def _close_after_one(reader, writer):
    await _answer(reader, writer)
    writer.close()


async def test_reading_ends_in_time():
    server = await asyncio.start_server(lambda reader, _writer: reader.read(), "127.0.0.1", 0)
    stream = await connect("127.0.0.1", server.sockets[0].getsockname()[1])
    with pytest.raises(httpcore2.ReadTimeout):
        await stream.read(10, timeout=0.05)
    await stream.aclose()
    server.close()


async def test_a_closed_port_is_a_connect_error():
    with pytest.raises(httpcore2.ConnectError):
        await connect("127.0.0.1", 1, patience=2)


class TestConnectionsOfAPost:
    @pytest.fixture
    async def hosts(self):
        """Ports that count who connects."""
        servers, connected = [], []

        async def serve(reader, writer):
            connected.append(writer)
            with suppress(asyncio.IncompleteReadError):
                while True:
                    await _answer(reader, writer)

        for _ in range(3):
            servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
        yield [f"http://127.0.0.1:{s.sockets[0].getsockname()[1]}/" for s in servers], connected
        for server in servers:
            server.close()

    async def test_one_after_the_other_is_one_connection(self, hosts):
        [url, *_], connected = hosts
        async with WebhookClient(ALLOW) as client:
            for _ in range(5):
                assert (await client.send(url, b"hello", {})).status == 200
        assert len(connected) == 1

    async def test_side_by_side_is_a_connection_each_and_they_are_kept(self, hosts):
        [url, *_], connected = hosts
        async with WebhookClient(ALLOW) as client:
            for _ in range(3):
                answers = await asyncio.gather(*(client.send(url, b"hello", {}) for _ in range(4)))
                assert [answer.status for answer in answers] == [200] * 4
        assert len(connected) == 4

    async def test_no_more_stay_open_than_may(self, hosts, monkeypatch):
        urls, connected = hosts
        monkeypatch.setattr(posting._Connections, "MOST_IDLE", 2)
        async with WebhookClient(ALLOW) as client:
            for url in [*urls, urls[2], urls[0]]:
                assert (await client.send(url, b"hello", {})).status == 200
        assert len(connected) == 4, "the third was kept, the first had made room for it"

    async def test_one_that_was_idle_too_long_is_not_used(self, hosts, monkeypatch):
        [url, *_], connected = hosts
        monkeypatch.setattr(posting, "_KEPT_SECONDS", 0.01)
        async with WebhookClient(ALLOW) as client:
            for _ in range(2):
                await client.send(url, b"hello", {})
                await asyncio.sleep(0.05)
        assert len(connected) == 2

    async def test_one_that_the_receiver_closed_is_not_used(self):
        server = await asyncio.start_server(_close_after_one, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with WebhookClient(ALLOW) as client:
            for _ in range(3):
                assert (await client.send(url, b"hello", {})).status == 200
                await asyncio.sleep(0.05)
        server.close()
