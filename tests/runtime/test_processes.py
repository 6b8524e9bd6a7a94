"""Who holds a directory or a port."""

import os
import socket
import subprocess
import sys

import pytest

from opilio.errors import Unavailable
from opilio.runtime.instance_file import find_instance, instance_file_written, url_of
from opilio.runtime.processes import hold_directory, holder_of_port, require_free_port
from opilio.runtime.settings import load_settings


@pytest.fixture
def taken():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def test_a_held_port_is_said_by_whom(taken):
    with pytest.raises(Unavailable, match=rf"Port {taken} .* held by process {os.getpid()}"):
        require_free_port("127.0.0.1", taken)
    assert f"process {os.getpid()}" in holder_of_port(taken)


def test_a_port_shared_by_its_holder_is_held_all_the_same():
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        held.listen()
        with pytest.raises(Unavailable):
            require_free_port("127.0.0.1", held.getsockname()[1])


def test_a_free_port_is_free_at_once_after_use(taken):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    require_free_port("127.0.0.1", port)


def test_an_address_that_is_none():
    with pytest.raises(Unavailable, match="cannot be used"):
        require_free_port("no.such.host.invalid", 8000)


def test_a_directory_has_one_holder_and_is_free_after_it(tmp_path):
    code = (
        "import sys, pathlib; from opilio.runtime.processes import hold_directory\n"
        f"with hold_directory(pathlib.Path({str(tmp_path)!r})):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(Unavailable, match=f"process {holder.pid}"), hold_directory(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    with hold_directory(tmp_path):
        pass


def test_the_note_of_a_running_instance(tmp_path):
    settings = load_settings(data_dir=tmp_path, port=8123)
    assert find_instance(tmp_path) is None
    with instance_file_written(settings) as running:
        assert find_instance(tmp_path) == running
        assert (running.pid, running.port, running.url) == (os.getpid(), 8123, "http://127.0.0.1:8123")
    assert find_instance(tmp_path) is None


@pytest.mark.parametrize(
    "left", ["", "{", "[]", '{"pid": 4194304, "port": 1, "url": "u", "started_at": "t"}', '{"pid": 1}']
)
def test_a_note_left_by_one_that_was_killed_does_not_count(tmp_path, left):
    (tmp_path / "opilio.json").write_text(left)
    assert find_instance(tmp_path) is None


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"host": "0.0.0.0", "port": 81}, "http://127.0.0.1:81"),
        ({"host": "::1"}, "http://[::1]:8000"),
        ({"public_url": "https://crawl.example/"}, "https://crawl.example"),
    ],
)
def test_where_people_go(settings, url):
    assert url_of(load_settings(**settings)) == url
