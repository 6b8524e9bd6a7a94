"""PostgreSQL that hangs or dies under `opilio up`, and a person who presses Ctrl-C twice."""

import json
import os
import signal
import time

import psutil
import pytest

from tests.runtime.conftest import copied, free_port, gone, http, trees, wait_until
from tests.runtime.test_up import postmaster


@pytest.fixture
def up(prepared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trouble")
    data_dir = copied(prepared, folder)
    with trees(folder) as start:
        tree = start("up", "--data-dir", str(data_dir), "--port", str(free_port()), "--no-demo", "--json")
        yield tree, tree.ready(), data_dir


def postgres_processes(data_dir) -> list[psutil.Process]:
    server = psutil.Process(postmaster(data_dir))
    return [server, *server.children(recursive=True)]


def test_a_postgres_that_hangs_is_reported_within_seconds(up):
    _, ready, data_dir = up
    stopped = postgres_processes(data_dir)
    for process in stopped:
        process.suspend()
    try:
        for _ in range(3):
            began = time.monotonic()
            status, body = http(f"{ready['url']}/readyz")
            assert (status, time.monotonic() - began < 10) == (503, True)
            assert json.loads(body)["error"]["code"] == "unavailable"
        assert http(f"{ready['url']}/healthz")[0] == 200
    finally:
        for process in stopped:
            process.resume()
    wait_until(lambda: http(f"{ready['url']}/readyz")[0] == 200)


def test_while_postgres_is_killed_no_answer_is_500(up):
    _, ready, data_dir = up
    pull = {"bot_id": ready["bot_id"], "max_jobs": 1}
    seen = set()
    for _ in range(2):
        os.kill(postmaster(data_dir), signal.SIGKILL)
        ends = time.monotonic() + 6
        while time.monotonic() < ends:
            seen.add(http(f"{ready['url']}/api/crawl/pull/", pull, ready["bot_token"])[0])
            seen.add(http(f"{ready['url']}/api/v1/stats", token="opk_nobody")[0])
    assert seen <= {200, 401, 503, 0}, seen
    wait_until(lambda: http(f"{ready['url']}/readyz")[0] == 200)


def test_two_quick_signals_leave_no_postgres_behind(up):
    tree, _, data_dir = up
    server = postmaster(data_dir)
    tree.process.send_signal(signal.SIGTERM)
    tree.process.send_signal(signal.SIGINT)
    tree.process.send_signal(signal.SIGTERM)
    tree.process.wait(60)
    wait_until(lambda: gone(server), 20)
