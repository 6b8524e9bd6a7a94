"""`opilio webhooks`, `opilio events` and `opilio dlq`, against a receiver that verifies what it gets."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import asyncpg
import pytest
from standardwebhooks import Webhook

from opilio.adapters.postgres import Database
from opilio.delivery.outbox.relay import Relay
from opilio.delivery.outbox.routing import to_broker
from opilio.loop import drain
from opilio.runtime.settings import load_settings
from tests.delivery.replays import assert_replayed_as_it_was, one_dead_letter


class Receiver(ThreadingHTTPServer):
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Stays quiet."""


@pytest.fixture
def receiver(monkeypatch) -> Iterator[Receiver]:
    monkeypatch.setenv("OPILIO_WEBHOOK_ALLOW_PRIVATE", "127.0.0.0/8")
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def endpoint(opilio_command, receiver) -> dict:
    return opilio_command("webhooks", "add", receiver.url, "--events", "crawl.job.*,policy.*", "--json").json


async def _emit(database_url: str, *numbers: int) -> None:
    database = await Database.connect(database_url)
    try:
        async with database.session() as session:
            await session.connection.executemany(
                "insert into event (type, subject, data, occurred_at) values ('crawl.job.completed', 's', $1, now())",
                [({"n": number},) for number in numbers],
            )
        await drain(Relay(database, to_broker).run_once)
    finally:
        await database.close()


def emit(database_url: str, *numbers: int) -> None:
    asyncio.run(_emit(database_url, *numbers))


class TestWebhooks:
    def test_a_person_adds_one_and_tries_it(self, opilio_command, receiver):
        added = opilio_command("webhooks", "add", receiver.url, "--events", "crawl.job.*")
        assert added.code == 0, added.err
        words = dict(line.split() for line in added.out.splitlines())
        assert opilio_command("webhooks", "test", words["id"]).code == 0
        [(headers, body)] = receiver.got
        assert Webhook(words["secret"]).verify(body, headers)["type"] == "webhook.test"
        [attempt] = opilio_command("webhooks", "attempts", words["id"], "--json").json["items"]
        assert (attempt["type"], attempt["status"], attempt["outcome"]) == ("webhook.test", 200, "delivered")

    def test_a_secret_is_shown_once(self, opilio_command, endpoint):
        assert endpoint["secret"].startswith("whsec_")
        assert endpoint["events"] == ["crawl.job.*", "policy.*"]
        for words in (["list"], ["show", endpoint["id"]]):
            assert endpoint["secret"] not in opilio_command("webhooks", *words, "--json").out

    def test_a_test_that_is_not_taken_fails_and_says_why(self, opilio_command, endpoint, receiver):
        receiver.status = 503
        outcome = opilio_command("webhooks", "test", endpoint["id"])
        assert outcome.code == 1
        assert "not delivered" in outcome.err
        assert "503" in outcome.err

    def test_events_of_the_past_are_queued_and_none_twice(self, opilio_command, receiver, database_url):
        emit(database_url, 1, 2, 3)
        id_ = opilio_command("webhooks", "add", receiver.url, "--events", "*", "--json").json["id"]
        newest = opilio_command("events", "list", "--json").json["items"][0]["id"]
        assert opilio_command("webhooks", "replay", id_, "--event", newest).out == "1 queued\n"
        assert opilio_command("webhooks", "replay", id_, "--since", "1h", "--json").json["replayed"] == 2

    @pytest.mark.parametrize("words", [[], ["--since", "1h", "--event", str(uuid4())]])
    def test_a_replay_says_what_of(self, opilio_command, endpoint, words):
        outcome = opilio_command("webhooks", "replay", endpoint["id"], *words)
        assert outcome.code == 2
        assert "either --since or --event" in outcome.err

    def test_it_is_switched_off_on_and_removed(self, opilio_command, endpoint):
        id_ = endpoint["id"]
        assert opilio_command("webhooks", "disable", id_).out == "disabled\n"
        assert opilio_command("webhooks", "enable", id_).out == "active\n"
        new = opilio_command("webhooks", "rotate", id_, "--overlap-hours", "1").out.strip()
        assert new.startswith("whsec_")
        assert new != endpoint["secret"]
        assert opilio_command("webhooks", "delete", id_, "--json").json["deleted"]
        gone = opilio_command("webhooks", "show", id_)
        assert gone.code == 1
        assert id_ in gone.err

    def test_a_private_address_is_refused(self, opilio_command):
        outcome = opilio_command("webhooks", "add", "http://10.0.0.1/", "--events", "*")
        assert outcome.code == 1
        assert "OPILIO_WEBHOOK_ALLOW_PRIVATE" in outcome.err


class TestEvents:
    def test_they_are_listed_by_type(self, opilio_command, database_url):
        emit(database_url, 1, 2)
        assert len(opilio_command("events", "list", "--type", "crawl.job.*", "--json").json["items"]) == 2
        assert opilio_command("events", "list", "--type", "policy.*", "--json").json["items"] == []

    def test_a_program_that_reads_the_tail_sees_each_event_at_once(self, database_url, tmp_path):
        tail = subprocess.Popen(
            [sys.executable, "-m", "opilio", "events", "tail", "--since", "1h", "--json"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPILIO_DATABASE_URL": database_url, "OPILIO_DATA_DIR": str(tmp_path)},
        )
        try:
            emit(database_url, 1)
            assert json.loads(tail.stdout.readline())["data"] == {"n": 1}
            emit(database_url, 2)
            assert json.loads(tail.stdout.readline())["data"] == {"n": 2}
        finally:
            tail.kill()
            tail.wait()
            tail.stdout.close()


class TestDeadLetters:
    @pytest.fixture
    def letter(self, database_url) -> str:
        return asyncio.run(self._dead_letter_unroutable(database_url))

    async def _dead_letter_unroutable(self, database_url: str) -> str:
        connection = await asyncpg.connect(database_url)
        try:
            return str(
                await connection.fetchval(
                    "insert into dead_letter (queue, source, reason, exchange, routing_key, message_id, headers, body, dead_at) "
                    "values ('collector.results.dlq', 'collector.results', 'no project', 'collector.results', "
                    "'crawler.tiktok.result', 'm1', '{}', '{\"a\": 1}', now()) returning dead_letter_id"
                )
            )
        finally:
            await connection.close()

    def test_they_are_listed_and_shown(self, opilio_command, letter):
        [listed] = opilio_command("dlq", "list", "--queue", "collector.results.dlq", "--json").json["items"]
        assert (listed["id"], listed["reason"]) == (letter, "no project")
        assert opilio_command("dlq", "list", "--queue", "webhooks.dlq", "--json").json["items"] == []
        assert "no project" in opilio_command("dlq", "show", letter).out

    def test_it_is_replayed_as_it_was_published(self, opilio_command, database_url, tmp_path):
        settings = load_settings(data_dir=tmp_path, database_url=database_url)
        letter = asyncio.run(self._with_database(database_url, lambda db: one_dead_letter(db, settings)))
        assert "replayed to collector.results" in opilio_command("dlq", "replay", str(letter)).out
        asyncio.run(self._with_database(database_url, assert_replayed_as_it_was))

    async def _with_database(self, database_url: str, work):
        database = await Database.connect(database_url)
        try:
            return await work(database)
        finally:
            await database.close()

    def test_an_unknown_one_is_reported(self, opilio_command):
        outcome = opilio_command("dlq", "replay", str(uuid4()))
        assert outcome.code == 1
        assert outcome.err.count("\n") == 1
