"""The guarded transport speaks HTTP/2 where the host does."""

import asyncio
import ipaddress
import ssl
import sys
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from opilio.net.allowed_addresses import parse_allow
from opilio.net.guarded_connect import GuardedTransport

APP = """
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})
"""
SERVER = """
import sys
from granian import Granian
from pathlib import Path
port, cert, key = sys.argv[1:]
Granian("app:app", port=int(port), interface="asgi", ssl_cert=Path(cert), ssl_key=Path(key), workers=1).serve()
"""


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1 that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    cert = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "cert.pem").write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return tmp_path


async def answer(url: str, context: ssl.SSLContext) -> httpx2.Response:
    """Asks until the server has started."""
    transport = GuardedTransport(parse_allow("127.0.0.1/32"), context)
    async with asyncio.timeout(20), httpx2.AsyncClient(transport=transport) as client:
        while True:
            try:
                return await client.get(url)
            except httpx2.ConnectError:
                await asyncio.sleep(0.1)


async def test_http_2(certificate, unused_port):
    (certificate / "app.py").write_text(APP)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(unused_port), "cert.pem", "key.pem", cwd=certificate
    )
    try:
        context = ssl.create_default_context(cafile=certificate / "cert.pem")
        response = await answer(f"https://127.0.0.1:{unused_port}/", context)
    finally:
        process.terminate()
        await process.wait()
    assert (response.http_version, response.text) == ("HTTP/2", "hello")
