"""`opilio bot run` against the fake control plane."""

import asyncio
import json
import os
import signal
import sys

import pytest
from typer.testing import CliRunner

from opilio.cli.bot import app
from tests.bot.testkit import Site

PROGRAM = "from opilio.cli.bot import app; app()"


async def start(*args: str, **env: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        "run",
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), err.decode()


async def test_it_works_as_json_lines(plane):
    async with Site().serving() as site, plane.serving() as server:
        good, gone = plane.add(site.html("/p/1")), plane.add(site.address + "/gone")
        token = plane.token("any-name")
        process = await start(
            "--server", server, "--token", token, "--allow-private", "127.0.0.1/32", "--once", "--json"
        )
        code, out, err = await ended(process)
    assert (code, err) == (0, "")
    lines = {line["url"]: line for line in map(json.loads, out.splitlines())}
    assert lines[site.address + "/p/1"]["price"] == 49.9
    assert lines[site.address + "/p/1"]["status"] == "done"
    assert lines[site.address + "/gone"]["error_code"] == "CONTENT_NOT_FOUND"
    assert (plane.job(good).status, plane.job(gone).status) == ("done", "failed")


async def test_lines_for_people_and_settings_from_the_environment(plane):
    async with Site().serving() as site, plane.serving() as server:
        plane.add(site.html("/p/1"))
        settings = {
            "OPILIO_SERVER": server,
            "OPILIO_BOT_TOKEN": plane.token("b"),
            "OPILIO_BOT_ID": "b",
            "OPILIO_BOT_ALLOW_PRIVATE": "true",
        }
        code, out, _ = await ended(await start("--once", **settings))
    assert code == 0
    assert out == f"done     49.90 EUR                {site.address}/p/1\n"


async def test_private_addresses_are_refused_unless_allowed(plane):
    async with Site().serving() as site, plane.serving() as server:
        job = plane.add(site.html("/p/1"))
        await ended(await start("--server", server, "--token", plane.token("b"), "--once"))
    assert plane.job(job).outcome.error_code == "INVALID_URL"
    assert site.asked == []


async def test_ctrl_c_ends_it(plane):
    async with plane.serving() as server:
        process = await start("--server", server, "--token", plane.token("b"), "--bot-id", "b")
        line = await asyncio.wait_for(process.stderr.readline(), 60)
        assert line.decode() == f"The bot b is connected to {server} and waits for jobs.\n"
        process.send_signal(signal.SIGINT)
        assert await ended(process) == (0, "", "")


async def test_a_wrong_token_is_one_line_and_exit_1(plane):
    async with plane.serving() as server:
        code, out, err = await ended(await start("--server", server, "--token", "wrong"))
    assert (code, out) == (1, "")
    assert err == (
        f"opilio bot run: {server} does not accept the token: the token or API key is unknown or was revoked "
        "(unauthorized); `opilio bots token BOT_ID` prints a new one.\n"
    )


@pytest.mark.parametrize(
    "args",
    [["--capabilities", "ftp"], ["--allow-private", "not-a-network"], ["--concurrency", "0"], ["--nonsense"]],
)
def test_usage_errors_exit_2(args):
    assert CliRunner().invoke(app, ["run", "--token", "t", *args]).exit_code == 2


def test_a_missing_token_says_how_to_get_one():
    result = CliRunner().invoke(app, ["run"], env={"OPILIO_BOT_TOKEN": ""})
    assert result.exit_code == 1
    assert "opilio bots token" in result.stderr
