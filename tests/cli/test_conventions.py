"""What holds for every command: --json, --data-dir anywhere, exit codes, one line on stderr."""

import inspect
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from opilio.__main__ import main
from opilio.cli import option_types
from opilio.cli.app import _take_data_dir, app


def leaves(command=None, path=()):
    """Every command of the tree, with the words that lead to it."""
    command = command or get_command(app)
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from leaves(command.get_command(None, name), (*path, name))


def test_the_commands_of_the_specification_are_there():
    found = {" ".join(path) for path, _ in leaves()}
    assert found >= {
        "up", "run", "doctor", "openapi", "login", "config show", "db upgrade", "db downgrade", "db status",
        "keys create", "keys list", "keys revoke", "bots token", "bots list", "bots revoke", "policies add",
        "policies list", "policies import", "policies export", "jobs create-due", "jobs expire", "jobs list",
        "jobs show", "jobs why", "jobs reset", "jobs release", "jobs force-expire", "hosts list", "hosts show", "hosts set",
    }  # fmt: skip


@pytest.mark.parametrize(("path", "command"), [pytest.param(p, c, id=" ".join(p)) for p, c in leaves()])
def test_every_command_takes_json_and_says_what_it_does(path, command):
    assert "--json" in {word for param in command.params for word in param.opts}
    assert command.help


# Words that make each command work on an empty database; the others need something that others have tests for.
READING = {
    "doctor": [],
    "login": [],
    "config show": [],
    "db status": [],
    "db upgrade": [],
    "keys list": [],
    "keys create": ["--name", "x"],
    "bots list": [],
    "bots token": ["b"],
    "policies add": ["https://a.example/"],
    "policies list": [],
    "jobs create-due": [],
    "jobs expire": [],
    "jobs list": [],
    "hosts list": [],
    "hosts set": ["a.example"],
}


@pytest.mark.parametrize("name", READING)
def test_json_is_one_document_and_nothing_else(opilio_command, name):
    outcome = opilio_command(*name.split(), *READING[name], "--json")
    assert outcome.code == 0, outcome.err
    assert isinstance(outcome.json, dict)
    assert outcome.out.count("\n") == 1


def test_logs_do_not_mix_with_the_answer(opilio_process, database_url, tmp_path):
    env = {"OPILIO_DATABASE_URL": database_url, "OPILIO_DATA_DIR": str(tmp_path), "OPILIO_LOG_LEVEL": "debug"}
    outcome = opilio_process("demo", "remove", "--json", **env)
    assert outcome.json == {"removed": 0}
    assert "demo.no_token_yet" in outcome.err


@pytest.mark.parametrize(
    "line",
    [
        ["--data-dir", "D", "jobs", "list"],
        ["jobs", "--data-dir", "D", "list"],
        ["jobs", "list", "--data-dir", "D"],
        ["jobs", "list", "--data-dir=D"],
        ["jobs", "list", "--limit", "3", "--data-dir", "D", "--json"],
    ],
)
def test_the_data_directory_may_be_anywhere(line, monkeypatch):
    monkeypatch.setenv("OPILIO_DATA_DIR", "elsewhere")
    left = _take_data_dir(line)
    assert "D" not in left
    assert left[:2] == ["jobs", "list"]
    assert os.environ["OPILIO_DATA_DIR"] == "D"


def test_behind_two_dashes_words_are_data(monkeypatch):
    monkeypatch.setenv("OPILIO_DATA_DIR", "elsewhere")
    assert _take_data_dir(["bots", "token", "--", "--data-dir"]) == ["bots", "token", "--", "--data-dir"]


@pytest.mark.parametrize(
    "line",
    [
        ["nonsense"],
        ["jobs", "nonsense"],
        ["jobs", "show"],
        ["jobs", "list", "--limit", "501"],
        ["jobs", "--data-dir"],
    ],
)
def test_usage_errors_exit_2_with_one_line(opilio_command, line):
    outcome = opilio_command(*line)
    assert outcome.code == 2
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1
    assert "--help" in outcome.err


@pytest.mark.parametrize("line", [[], ["jobs"]])
def test_a_group_alone_shows_its_help(opilio_command, line):
    outcome = opilio_command(*line)
    assert outcome.code == 2
    assert "Usage: opilio" in outcome.out
    assert outcome.err == ""


def test_a_database_that_is_away_is_one_line(opilio_command, monkeypatch):
    monkeypatch.setenv("OPILIO_DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/x")
    outcome = opilio_command("jobs", "list", "--json")
    assert outcome.code == 1
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1
    assert "OPILIO_DATABASE_URL" in outcome.err
    assert "hunter2" not in outcome.err


def test_a_fault_of_ours_is_one_line_too(opilio_command, monkeypatch):
    monkeypatch.setattr("opilio.cli.keys.run_async", lambda work: work.close() or 1 / 0)
    outcome = opilio_command("keys", "list")
    assert outcome.code == 1
    assert outcome.err.startswith("unexpected error: ZeroDivisionError")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21600), ("7d", 604800), ("1.5h", 5400)]
)
def test_durations(text, seconds):
    assert option_types.duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "24", "h", "-6h", "6 h", "1h30m", "6H", "1e3s", "9" * 400 + "s", "nan"])
def test_what_is_no_duration(text):
    with pytest.raises(typer.BadParameter):
        option_types.duration(text)


def test_the_light_install_says_what_is_missing(monkeypatch):
    monkeypatch.setattr("opilio.__main__.find_spec", lambda name: None)
    monkeypatch.setattr("opilio.cli.extras.find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["opilio"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert "pip install 'opilio[server]'" in str(stopped.value)
    assert "\n" not in str(stopped.value)


def test_help_loads_nothing_heavy():
    probe = (
        "import sys; from opilio.cli.app import run; run(['--help']);"
        "print([m for m in ('litestar', 'asyncpg', 'alembic', 'pydantic', 'uvicorn') if m in sys.modules],"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr.strip() == "[]"


def test_no_colour_where_none_is_wanted(opilio_process, tmp_path: Path):
    outcome = opilio_process("config", "show", "--data-dir", str(tmp_path), NO_COLOR="1")
    assert outcome.code == 0
    assert "\x1b" not in outcome.out + outcome.err


def test_direct_commands_start_the_embedded_server_and_stop_it(opilio_process, tmp_path: Path):
    added = opilio_process("policies", "add", "https://a.example/1", "--data-dir", str(tmp_path / "d"))
    assert added.code == 0, added.err
    assert added.err.startswith("OPILIO_DATABASE_URL is not set: using the embedded database in ")
    assert added.err.count("\n") == 1
    listed = opilio_process("--data-dir", str(tmp_path / "d"), "policies", "list", "--json")
    assert listed.json["items"][0]["id"] == added.out.strip()
    assert not (tmp_path / "d" / "postgres" / "postmaster.pid").exists()


def test_commands_stay_short():
    """A command that grows has found a part that belongs elsewhere."""
    for path, command in leaves():
        assert len(inspect.getsource(command.callback).splitlines()) < 60, path


def test_time_of_help(opilio_process):
    began = time.monotonic()
    assert opilio_process("--help").code == 0
    assert time.monotonic() - began < 10  # 0.4 s on an idle machine; the bound only tells a disaster
