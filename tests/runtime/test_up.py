"""`opilio up`: one tree, one owner, nothing lost, nothing left behind."""

import ipaddress
import json
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.runtime.conftest import copied, free_port, gone, http, opilio, trees, wait_until


def postmaster(data_dir: Path) -> int | None:
    file = data_dir / "postgres" / "postmaster.pid"
    return int(file.read_text().split()[0]) if file.exists() else None


# ── one that runs ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def running(prepared, tmp_path_factory):
    """An instance that no test harms."""
    folder = tmp_path_factory.mktemp("running")
    data_dir = copied(prepared, folder)
    with trees(folder) as start:
        tree = start("up", "--data-dir", str(data_dir), "--port", str(free_port()), "--no-demo", "--json")
        yield SimpleNamespace(tree=tree, ready=tree.ready(), data_dir=data_dir, pid=tree.process.pid)


def test_it_is_ready_when_it_says_so(running):
    ready = running.ready
    assert http(f"{ready['url']}/readyz")[0] == 200
    assert ready["login_url"].startswith(f"{ready['url']}/login/opl_")
    assert http(ready["login_url"])[0] == 200
    assert http(f"{ready['url']}/api/crawl/pull/", {"bot_id": ready["bot_id"]}, ready["bot_token"])[0] == 200
    assert ready["data_dir"] == str(running.data_dir)


def test_it_leaves_a_note_and_keeps_its_secret(running):
    note = json.loads((running.data_dir / "opilio.json").read_text())
    assert (note["pid"], note["url"]) == (running.pid, running.ready["url"])
    assert (running.data_dir / "first-bot.token").stat().st_mode & 0o077 == 0


def test_nothing_listens_beyond_this_machine(running):
    pids = {running.pid, postmaster(running.data_dir), *(c.pid for c in running.tree.children().values())}
    listening = [
        c for c in psutil.net_connections("inet") if c.pid in pids and c.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert all(ipaddress.ip_address(c.laddr.ip).is_loopback for c in listening), listening


def test_a_second_one_on_the_same_directory_says_who_holds_it(running, tree):
    words = ("--data-dir", str(running.data_dir), "--port", str(free_port()), "--no-demo")
    second = tree("up", *words)
    assert second.process.wait(60) == 1
    said = second.errors.read_text()
    assert f"process {running.pid}" in said
    assert len(said.splitlines()) == 1


def test_a_held_port_is_said_by_whom(running, tree, tmp_path):
    port = running.ready["url"].rpartition(":")[2]
    second = tree("up", "--data-dir", str(tmp_path / "other"), "--port", port, "--no-demo")
    assert second.process.wait(60) == 1
    said = second.errors.read_text()
    assert f"Port {port}" in said
    assert f"process {running.tree.children()['api'].pid} of another Opilio" in said
    assert len(said.splitlines()) == 1


def test_commands_find_it_by_its_directory(running):
    assert opilio(running.data_dir, "login").startswith(f"{running.ready['url']}/login/opl_")
    found = {f["subject"]: f for f in json.loads(opilio(running.data_dir, "doctor", "--json"))["findings"]}
    assert running.ready["url"] in found["server"]["said"]
    assert found["scheduler"]["said"] == "runs"


def test_the_api_exports_the_metrics_of_all_workers(running):
    opilio(running.data_dir, "policies", "add", "https://a.example/metrics")
    url = f"{running.ready['url']}/metrics"
    page = wait_until(lambda: "jobs_created_total 1.0" in (page := http(url)[1]) and page)
    assert "database_up 1.0" in page


# ── stopped, killed, started again ───────────────────────────────────────────────────────────────


@pytest.fixture
def up(tree, data_dir):
    """An instance on its own port; start it again with the same words."""
    port = str(free_port())

    def start(*words: str):
        return tree("up", "--data-dir", str(data_dir), "--port", port, "--no-demo", *words)

    return start


def test_a_person_gets_one_block_and_ctrl_c_stops_it(up, data_dir):
    instance = up()
    text = "".join(instance.process.stdout.readline() for _ in range(10))
    assert "/login/opl_" in text
    assert "Bot token  opb_" in text
    assert f"Data       {data_dir}" in text
    pids = [child.pid for child in instance.children().values()]
    assert len(pids) == 2
    began = time.monotonic()
    assert instance.stop(signal.SIGINT) == 0
    assert time.monotonic() - began < 30  # a second or two on an idle machine
    assert all(gone(pid) for pid in pids)
    assert postmaster(data_dir) is None
    assert not (data_dir / "opilio.json").exists()
    assert "Traceback" not in instance.errors.read_text()


def test_a_bot_that_waits_does_not_keep_it_from_stopping(up):
    instance = up("--json")
    ready = instance.ready()
    body = {"bot_id": ready["bot_id"], "wait_seconds": 30}
    waiting = threading.Thread(
        target=http, args=(f"{ready['url']}/api/crawl/pull/", body, ready["bot_token"])
    )
    waiting.start()
    api = instance.children()["api"]
    wait_until(lambda: any(c.status == psutil.CONN_ESTABLISHED for c in api.net_connections("tcp")))
    began = time.monotonic()
    assert instance.stop() == 0
    assert time.monotonic() - began < 25  # not the half minute that the bot would wait
    waiting.join(60)


def test_killed_and_started_again_nothing_is_lost_or_left(up, data_dir):
    instance = up("--json")
    before = instance.ready()
    policy = opilio(data_dir, "policies", "add", "https://a.example/1")
    server, pids = postmaster(data_dir), [c.pid for c in instance.children().values()]
    assert instance.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: all(gone(pid) for pid in pids))
    psutil.Process(server).kill()  # the worst: the whole machine went
    wait_until(lambda: gone(server))
    again = up("--json")
    assert again.ready()["bot_token"] == before["bot_token"]
    assert policy in opilio(data_dir, "policies", "list", "--json")
    wait_until(lambda: json.loads(opilio(data_dir, "jobs", "list", "--json"))["items"])
    assert again.stop() == 0
    assert postmaster(data_dir) is None  # the killed one's claim on the server is forgotten


def test_what_was_killed_in_the_tree_comes_back(up, data_dir):
    instance = up("--json")
    url = instance.ready()["url"]
    children, server = instance.children(), postmaster(data_dir)
    for victim in (*children.values(), psutil.Process(server)):
        victim.kill()
    wait_until(lambda: postmaster(data_dir) not in (None, server))
    wait_until(lambda: instance.children().keys() == children.keys())
    wait_until(lambda: http(f"{url}/readyz")[0] == 200)
    assert instance.errors.read_text().count("child.exited") >= 2
    assert instance.process.poll() is None
