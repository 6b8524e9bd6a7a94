"""What commands do, what they print, and how they refuse."""

import json
import os
import pty
import subprocess
import sys
from uuid import uuid4

import pytest


@pytest.fixture
def policy(opilio_command) -> str:
    return opilio_command("policies", "add", "https://a.example/1").out.strip()


class TestPoliciesAdd:
    def test_it_works(self, opilio_command):
        outcome = opilio_command(
            "policies", "add", "https://Shop.example/1", "--every", "6h", "--priority", "70", "--max-retries", "0",
            "--retry-backoff", "90s", "--timeout", "15m", "--queue", "js", "--hot", "--label", "team=blue",
            "--label", "tier=1", "--config", '{"headers": {"a": "b"}}', "--disabled", "--json",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        policy = outcome.json
        assert policy["url"] == "https://shop.example/1"
        assert policy["frequency_hours"] == 6
        assert policy["retry_backoff_minutes"] == 1.5
        assert policy["timeout_minutes"] == 15
        assert (policy["priority"], policy["max_retries"], policy["queue"]) == (70, 0, "js")
        assert (policy["hot"], policy["enabled"]) == (True, False)
        assert policy["labels"] == {"team": "blue", "tier": "1"}
        assert policy["crawl_config"] == {"headers": {"a": "b"}}

    def test_only_the_id_is_on_stdout(self, opilio_command, policy):
        listed = opilio_command("policies", "list", "--json").json["items"]
        assert [item["id"] for item in listed] == [policy]

    def test_the_same_url_again_fails(self, opilio_command, policy):
        outcome = opilio_command("policies", "add", "https://a.example/1")
        assert outcome.code == 1
        assert outcome.out == ""
        assert "exists already" in outcome.err

    @pytest.mark.parametrize("url", ["ftp://a.example/", "http://127.0.0.1/", "https://u:p@a.example/"])
    def test_a_url_that_must_not_be_crawled_fails(self, opilio_command, url):
        outcome = opilio_command("policies", "add", url)
        assert outcome.code == 1
        assert outcome.err.startswith("url: ")

    @pytest.mark.parametrize(
        "words",
        [
            ["--every", "24"],
            ["--every", "-6h"],
            ["--every", "1w"],
            ["--priority", "101"],
            ["--priority", "high"],
            ["--queue", "fast"],
            ["--label", "team"],
            ["--config", "[]"],
            ["--colour", "red"],
        ],
    )
    def test_words_that_make_no_sense_are_a_usage_error(self, opilio_command, words):
        outcome = opilio_command("policies", "add", "https://a.example/1", *words)
        assert outcome.code == 2
        assert len(outcome.err.splitlines()) == 1


class TestPoliciesList:
    def test_filters(self, opilio_command, policy):
        opilio_command("policies", "add", "https://b.example/2", "--disabled", "--label", "team=blue")

        def urls(*words):
            return [
                item["url"] for item in opilio_command("policies", "list", "--json", *words).json["items"]
            ]

        assert urls() == ["https://b.example/2", "https://a.example/1"]
        assert urls("--enabled") == ["https://a.example/1"]
        assert urls("--host", "b.example") == ["https://b.example/2"]
        assert urls("-q", "/1") == ["https://a.example/1"]
        assert urls("--label", "team=blue") == ["https://b.example/2"]

    def test_pages(self, opilio_command, policy):
        opilio_command("policies", "add", "https://b.example/2")
        first = opilio_command("policies", "list", "--limit", "1", "--json").json
        second = opilio_command(
            "policies", "list", "--limit", "1", "--cursor", first["next_cursor"], "--json"
        ).json
        assert [item["id"] for item in second["items"]] == [policy]

    def test_a_person_gets_a_table(self, opilio_command, policy):
        assert "https://a.example/1" in opilio_command("policies", "list").out

    def test_a_wrong_cursor_fails(self, opilio_command):
        assert opilio_command("policies", "list", "--cursor", "?").code == 1


class TestJobs:
    def test_create_due_then_show_and_why(self, opilio_command, policy):
        assert opilio_command("jobs", "create-due", "--json").json == {"created": 1}
        assert opilio_command("jobs", "create-due", "--json").json == {"created": 0}
        (job,) = opilio_command("jobs", "list", "--status", "pending", "--json").json["items"]
        shown = opilio_command("jobs", "show", job["id"], "--json").json
        assert [row["to"] for row in shown["timeline"]] == ["pending"]
        assert "pending" in opilio_command("jobs", "show", job["id"]).out
        why = opilio_command("jobs", "why", job["id"], "--json").json
        assert why["running"] is False
        assert why["reasons"][0]["code"] == "no_capable_bot"
        assert "no_capable_bot" in opilio_command("policies", "why", policy).out

    def test_expire_with_nothing_to_expire(self, opilio_command):
        assert opilio_command("jobs", "expire", "--json").json == {"retried": 0, "ended": 0}

    def test_run_now_answers_the_active_job(self, opilio_command, policy):
        first = opilio_command("policies", "run", policy).out
        assert opilio_command("policies", "run", policy).out == first

    @pytest.mark.parametrize("action", ["reset", "release", "force-expire"])
    def test_acting_on_a_waiting_job_is_answered_by_id_and_fails(self, opilio_command, policy, action):
        job = opilio_command("policies", "run", policy).out.strip()
        outcome = opilio_command("jobs", action, job, str(uuid4()), "--json")
        assert outcome.code == 1
        assert [row["success"] for row in outcome.json] == [False, False]
        assert outcome.json[1]["error"]["code"] == "job_not_found"

    def test_an_unknown_job_fails_in_one_line(self, opilio_command):
        outcome = opilio_command("jobs", "show", str(uuid4()))
        assert outcome.code == 1
        assert outcome.err.startswith("there is no job ")

    def test_what_is_no_id_is_a_usage_error(self, opilio_command):
        assert opilio_command("jobs", "show", "seven").code == 2


class TestHosts:
    def test_it_works(self, opilio_command):
        host = opilio_command(
            "hosts", "set", "A.Example", "--max-concurrent", "2", "--min-delay", "1.5s", "--json"
        ).json
        assert (host["host"], host["max_concurrent"], host["min_delay_seconds"]) == ("a.example", 2, 1.5)
        assert opilio_command("hosts", "show", "A.Example", "--json").json == host
        assert host.pop("cooling_periods") == []
        assert opilio_command("hosts", "list", "--json").json["items"] == [host]
        assert opilio_command("hosts", "set", "a.example", "--json").json["max_concurrent"] is None

    def test_no_host_name(self, opilio_command):
        assert opilio_command("hosts", "set", "https://a.example/").code == 1


class TestSecrets:
    def test_a_token_is_printed_alone_and_can_be_revoked(self, opilio_command):
        token = opilio_command("bots", "token", "bot-1").out
        assert token.startswith("opb_")
        assert token.count("\n") == 1
        made = opilio_command("bots", "token", "bot-1", "--json").json
        (bot,) = opilio_command("bots", "list", "--json").json["items"]
        assert (bot["bot_id"], bot["tokens"]) == ("bot-1", 2)
        assert opilio_command("bots", "revoke", "bot-1", "--token", made["id"], "--json").json["revoked"] == 1
        assert opilio_command("bots", "revoke", "bot-1", "--json").json["revoked"] == 1
        assert opilio_command("bots", "revoke", "bot-1").code == 1

    def test_a_bot_id_that_cannot_be(self, opilio_command):
        outcome = opilio_command("bots", "token", "a b")
        assert outcome.code == 1
        assert outcome.err.startswith("bot_id: ")

    def test_a_key_is_printed_alone_and_can_be_revoked(self, opilio_command):
        key = opilio_command("keys", "create", "--scope", "admin", "--name", "ci").out
        assert key.startswith("opk_")
        assert key.count("\n") == 1
        (listed,) = opilio_command("keys", "list", "--json").json["items"]
        assert (listed["name"], listed["scope"], listed["revoked_at"]) == ("ci", "admin", None)
        assert "hash" not in listed
        assert opilio_command("keys", "revoke", "ci", "--json").json["revoked"] == 1
        assert opilio_command("keys", "revoke", "ci").code == 1

    def test_a_scope_that_is_none(self, opilio_command):
        assert opilio_command("keys", "create", "--scope", "root", "--name", "x").code == 2

    def test_a_login_link(self, opilio_command):
        link = opilio_command("login").out.strip()
        assert link.startswith("http://127.0.0.1:8000/login/opl_")


class TestDatabase:
    def test_down_and_up(self, opilio_command):
        head = opilio_command("db", "status", "--json").json
        assert head["up_to_date"]
        down = opilio_command("db", "downgrade", "base", "--yes", "--json").json
        assert down["current"] is None
        assert down["pending"]
        assert opilio_command("policies", "list").code == 1
        assert opilio_command("db", "upgrade", "--json").json == head

    def test_dropping_everything_is_refused_without_a_terminal_and_without_yes(self, opilio_command, policy):
        outcome = opilio_command("db", "downgrade", "base")
        assert outcome.code == 1
        assert "deletes EVERYTHING in the database" in outcome.err
        assert outcome.err.endswith("Repeat the command with --yes to do it.\n")
        assert len(outcome.err.splitlines()) == 1
        assert [p["id"] for p in opilio_command("policies", "list", "--json").json["items"]] == [policy]

    @pytest.mark.parametrize(("said", "code", "left"), [("n\n", 130, 1), ("y\n", 0, 0)])
    def test_on_a_terminal_it_asks(self, database_url, tmp_path, opilio_command, policy, said, code, left):
        env = {"OPILIO_DATABASE_URL": database_url, "OPILIO_DATA_DIR": str(tmp_path)}
        ours, theirs = pty.openpty()
        line = [sys.executable, "-m", "opilio", "db", "downgrade", "base"]
        with subprocess.Popen(
            line, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **env}
        ) as asked:
            os.write(ours, said.encode())
            _, err = asked.communicate(timeout=60)
        os.close(ours)
        os.close(theirs)
        assert b"Continue? [y/N]" in err
        assert asked.returncode == code
        assert bool(opilio_command("db", "status", "--json").json["current"]) == bool(left)

    def test_an_unknown_revision(self, opilio_command):
        outcome = opilio_command("db", "downgrade", "nowhere", "--yes")
        assert outcome.code == 1
        assert len(outcome.err.splitlines()) == 1


class TestConfig:
    def test_values_origins_and_masks(self, opilio_command, monkeypatch, tmp_path):
        monkeypatch.setenv("OPILIO_AMQP_URL", "amqp://guest:hunter2@mq.example/")
        (tmp_path / "opilio.toml").write_text("keep_jobs_days = 3\n")
        shown = opilio_command("config", "show", "--json")
        found = {row["name"]: row for row in shown.json["settings"]}
        assert found["amqp_url"]["value"] == "amqp://guest:…@mq.example/"
        assert found["amqp_url"]["source"] == "OPILIO_AMQP_URL"
        assert (found["keep_jobs_days"]["value"], found["keep_jobs_days"]["source"]) == (3, "opilio.toml")
        assert found["port"]["source"] == "default"
        assert "hunter2" not in shown.out + opilio_command("config", "show").out

    def test_all_faults_at_once_in_one_line(self, opilio_command, monkeypatch):
        monkeypatch.setenv("OPILIO_PORT", "none")
        monkeypatch.setenv("OPILIO_KEEP_JOBS_DAYS", "0")
        outcome = opilio_command("config", "show")
        assert outcome.code == 1
        assert "OPILIO_PORT" in outcome.err
        assert "OPILIO_KEEP_JOBS_DAYS" in outcome.err
        assert len(outcome.err.splitlines()) == 1


def test_json_is_utf8_and_exact(opilio_command):
    outcome = opilio_command("policies", "add", "https://a.example/", "--label", "tên=giá", "--json")
    assert json.loads(outcome.out)["labels"] == {"tên": "giá"}
    assert "giá" in outcome.out
