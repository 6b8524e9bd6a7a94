"""What ships for Prometheus and Grafana: names that exist, rules that fire once, a runbook for each."""

import json
import re
import sys

import yaml

from opilio.metrics import ALL
from tests.deploy.programs import DEPLOY, need, output

ROOT = DEPLOY.parent
RULES = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"][0]["rules"]
BOARD = json.loads((DEPLOY / "grafana/opilio.json").read_text())
EXPRESSIONS = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", [])]
EXPOSED = {metric.prefixed for metric in ALL} | {
    f"{metric.prefixed}_bucket" for metric in ALL if metric.kind == "histogram"
}


def used(expression: str) -> set[str]:
    return set(re.findall(r"opilio_\w+", expression))


def test_alerts_and_board_speak_of_metrics_that_exist():
    for expression in [*(rule["expr"] for rule in RULES), *EXPRESSIONS]:
        assert used(expression), f"{expression}: not one of our metrics by its prefixed name"
        assert used(expression) <= EXPOSED


def test_gauges_of_several_processes_are_aggregated():
    aggregated = re.compile(r"^(absent|group|max|min|sum|histogram_quantile)\b")
    assert [e for e in [*(r["expr"] for r in RULES), *EXPRESSIONS] if not aggregated.match(e)] == []


def test_every_alert_has_a_section_in_the_runbook():
    runbook = (DEPLOY.parent / "docs/how-to/runbook.md").read_text()
    assert re.findall(r"^## (\w+)$", runbook, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook_url"] == f"docs/how-to/runbook.md#{rule['alert'].lower()}"


def test_the_page_in_the_docs_shows_the_board_and_the_alerts_as_they_are():
    written = (ROOT / "docs/reference/monitoring.md").read_text()
    made = output(
        sys.executable, "-c", "import monitoring; print(monitoring.page(), end='')", cwd=ROOT / "assets"
    )
    assert written == made, "run `make reference`"
    for expression in EXPRESSIONS:
        assert f"`{expression}`" in written
    for panel in BOARD["panels"]:
        assert panel["type"] == "row" or f"| {panel['description']} |" in written, panel["title"]
    for rule in RULES:
        assert f"### {rule['alert']}\n" in written
        assert f"\n{rule['expr']}\n" in written


def test_panels_of_the_board_do_not_overlap():
    placed = [
        (x, y)
        for spot in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(spot["x"], spot["x"] + spot["w"])
        for y in range(spot["y"], spot["y"] + spot["h"])
    ]
    assert len(placed) == len(set(placed))
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_prometheus_takes_the_configuration_and_the_rules():
    promtool = need("promtool")
    output(promtool, "check", "rules", "--lint-fatal", DEPLOY / "prometheus/alerts.yml")
    output(promtool, "check", "config", DEPLOY / "prometheus/prometheus.yml")


def test_every_alert_fires_once_when_it_should_and_is_quiet_before():
    tests = yaml.safe_load((DEPLOY / "prometheus/alerts_test.yml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == {rule["alert"] for rule in RULES}
    assert "SUCCESS" in output(need("promtool"), "test", "rules", DEPLOY / "prometheus/alerts_test.yml")
