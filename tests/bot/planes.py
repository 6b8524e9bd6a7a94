"""The fake control plane of the SDK and the real server, driven alike: what each answers is kept for comparison."""

import json
import re
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any

import httpx2

from opilio.bot.testing import FakeControlPlane
from opilio.clock import FixedClock
from opilio.runtime.bootstrap import Opilio

URL = "https://shop.example/1"
NOBODY = "00000000-0000-7000-8000-000000000000"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_HEADERS = ("content-type", "www-authenticate", "allow")


class Plane(ABC):
    """A control plane as a bot sees it; keeps what was answered, ids numbered and times masked."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.said: list[Any] = []
        self._ids: dict[str, str] = {NOBODY: NOBODY}
        self._tokens: dict[str, str] = {}

    @abstractmethod
    async def add(self, url: str = URL, **options: Any) -> None: ...

    @abstractmethod
    async def skip(self, seconds: float) -> None: ...

    @abstractmethod
    async def new_token(self, bot: str) -> str: ...

    async def post(
        self, endpoint: str, body: Any = None, *, bot: str = "bot-1", method: str = "POST", **extra: Any
    ) -> Any:
        if bot not in self._tokens:
            self._tokens[bot] = await self.new_token(bot)
        headers = {"authorization": f"Bearer {self._tokens[bot]}"} | extra.pop("headers", {})
        if body is not None:
            extra["json"] = body
        answer = await self.http.request(method, f"/api/crawl/{endpoint}", headers=headers, **extra)
        kept = {name: answer.headers[name] for name in _HEADERS if name in answer.headers}
        self.said.append((answer.status_code, kept, self._masked(json.loads(answer.text, parse_float=str))))
        return answer.json().get("data")

    async def pull(self, bot: str = "bot-1", **options: Any) -> list[dict[str, Any]]:
        return (await self.post("pull/", {"bot_id": bot, **options}, bot=bot))["jobs"]

    async def submit(self, job: dict[str, Any], bot: str = "bot-1", **fields: Any) -> Any:
        return await self.post("submit/", {"bot_id": bot, **outcome(job, **fields)}, bot=bot)

    async def hold(self, endpoint: str, *jobs: dict[str, Any], bot: str = "bot-1") -> Any:
        held = [{"job_id": job["job_id"], "lock_token": job["lock_token"]} for job in jobs]
        return await self.post(endpoint, {"bot_id": bot, "jobs": held}, bot=bot)

    def _masked(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._masked(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._masked(inner) for inner in value]
        if isinstance(value, str):
            numbered = _ID.sub(lambda m: self._ids.setdefault(m[0], f"id-{len(self._ids)}"), value)
            return _TIME.sub("<time>", numbered)
        return value


class Fake(Plane):
    def __init__(self, plane: FakeControlPlane, http: httpx2.AsyncClient) -> None:
        super().__init__(http)
        self.plane = plane

    async def add(self, url: str = URL, **options: Any) -> None:
        self.plane.add(url, **options)

    async def skip(self, seconds: float) -> None:
        self.plane.skip(seconds)

    async def new_token(self, bot: str) -> str:
        return self.plane.token(bot)


class Real(Plane):
    def __init__(self, opilio: Opilio, clock: FixedClock, http: httpx2.AsyncClient) -> None:
        super().__init__(http)
        self.opilio = opilio
        self.clock = clock
        self.key = ""

    async def add(self, url: str = URL, **options: Any) -> None:
        timeout = options.pop("timeout_seconds", 600) / 60
        fields = {"url": url, "timeout_minutes": timeout, "retry_backoff_minutes": 0.01, **options}
        self.key = self.key or (await self.opilio.credentials.new_key("test", "write"))[1]
        headers = {"authorization": f"Bearer {self.key}"}
        answer = await self.http.post("/api/v1/policies", json=fields, headers=headers)
        assert answer.status_code == 201, answer.text
        await self.opilio.scheduler.create_due()

    async def skip(self, seconds: float) -> None:
        self.clock.at += timedelta(seconds=seconds)
        await self.opilio.lock_expiry.run_once()

    async def new_token(self, bot: str) -> str:
        return (await self.opilio.credentials.new_bot_token(bot))[1]


def outcome(job: dict[str, Any], **fields: Any) -> dict[str, Any]:
    said = {
        "job_id": job["job_id"],
        "lock_token": job["lock_token"],
        "success": True,
        "price": 1.10,
        "currency": "EUR",
        **fields,
    }
    return {name: value for name, value in said.items() if value is not ...}
