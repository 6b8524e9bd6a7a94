import asyncio
import ipaddress

import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.net import guarded_connect as guarded_http
from opilio.net.allowed_addresses import AllowList, is_public, literal_address, parse_allow
from opilio.net.guarded_connect import GuardedBackend

PRIVATE = [
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.9", "169.254.169.254",
    "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.7",
    "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
    "::", "::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:0a00:0001::", "2002:7f00:1::1",
    "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "::10.0.0.1", "fe80::1", "fe80::1%eth0", "fc00::1",
    "fd00:ec2::254", "fec0::1", "ff02::1", "2001::1", "2001:db8::1", "100::1", "3fff::1", "5f00::1",
    "not an address", "",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "2606:4700::1111",
          "::ffff:8.8.8.8", "2002:0808:0808::1", "64:ff9b::8.8.8.8"]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_reserved_addresses_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_in_every_clothing(address):
    number = int(address)
    mapped = ipaddress.IPv6Address((0xFFFF << 32) | number)
    nat64 = ipaddress.IPv6Address((0x64FF9B << 96) | number)
    six_to_four = ipaddress.IPv6Address((0x2002 << 112) | (number << 80))
    assert {is_public(mapped), is_public(nat64), is_public(six_to_four)} == {is_public(address)}


@given(st.ip_addresses(v=4))
def test_what_python_calls_private_is_never_public(address):
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        assert not is_public(address)


@given(st.ip_addresses())
def test_an_allow_list_only_ever_adds(address):
    allow = parse_allow("10.0.0.0/8, 127.0.0.1")
    assert allow.permits(address) >= is_public(address)
    assert parse_allow("true").permits(address)
    assert parse_allow("").permits(address) == is_public(address)


def test_allow_lists_are_read():
    assert parse_allow("false") == AllowList() == parse_allow("")
    assert parse_allow("TRUE").everything
    allow = parse_allow("10.0.0.0/8 127.0.0.1,fd00::/8")
    assert allow.permits("10.9.9.9")
    assert allow.permits("::ffff:127.0.0.1")
    assert allow.permits("fd00::1")
    assert not allow.permits("127.0.0.2")
    assert not allow.permits("169.254.169.254")
    with pytest.raises(ValueError):
        parse_allow("10.0.0.0/8, nonsense")


def test_odd_spellings_of_addresses_are_addresses():
    assert str(literal_address("127.1")) == "127.0.0.1"
    assert str(literal_address("0x7f000001")) == "127.0.0.1"
    assert str(literal_address("2130706433")) == "127.0.0.1"
    assert str(literal_address("[::1]")) == "::1"
    assert literal_address("example.com") is None
    assert not AllowList().permits_host("0x7f000001")
    assert AllowList().permits_host("example.com")


@pytest.fixture
async def loopback_port():
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def _get(allow: str, url: str) -> httpcore2.Response:
    async with httpcore2.AsyncConnectionPool(network_backend=GuardedBackend(parse_allow(allow))) as pool:
        return await pool.request("GET", url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"])
async def test_a_private_target_is_refused_when_connecting(loopback_port, host):
    with pytest.raises(httpcore2.ConnectError, match="private or reserved"):
        await _get("", f"http://{host}:{loopback_port}/")


async def test_a_permitted_target_is_reached(loopback_port):
    assert (await _get("127.0.0.0/8", f"http://127.0.0.1:{loopback_port}/")).content == b"ok"


async def test_a_name_that_changes_its_address_is_judged_by_the_one_connected_to(loopback_port, monkeypatch):
    """DNS rebinding: public when first asked, private when it counts."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])

    async def rebinding(_host, _port):
        return next(answers)

    monkeypatch.setattr(guarded_http, "resolve", rebinding)
    assert parse_allow("").permits((await guarded_http.resolve("rebind.test", 80))[0])
    with pytest.raises(httpcore2.ConnectError, match="private or reserved"):
        await _get("", f"http://rebind.test:{loopback_port}/")


async def test_only_the_permitted_addresses_of_a_name_are_tried(loopback_port, monkeypatch):
    async def two(_host, _port):
        return ["10.255.255.1", "127.0.0.1"]

    monkeypatch.setattr(guarded_http, "resolve", two)
    assert (await _get("127.0.0.0/8", f"http://mixed.test:{loopback_port}/")).status == 200
