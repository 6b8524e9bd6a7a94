"""Reads queries and bodies of requests, and encodes responses in one envelope."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response
from litestar.types import Receive

from opilio.clock import check_moment
from opilio.contracts.decoding import named
from opilio.contracts.envelope import STATUS_OF
from opilio.errors import Invalid, Refused

T = TypeVar("T")
AnyRequest = Request[Any, Any, Any]
JSON = "application/json"
_encode = msgspec.json.Encoder(decimal_format="number").encode


def envelope(data: Any) -> bytes:
    """`{"success": true, "data": …}`; bytes are taken as JSON already."""
    return b'{"success":true,"data":%b}' % (data if isinstance(data, bytes) else _encode(data))


def answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    return Response(envelope(data), status_code=status, media_type=JSON, headers=dict(headers or {}))


def error_body(refusal: Refused) -> dict[str, Any]:
    body = {"code": refusal.code, "message": refusal.message}
    return body if refusal.details is None else body | {"details": refusal.details}


def refuse(refusal: Refused, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    body = _encode({"success": False, "error": error_body(refusal)})
    return Response(
        body, status_code=STATUS_OF.get(refusal.code, 400), media_type=JSON, headers=dict(headers or {})
    )


def read_query(request: AnyRequest, kind: type[T]) -> T:
    """The query string as a struct: every value is text there, so numbers and booleans are read from it."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise Invalid(name, "is given twice")
        if "\x00" in value or "\x00" in name:
            raise Invalid(name.replace("\x00", "?"), "contains the character U+0000")
        given[name] = value
    try:
        query = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise named(error) from None
    for name in given:
        if isinstance(moment := getattr(query, name, None), datetime):
            check_moment(name, moment)
    return query


def check_text(raw: bytes, body: Any) -> None:
    """Refuses the character U+0000, which PostgreSQL cannot store, naming the field."""
    if b"\\u0000" not in raw:  # JSON can only escape it
        return
    left = [("", msgspec.to_builtins(body))]
    while left:
        path, value = left.pop()
        if isinstance(value, str) and "\x00" in value:
            raise Invalid(path.lstrip(".") or "body", "contains the character U+0000")
        if isinstance(value, dict):
            left += [(path, name) for name in value]
            left += [(f"{path}.{name}", inner) for name, inner in value.items()]
        elif isinstance(value, list):
            left += [(f"{path}[{number}]", inner) for number, inner in enumerate(value)]


async def read_body(request: AnyRequest, most: int) -> bytes:
    """The whole body, refused as soon as it is too large, whatever its header claims."""
    return await read_chunks(request.receive, request.headers.get("content-length", ""), most)


async def read_chunks(receive: Receive, claimed: str, most: int) -> bytes:
    """The body of a request whose header claims a length."""
    too_large = Refused("payload_too_large", "the body is larger than %(n)s bytes", n=most)
    if claimed.isdigit() and int(claimed) > most:
        raise too_large
    chunks, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused("unavailable", "the client has disconnected")  # nobody reads it
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise too_large
        chunks.append(chunk)
        more = message.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
