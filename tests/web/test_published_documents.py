"""The OpenAPI and AsyncAPI documents by the validators of their kind, and clients generated from them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import validators


def opilio(*words: str, **environment: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "opilio", *words],
        capture_output=True,
        check=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def openapi(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("openapi") / "openapi.json"
    file.write_text(json.dumps(opilio("openapi")))
    return file


@pytest.fixture(scope="module")
def programs() -> Path:
    return validators.installed()


def operations(openapi: Path) -> set[str]:
    paths = json.loads(openapi.read_text())["paths"]
    return {operation["operationId"] for path in paths.values() for operation in path.values()}


def test_redocly_finds_nothing(openapi, programs):
    words = [programs / "redocly", "lint", openapi, "--format=json", "--max-problems=100"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert [(problem["ruleId"], problem["message"]) for problem in report["problems"]] == []


def test_moments_have_a_format_and_what_is_always_sent_is_required(openapi):
    schemas = json.loads(openapi.read_text())["components"]["schemas"]
    assert schemas["PulledJob"]["properties"]["locked_until"]["format"] == "date-time"
    assert "status" in schemas["DoneAnswer"]["required"]
    assert {"type": "number"} in schemas["DoneAnswer"]["properties"]["price"]["anyOf"]
    assert '"format": "decimal"' not in openapi.read_text()


def test_a_complete_client_in_typescript(openapi, programs, tmp_path):
    client = tmp_path / "client.ts"
    subprocess.run(
        [programs / "openapi-typescript", openapi, "-o", client], check=True, capture_output=True, timeout=120
    )
    subprocess.run(
        [programs / "tsc", "--noEmit", "--strict", client],
        check=True,
        capture_output=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert set(re.findall(r'operations\["(\w+)"\]', client.read_text())) == operations(openapi)


def test_a_complete_client_in_python(openapi, tmp_path):
    uv = str(Path(sys.executable).with_name("uv"))
    words = [uv, "tool", "run", "--quiet", "openapi-python-client==0.29.1", "generate", "--meta", "none"]
    done = subprocess.run(
        [*words, "--path", openapi, "--output-path", tmp_path / "client"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "will not be generated" not in done.stdout + done.stderr
    assert "Unable to process schema" not in done.stdout + done.stderr
    made = {file.stem for file in (tmp_path / "client/api").rglob("*.py")} - {"__init__"}
    assert made == operations(openapi)


def test_the_asyncapi_parser_finds_nothing_and_platforms_are_ours(programs, tmp_path):
    document = opilio("asyncapi", OPILIO_PLATFORMS="facebook,tiktok")
    addresses = {channel["address"] for channel in document["channels"].values()}
    assert "crawler.facebook.queue" in addresses
    assert "crawler.youtube.queue" not in addresses
    file = tmp_path / "asyncapi.json"
    file.write_text(json.dumps(document))
    done = subprocess.run(
        ["node", validators.HERE / "asyncapi.mjs", file],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
