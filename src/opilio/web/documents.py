"""The OpenAPI document and a page to try it on, served without any other site."""

import gzip
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from litestar import Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler

from opilio.web.codec import AnyRequest
from opilio.web.openapi import document

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Opilio API</title>
<link rel="stylesheet" href="/static/vendor/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/static/vendor/swagger-ui-bundle.js"></script>
<script src="/static/schema.js"></script>
</body>
</html>
"""
# The viewer styles its own elements inline.
_CSP = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'"


def document_routes() -> list[HTTPRouteHandler]:
    return [schema_page, schema_json, static_file]


@get("/schema", media_type="text/html")
async def schema_page(request: AnyRequest) -> Response[bytes]:
    """A page for browsers, the document for programs."""
    if "text/html" not in request.headers.get("accept", ""):
        return _json(document())
    return Response(
        _PAGE.encode(), media_type="text/html; charset=utf-8", headers={"content-security-policy": _CSP}
    )


@get("/schema/openapi.json", media_type="application/json")
async def schema_json() -> Response[bytes]:
    return _json(document())


@get("/static/{path:path}", media_type="application/octet-stream")
async def static_file(request: AnyRequest) -> Response[bytes]:
    """Files that ship with the package; nothing outside the folder can be named."""
    file = (STATIC / str(request.path_params["path"]).lstrip("/")).resolve()
    if not file.is_relative_to(STATIC.resolve()) or not file.is_file() or file.suffix not in _TYPES:
        raise NotFoundException
    # A name with a digest in its query never means anything else.
    age = "31536000, immutable" if request.query_params.get("v") else "3600"
    headers = {"cache-control": f"public, max-age={age}", "vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        content = _packed(file, file.stat().st_mtime_ns)
        return Response(content, media_type=_TYPES[file.suffix], headers=headers)
    return Response(file.read_bytes(), media_type=_TYPES[file.suffix], headers=headers)


@lru_cache(maxsize=64)
def _packed(file: Path, _changed: int) -> bytes:
    """A static file compressed: once at build time, or else once in this process. Pages are not: they hold secrets."""
    built = file.with_name(f"{file.name}.gz")
    return built.read_bytes() if built.is_file() else gzip.compress(file.read_bytes(), mtime=0)


@lru_cache(maxsize=256)
def asset(name: str) -> str:
    """The address of a static file, which changes when the file does."""
    file = STATIC / name
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:10] if file.is_file() else "missing"
    return f"/static/{name}?v={digest}"


def _json(data: Any) -> Response[bytes]:
    return Response(msgspec.json.encode(data), media_type="application/json")
