import json

from typer.testing import CliRunner

from opilio.cli.analytics import app


def classify(lines, *options):
    return CliRunner().invoke(app, ["classify", *options], input=lines)


def test_it_works():
    lines = '{"id": 1, "text": "Pin tụt nhanh, quá tệ"}\n\n{"id": "b", "text": "love it", "lang": "en"}\n'
    result = classify(lines, "--json")
    assert result.exit_code == 0
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert set(first) == {
        "id",
        "language",
        "sentiment",
        "score",
        "probabilities",
        "intent",
        "keywords",
        "aspects",
    }
    assert (first["id"], first["sentiment"], first["language"]) == (1, "negative", "vi")
    assert first["aspects"]["battery"]["sentiment"] == "negative"
    assert set(first["probabilities"]) == {"negative", "neutral", "positive"}
    assert (second["id"], second["sentiment"], second["language"]) == ("b", "positive", "en")


def test_order_and_number_are_kept_over_batches():
    lines = "".join(json.dumps({"id": n, "text": "đẹp"}) + "\n" for n in range(700))
    result = classify(lines, "--json")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == list(range(700))


def test_people_get_a_sentence():
    assert "positive" in classify('{"id": 1, "text": "rất đẹp"}').stdout


def test_a_bad_line_is_named():
    result = classify('{"id": 1, "text": "ok"}\n{"id": 2}\n', "--json")
    assert result.exit_code == 1
    assert "line 2" in result.stderr


def test_a_bad_stage_is_a_usage_error():
    assert classify("", "--stage", "sentiment").exit_code == 2
