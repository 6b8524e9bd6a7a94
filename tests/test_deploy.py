"""What ships for Prometheus and Grafana speaks of metrics that exist."""

import json
import re
from pathlib import Path

import yaml

from opilio.metrics import ALL

DEPLOY = Path(__file__).parents[1] / "deploy"
_FUNCTIONS = {"rate", "sum", "by", "histogram_quantile", "error_code", "m"}


def exposed() -> set[str]:
    names = {metric.exposed for metric in ALL}
    return names | {f"{metric.name}_bucket" for metric in ALL if metric.kind == "histogram"}


def unknown(expression: str) -> set[str]:
    words = set(re.findall(r"[a-z_]{2,}", re.sub(r"\[[^\]]*\]", "", expression)))
    return words - _FUNCTIONS - exposed()


def test_alerts_speak_of_metrics_that_exist() -> None:
    groups = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 5
    for rule in rules:
        assert unknown(rule["expr"]) == set(), rule["alert"]
        assert rule["annotations"]["summary"]


def test_the_dashboard_speaks_of_metrics_that_exist() -> None:
    board = json.loads((DEPLOY / "grafana/opilio.json").read_text())
    targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(targets) > 15
    assert [expression for expression in targets if unknown(expression)] == []
