"""The tutorial, command by command as it is printed, on an Opilio with its demo."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.runtime.conftest import free_port, http, wait_until

PAGE = (Path(__file__).parents[2] / "docs/tutorial.md").read_text()
BLOCKS = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)


class Reader:
    """Follows the tutorial in a shell; only the program's place and port are other ones."""

    def __init__(self, data_dir: Path, ready: dict[str, str]) -> None:
        self.url = ready["url"]
        self.env = {
            **os.environ,
            "OPILIO_DATA_DIR": str(data_dir),
            "TOKEN": ready["bot_token"],
            "NO_PROXY": "*",
        }

    def run(self, command: str, **values: str) -> str:
        for shown, real in values.items():
            assert shown in command, (shown, command)
            command = command.replace(shown, real, 1)
        command = command.replace(".venv/bin/opilio", f"{sys.executable} -m opilio")
        command = command.replace("http://127.0.0.1:8000", self.url)
        done = subprocess.run(
            ["bash", "-ec", command], env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def json(self, command: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(f"{command} --json").splitlines()]


def lines(block: str) -> list[str]:
    return re.sub(r"\\\n\s*", "", block).strip().splitlines()


def rows_of(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lists are printed as lines, or as one page with its items."""
    rows: list[dict[str, Any]] = listed[0].get("items", listed)
    return rows


def id_of(row: dict[str, Any]) -> str:
    return str(row.get("id") or row["job_id"])


def demo_processes(pid: int) -> int:
    """How many of the demo's shop, bot and crawlers run below a process."""
    commands = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            commands.append(child.cmdline())
    names = ("opilio.demo", "crawler", "bot")
    return sum(any(name in words for name in names) for words in commands)


def test_every_command_of_the_tutorial(tree, server_dir):
    start, look, why, add, waits, pull, submit, clean_up = BLOCKS
    assert start == "make run\n"
    process = tree("up", "--data-dir", str(server_dir / "data"), "--port", str(free_port()), "--json")
    ready = process.ready()
    reader = Reader(server_dir / "data", ready)
    assert http(ready["login_url"])[0] == 200

    failed, policies = lines(look)
    wait_until(lambda: reader.run(failed).strip().count("\n") >= 1)  # the demo's pages that do not exist
    assert "127.0.0.1" in reader.run(policies)
    assert reader.run(lines(why)[0], ID=id_of(rows_of(reader.json(policies))[0]))

    reader.run(lines(add)[0])
    listed, ask = lines(waits)
    wait_until(lambda: "example.com" in reader.run(listed))
    [job] = [row for row in rows_of(reader.json(listed)) if "example.com" in row["url"]]
    assert "bot" in reader.run(ask, ID=id_of(job))

    [job] = json.loads(reader.run(lines(pull)[0]))["data"]["jobs"]
    assert job["url"] == "https://example.com/product/1"
    command = lines(submit)[0].replace("…", job["job_id"], 1).replace("…", job["lock_token"], 1)
    answer = reader.run(command)
    assert json.loads(answer)["data"]["status"] == "done"
    assert json.loads(reader.run(command)) == json.loads(answer)
    assert "invalid_state" in reader.run(command.replace("99.99", "98.99"))

    # The terminal is a first screen too: the demo's own processes log to a file.
    told = process.errors.read_text()
    assert not re.search(r"simulating|collector\.|WARNING", told), told
    assert demo_processes(process.process.pid) == 3

    reader.run(lines(clean_up)[0])
    assert [row["url"] for row in rows_of(reader.json(policies))] == ["https://example.com/product/1"]
    wait_until(lambda: demo_processes(process.process.pid) == 0)
