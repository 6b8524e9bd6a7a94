"""The Bot Developer Guide cannot rot: its snippets run, its bodies fit the contracts, its tables are complete."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from opilio.bot.error_codes import of_status
from opilio.contracts import bot_api
from opilio.contracts.codes import CODES, ErrorCode, worth_retrying
from opilio.contracts.envelope import STATUS_OF, ErrorBody
from opilio.net.loopback_server import Reply
from tests.bot.testkit import Site

GUIDE = (Path(__file__).parents[2] / "docs" / "how-to" / "bot-guide.md").read_text()
EXAMPLES = Path(__file__).parents[2] / "examples"
SNIPPETS = dict(re.findall(r"<!-- run: (\S+) -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL))
BODIES = re.findall(r"<!-- contract: (\S+) -->\n```json\n(.*?)```", GUIDE, re.DOTALL)


async def run(plane, server: str, *command: str, cwd: Path) -> None:
    """Runs a bot from the guide until every job is at its end, then asks it to stop."""
    env = {
        **os.environ,
        "OPILIO_SERVER": server,
        "OPILIO_BOT_TOKEN": plane.token("guide"),
        "OPILIO_BOT_ID": "guide",
    }
    process = await asyncio.create_subprocess_exec(*command, env=env, cwd=cwd)
    try:
        await plane.settled(60)
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 30)
    finally:
        if process.returncode is None:
            process.kill()


@pytest.mark.parametrize(("name", "body"), BODIES)
def test_bodies_fit_the_contracts(name, body):
    assert msgspec.json.decode(body, type=getattr(bot_api, name))


def test_every_field_of_a_submit_is_in_its_table():
    section = GUIDE.split("### Submit\n")[1].split("### Submit in batches")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert set(listed) == set(bot_api.SubmitRequest.__struct_fields__)


async def test_the_bot_of_the_readme_stores_a_price(plane, tmp_path):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    snippet = re.search(r"```python\n(.*?)```", readme, re.DOTALL).group(1)
    bot_py = tmp_path / "bot.py"
    async with plane.serving() as server:
        job_id = plane.add("https://shop.example/1")
        settings = {"http://127.0.0.1:8000": server, "opb_…": plane.token("first-bot")}
        for written, here in settings.items():
            assert written in snippet
            snippet = snippet.replace(written, here)
        fetching = (
            "from types import SimpleNamespace\n"
            "async def fetch(url): return SimpleNamespace(price='19.90', in_stock=True)\n"
        )
        bot_py.write_text(fetching + snippet)
        await run(plane, server, sys.executable, str(bot_py), cwd=tmp_path)
    outcome = plane.job(job_id).outcome
    assert (bytes(outcome.price), outcome.currency, outcome.in_stock) == (b"19.90", "USD", True)


def test_every_body_of_the_bot_api_is_shown():
    shown = {name for name, _ in BODIES}
    assert {
        "PullRequest",
        "SubmitRequest",
        "BatchRequest",
        "HeldRequest",
        "DoneAnswer",
        "RetryAnswer",
    } <= shown


async def test_the_quick_start(plane, tmp_path):
    async with Site().serving() as site, plane.serving() as server:
        job = plane.add(site.html("/p"))
        await run(plane, server, sys.executable, "-c", SNIPPETS["quick-start"], cwd=tmp_path)
    assert bytes(plane.job(job).outcome.price) == b"49.90"


async def test_a_bot_says_in_one_line_that_it_is_connected_and_in_one_that_its_token_is_wrong(plane):
    program = (
        "import sys; from opilio.bot import Bot; bot = Bot(sys.argv[1], sys.argv[2])\n"
        "@bot.handler()\nasync def crawl(job): return {}\n"
        "bot.run()"
    )
    async with plane.serving() as server:
        for token, said in (
            (plane.token("my-bot"), "The bot my-bot is connected to"),
            ("wrong", "does not accept"),
        ):
            bot = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", program, server, token), stderr=asyncio.subprocess.PIPE
            )
            line = (await asyncio.wait_for(bot.stderr.readline(), 30)).decode()
            assert said in line
            if bot.returncode is None and token != "wrong":
                bot.send_signal(signal.SIGTERM)
            _, rest = await asyncio.wait_for(bot.communicate(), 30)
            assert (bot.returncode, rest) == (1 if token == "wrong" else 0, b"")


async def test_the_complete_bot_in_python(plane, tmp_path):
    async with Site().serving() as site, Site().serving("127.0.0.2") as other, plane.serving() as server:
        answer = {"cents": 123450, "currency": "EUR", "name": "Lamp", "stock": 3}
        site.pages["/api/1"] = Reply(200, json.dumps(answer).encode())
        site.pages["/api/2"] = Reply(200, json.dumps({"discontinued": True}).encode())
        sold, gone = plane.add(site.address + "/api/1"), plane.add(site.address + "/api/2")
        page = plane.add(other.html("/p"))
        await run(plane, server, sys.executable, "-c", SNIPPETS["python-bot"], cwd=tmp_path)
    assert (bytes(plane.job(sold).outcome.price), plane.job(sold).outcome.data) == (b"1234.5", {"stock": 3})
    assert plane.job(gone).outcome.error_code == "CONTENT_REMOVED"
    assert bytes(plane.job(page).outcome.price) == b"49.90"


async def test_the_complete_bot_in_shell(plane, tmp_path):
    assert shutil.which("curl"), "this test needs curl"
    async with Site().serving() as site, plane.serving() as server:
        site.pages["/busy"] = Reply(429)
        good = plane.add(site.html("/p", "<title>Lamp</title>"))
        gone, busy = plane.add(site.address + "/gone"), plane.add(site.address + "/busy", max_retries=0)
        assert (EXAMPLES / "shell_bot.sh").read_text() == SNIPPETS["shell-bot"]
        await run(plane, server, "sh", str(EXAMPLES / "shell_bot.sh"), cwd=tmp_path)
    assert plane.job(good).outcome.data == {"title": "Lamp"}
    assert plane.job(gone).outcome.error_code == "CONTENT_NOT_FOUND"
    assert (plane.job(busy).outcome.error_code, plane.job(busy).outcome.retry_after) == ("RATE_LIMITED", 60)


def test_the_testing_snippet():
    subprocess.run([sys.executable, "-c", SNIPPETS["testing"]], check=True, timeout=30)


def test_every_error_code_is_there_with_its_verdict():
    for category, codes in CODES.items():
        [row] = re.findall(rf"^\| {category} \| (.*) \| (yes|no) \|$", GUIDE, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", row[0])) == set(codes)
        assert (row[1] == "yes") is worth_retrying(codes[0])
    assert len(ErrorCode) == 21


def test_every_code_of_an_answer_is_there_with_its_status():
    table = GUIDE.partition("### Codes of answers")[2].partition("###")[0]
    elsewhere = {"not_found", "method_not_allowed", "conflict", "unsupported_media_type"}
    for code, status in STATUS_OF.items():
        if code not in elsewhere:
            assert re.search(rf"`{code}`.*\| .*{status}", table), code


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (404, "CONTENT_NOT_FOUND"),
        (410, "CONTENT_REMOVED"),
        (451, "CONTENT_UNAVAILABLE"),
        (503, "RATE_LIMITED"),
    ],
)
def test_what_the_sdk_makes_of_statuses(status, code):
    assert of_status(status, {}).code == code
    assert re.search(rf"\| .*{status}.*\| .*`{code}`", GUIDE)


def test_every_parameter_of_the_bot_is_there():
    import inspect

    from opilio.bot import Bot

    named = set(inspect.signature(Bot).parameters) - {"server", "token"}
    assert {name for name in named if f"| `{name}` |" in GUIDE} == named


def test_links_within_the_guide_lead_somewhere():
    headings = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", GUIDE, re.MULTILINE)
    }
    assert [link for link in re.findall(r"\]\(#([^)]+)\)", GUIDE) if link not in headings] == []


def test_both_envelopes_are_shown():
    plain = re.findall(r"(?<!-->\n)```json\n(.*?)```", GUIDE, re.DOTALL)
    shown = [json.loads(block) for block in plain if '"success"' in block][:2]
    assert [block["success"] for block in shown] == [True, False]
    assert msgspec.convert(shown[1]["error"], ErrorBody)
