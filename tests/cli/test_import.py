"""`policies import` and `policies export`: files in, answers for every row, files out."""

import gzip
import json
import os
import subprocess
import sys

import pytest


def test_csv_each_row_is_answered(opilio_command, tmp_path):
    file = tmp_path / "policies.csv"
    file.write_text(
        "url,priority\nhttps://a.example/1,10\nhttps://a.example/2,high\nhttp://10.0.0.1/,5\nhttps://a.example/1,20\n"
    )
    outcome = opilio_command("policies", "import", str(file), "--json")
    assert outcome.code == 0
    answer = outcome.json
    assert (answer["created"], answer["updated"], answer["rejected"]) == (1, 1, 2)
    assert [row["status"] for row in answer["rows"]] == ["created", "rejected", "rejected", "updated"]
    assert answer["rows"][1]["error"] == "priority: 'high' is not a whole number"
    assert "private" in answer["rows"][2]["error"]
    (policy,) = opilio_command("policies", "list", "--json").json["items"]
    assert policy["priority"] == 20


def test_a_dry_run_answers_every_row_and_changes_nothing(opilio_command, tmp_path):
    file = tmp_path / "policies.csv"
    file.write_text("url,priority\nhttps://a.example/1,10\nhttps://a.example/2,101\n")
    outcome = opilio_command("policies", "import", str(file), "--dry-run")
    assert outcome.out == "nothing was changed; an import would give: 1 created, 0 updated, 1 rejected\n"
    assert "row 2: priority: must be at most 100" in outcome.err
    assert opilio_command("policies", "list", "--json").json["items"] == []


def test_a_person_sees_the_rejected_rows(opilio_command, tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("https://a.example/\n" + "".join(f"ftp://a.example/{n}\n" for n in range(30)))
    outcome = opilio_command("policies", "import", str(file))
    assert outcome.code == 0
    assert outcome.out == "1 created, 0 updated, 30 rejected\n"
    assert outcome.err.splitlines()[0].startswith("row 2: url: ")
    assert outcome.err.splitlines()[-1].startswith("… and 10 more")


def test_a_sitemap_and_a_zipped_one(opilio_command, tmp_path):
    xml = (
        b"<urlset><url><loc>https://a.example/1</loc></url><url><loc>https://a.example/2</loc></url></urlset>"
    )
    (tmp_path / "sitemap.xml").write_bytes(xml)
    (tmp_path / "sitemap.xml.gz").write_bytes(gzip.compress(xml))
    assert opilio_command("policies", "import", str(tmp_path / "sitemap.xml"), "--json").json["created"] == 2
    assert (
        opilio_command("policies", "import", str(tmp_path / "sitemap.xml.gz"), "--json").json["updated"] == 2
    )


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("none.csv", None, 1, "cannot be read"),
        ("policies.csv", b"address\nhttps://a.example/\n", 1, "names no column url"),
        ("policies.xml", b"<html/>", 1, "begins with <html>"),
        ("policies.csv", b"url\nhttps://a.example/\xff\n", 1, "not UTF-8"),
        ("policies.csv", b"url\nftp://a.example/\n", 1, "must begin with http"),
        ("policies.dat", b"", 2, "--format"),
    ],
)
def test_refusals(opilio_command, tmp_path, name, content, code, words):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    outcome = opilio_command("policies", "import", str(file))
    assert outcome.code == code
    assert words in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_stdin(database_url, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "opilio", "policies", "import", "-", "--format", "jsonl", "--json"],
        input='{"url": "https://a.example/"}\n',
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "OPILIO_DATABASE_URL": database_url, "OPILIO_DATA_DIR": str(tmp_path)},
    )
    assert json.loads(done.stdout)["created"] == 1


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_export_goes_round(opilio_command, tmp_path, form):
    words = ["--every", "6h", "--label", "team=blue", "--config", '{"js_required": true, "weight": 0.1}']
    opilio_command("policies", "add", "https://a.example/1", *words)
    opilio_command("policies", "add", "https://a.example/2", "--queue", "special", "--hot", "--disabled")
    before = opilio_command("policies", "export", "--format", form).out
    file = tmp_path / f"all.{form}"
    assert opilio_command("policies", "export", "--format", form, "--output", str(file)).code == 0
    assert file.read_text() == before
    opilio_command("db", "downgrade", "base", "--yes")
    opilio_command("db", "upgrade")
    assert opilio_command("policies", "import", str(file), "--json").json["created"] == 2
    assert opilio_command("policies", "export", "--format", form).out == before
    by_url = {p["url"]: p for p in opilio_command("policies", "list", "--json").json["items"]}
    assert by_url["https://a.example/1"]["queue"] == "js"  # the rule engine's choice, not the file's
    assert by_url["https://a.example/2"]["enabled"] is False


def test_export_json_is_lines(opilio_command):
    opilio_command("policies", "add", "https://a.example/1")
    (policy,) = opilio_command("policies", "export", "--json").lines
    assert policy["url"] == "https://a.example/1"
    assert policy["queue"] is None


def test_a_hundred_thousand_in_one_command(opilio_command, tmp_path):
    file = tmp_path / "many.jsonl"
    with file.open("w") as out:
        out.writelines(f'{{"url": "https://shop{n % 1000}.example/p/{n}"}}\n' for n in range(100_000))
    outcome = opilio_command("policies", "import", str(file))
    assert outcome.out == "100000 created, 0 updated, 0 rejected\n"
    assert opilio_command("jobs", "create-due", "--json").json == {"created": 100_000}


def test_a_bar_moves_where_a_person_looks(opilio_command, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich takes this for a terminal
    monkeypatch.setenv("TERM", "xterm")
    (tmp_path / "list.txt").write_text("https://a.example/\n")
    outcome = opilio_command("policies", "import", str(tmp_path / "list.txt"))
    assert outcome.out == "1 created, 0 updated, 0 rejected\n"
    assert "importing" in outcome.err
