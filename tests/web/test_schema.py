"""The served OpenAPI document, and every endpoint against it with generated input, hostile input included."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from opilio.access.credentials import Credentials
from opilio.adapters.postgres import Database
from opilio.web.openapi import document
from tests.conftest import TEMPLATE, database_at
from tests.web.running import Server


@pytest.fixture(scope="module")
async def live(server_url, tmp_path_factory) -> Iterator[tuple[str, dict[str, str]]]:
    """A real server with a key and a bot token."""
    name = f"schema_{uuid4().hex}"
    connection = await asyncpg.connect(server_url)
    await connection.execute(f"create database {name} template {TEMPLATE}")
    await connection.close()
    url = database_at(server_url, name)
    database = await Database.connect(url)
    credentials = Credentials(database)
    tokens = {
        "key": (await credentials.new_key("schema", "admin"))[1],
        "bot": (await credentials.new_bot_token("bot-1"))[1],
    }
    await database.close()
    server = await asyncio.to_thread(Server(url, tmp_path_factory.mktemp("server")).start)
    yield server.url, tokens
    await asyncio.to_thread(server.stop)


OPERATIONS = [found.ok() for found in schemathesis.openapi.from_dict(document()).get_all_operations()]


# Not `schema.parametrize`: all its tests have one name, and pytest-xdist runs one test of a name.
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_endpoint_keeps_its_word(operation, mode, live) -> None:
    token = live[1]["bot" if operation.path.startswith("/api/crawl") else "key"]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    def keeps_its_word(case) -> None:
        case.call_and_validate(
            base_url=live[0],
            headers={"Authorization": f"Bearer {token}"},
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
        )

    keeps_its_word()


async def test_the_document_is_served(site) -> None:
    served = (await site.nobody.call("GET", "/schema/openapi.json")).json()
    assert served["openapi"] == "3.1.0"
    assert "/api/crawl/pull" in served["paths"]
    assert (await site.nobody.call("GET", "/schema")).json() == served
    page = await site.nobody.call("GET", "/schema", headers={"accept": "text/html"})
    assert "swagger-ui" in page.text


def test_fields_that_may_be_left_out_are_not_required() -> None:
    schemas = document()["components"]["schemas"]
    assert {"completed_at", "updated_at"}.isdisjoint(schemas["Progress"]["required"])
    assert {"stalled_at", "waiting_for"}.isdisjoint(schemas["Project"]["required"])
    assert "finished_at" in schemas["Project"]["required"]  # null is sent
