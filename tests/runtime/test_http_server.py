"""The HTTP server without Opilio behind it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from opilio.errors import Unavailable
from opilio.runtime.http_server import serve_app
from opilio.runtime.settings import load_settings
from tests.web.running import free_port


async def test_an_application_that_cannot_start_is_not_served(tmp_path: Path) -> None:
    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        await receive()
        raise OSError("no database")

    async with asyncio.timeout(20):
        with pytest.raises(Unavailable, match="could not start"):
            await serve_app(app, load_settings(data_dir=tmp_path), free_port(), asyncio.Event())
