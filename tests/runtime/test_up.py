"""`opilio up`: one tree, one owner, nothing lost, nothing left behind."""

import ipaddress
import json
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.runtime.conftest import free_port, gone, http, wait_until


@pytest.fixture
def up(tree, data_dir):
    """An instance on its own port; start it again with the same words."""
    port = str(free_port())

    def start(*words: str):
        return tree("up", "--data-dir", str(data_dir), "--port", port, "--no-demo", "--json", *words)

    return start


def postmaster(data_dir: Path) -> int | None:
    file = data_dir / "postgres" / "postmaster.pid"
    return int(file.read_text().split()[0]) if file.exists() else None


def test_it_works_and_stops_cleanly(up, data_dir):
    instance = up()
    ready = instance.ready()
    assert http(f"{ready['url']}/readyz")[0] == 200  # ready when it says so, not before
    assert ready["login_url"].startswith(f"{ready['url']}/login/opl_")
    assert ready["bot_token"].startswith("opb_")
    assert ready["data_dir"] == str(data_dir)
    note = json.loads((data_dir / "opilio.json").read_text())
    assert (note["pid"], note["url"]) == (instance.process.pid, ready["url"])
    assert (data_dir / "first-bot.token").stat().st_mode & 0o077 == 0
    pids = [child.pid for child in instance.children().values()]
    assert len(pids) == 2
    began = time.monotonic()
    assert instance.stop() == 0
    assert time.monotonic() - began < 30  # a second or two on an idle machine
    assert all(gone(pid) for pid in pids)
    assert postmaster(data_dir) is None
    assert not (data_dir / "opilio.json").exists()
    assert "Traceback" not in instance.errors.read_text()


def test_a_person_gets_one_block(tree, data_dir):
    port = str(free_port())
    instance = tree("up", "--data-dir", str(data_dir), "--port", port, "--no-demo")
    block = [instance.process.stdout.readline() for _ in range(10)]
    text = "".join(block)
    assert f"http://127.0.0.1:{port}/login/opl_" in text
    assert "Bot token  opb_" in text
    assert f"Data       {data_dir}" in text
    assert instance.stop(signal.SIGINT) == 0


def test_nothing_listens_beyond_this_machine(up, data_dir):
    instance = up()
    instance.ready()
    pids = {instance.process.pid, postmaster(data_dir), *(c.pid for c in instance.children().values())}
    listening = [
        c for c in psutil.net_connections("inet") if c.pid in pids and c.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert all(ipaddress.ip_address(c.laddr.ip).is_loopback for c in listening), listening


def test_a_second_one_on_the_same_directory_says_who_holds_it(up, tree, data_dir):
    first = up()
    first.ready()
    second = tree("up", "--data-dir", str(data_dir), "--port", str(free_port()), "--no-demo")
    assert second.process.wait(60) == 1
    said = second.errors.read_text()
    assert f"process {first.process.pid}" in said
    assert len(said.splitlines()) == 1
    assert first.process.poll() is None


def test_a_held_port_is_said_by_whom(up, tree, tmp_path):
    first = up()
    port = first.ready()["url"].rpartition(":")[2]
    second = tree("up", "--data-dir", str(tmp_path / "other"), "--port", port, "--no-demo")
    assert second.process.wait(60) == 1
    said = second.errors.read_text()
    assert f"Port {port}" in said
    assert f"process {first.children()['api'].pid} of another Opilio" in said
    assert len(said.splitlines()) == 1


def test_killed_and_started_again_nothing_is_lost_or_left(up, data_dir, opilio_words):
    instance = up()
    before = instance.ready()
    policy = opilio_words("policies", "add", "https://a.example/1")
    server, pids = postmaster(data_dir), [c.pid for c in instance.children().values()]
    assert instance.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: all(gone(pid) for pid in pids))
    psutil.Process(server).kill()  # the worst: the whole machine went
    wait_until(lambda: gone(server))
    again = up()
    after = again.ready()
    assert after["bot_token"] == before["bot_token"]
    assert policy in opilio_words("policies", "list", "--json")
    wait_until(lambda: json.loads(opilio_words("jobs", "list", "--json"))["items"])
    assert again.stop() == 0
    assert postmaster(data_dir) is None  # the killed one's claim on the server is forgotten


def test_postgres_that_was_killed_comes_back(up, data_dir):
    instance = up()
    url = instance.ready()["url"]
    killed = postmaster(data_dir)
    psutil.Process(killed).kill()
    wait_until(lambda: postmaster(data_dir) not in (None, killed))
    wait_until(lambda: http(f"{url}/readyz")[0] == 200)
    assert instance.process.poll() is None


@pytest.mark.parametrize("role", ["api", "scheduler"])
def test_a_child_that_was_killed_comes_back(up, role):
    instance = up()
    url = instance.ready()["url"]
    killed = wait_until(lambda: _child(instance, role))
    killed.kill()
    wait_until(lambda: (child := _child(instance, role)) and child.pid != killed.pid)
    wait_until(lambda: http(f"{url}/readyz")[0] == 200)
    assert "child.ended" in instance.errors.read_text()


def _child(instance, role):
    return next((c for words, c in instance.children().items() if role in (words, *c.cmdline())), None)


def test_a_bot_that_waits_does_not_keep_it_from_stopping(up):
    instance = up()
    ready = instance.ready()
    body = {"bot_id": ready["bot_id"], "wait_seconds": 30}
    waiting = threading.Thread(
        target=http, args=(f"{ready['url']}/api/crawl/pull/", body, ready["bot_token"])
    )
    waiting.start()
    wait_until(lambda: '"bot_pulls' in (page := http(f"{ready['url']}/metrics")[1]) or "bot_pulls" in page)
    began = time.monotonic()
    assert instance.stop() == 0
    assert time.monotonic() - began < 20  # not the half minute that the bot would wait
    waiting.join(60)


def test_the_api_tells_the_metrics_of_all(up, opilio_words):
    url = up().ready()["url"]
    opilio_words("policies", "add", "https://a.example/1")
    page = wait_until(lambda: "jobs_created_total 1.0" in (page := http(f"{url}/metrics")[1]) and page)
    assert "database_up 1.0" in page


def test_a_login_link_knows_the_port_and_ends_with_a_password(up, opilio_words):
    instance = up()
    url = instance.ready()["url"]
    assert opilio_words("login").startswith(f"{url}/login/opl_")
    assert '"runs at' in opilio_words("doctor", "--json") or url in opilio_words("doctor", "--json")


@pytest.fixture
def opilio_words(data_dir):
    """A command beside the instance; its stdout."""
    import subprocess
    import sys

    def run(*words: str) -> str:
        line = [sys.executable, "-m", "opilio", *words, "--data-dir", str(data_dir)]
        return subprocess.run(line, check=True, capture_output=True, text=True, timeout=120).stdout.strip()

    return run
