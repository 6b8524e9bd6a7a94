"""A receiver of webhooks for trying them out: it keeps the newest ones in memory and shows them as JSON."""

import json
from collections import deque
from datetime import UTC, datetime
from typing import Any

from opilio.net.loopback_server import Reply, Request

RECEIVE, RECEIVED = "/webhooks/test", "/webhooks/received"
_KEPT = 50
_LARGEST = 64_000


class TestReceiver:
    """Answers 200 to everything that is sent to it."""

    __test__ = False  # not a test of pytest

    def __init__(self) -> None:
        self._kept: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def answer(self, request: Request) -> Reply | None:
        """None for a path that is not the receiver's."""
        if request.path == RECEIVED:
            body = json.dumps(list(self._kept)).encode()
            return Reply(200, body, {"content-type": "application/json"})
        if request.path != RECEIVE or request.method != "POST":
            return None
        self._kept.appendleft(
            {
                "at": datetime.now(UTC).isoformat(),
                "id": request.headers.get("webhook-id", ""),
                "signed": "webhook-signature" in request.headers,
                "body": request.body[:_LARGEST].decode("utf-8", "replace"),
            }
        )
        return Reply(200, b"{}", {"content-type": "application/json"})
