"""Writes docs/reference/monitoring.md from the board and the alert rules of deploy/: `python assets/monitoring.py`."""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/monitoring.md"
_HEAD = """# Board and alerts

<!-- Written by `make reference` from deploy/grafana and deploy/prometheus. -->

`deploy/grafana/opilio.json` is a dashboard for Grafana: import it, choose your Prometheus. `deploy/prometheus/alerts.yml` has
the alert rules; `promtool test rules` checks that each fires. What each metric means is in [Metrics](metrics.md), what to do
for an alert in the [runbook](../how-to/runbook.md). Every query aggregates over processes, so it does not matter how many
of them run.
"""


def panels(board: dict[str, Any]) -> list[str]:
    """A section for each row of the board, with a table of its panels."""
    lines = ["", "## Board", "", "| panel | unit | queries |", "|---|---|---|"]
    for panel in board["panels"]:
        if panel["type"] == "row":
            lines += ["", f"### {panel['title']}", "", "| panel | unit | queries |", "|---|---|---|"]
            continue
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
        queries = "<br>".join(f"`{target['expr']}`" for target in panel["targets"])
        lines.append(f"| {panel['title']} | {unit} | {queries} |")
    return lines


def alerts(rules: list[dict[str, Any]]) -> list[str]:
    """A section for each alert, as the rule says it."""
    lines = ["", "## Alerts"]
    for rule in rules:
        name = rule["alert"]
        lines += [
            *("", f"### {name}", "", f"{rule['annotations']['summary']}.", ""),
            *("```promql", rule["expr"], "```", ""),
            f"For {rule['for']}, {rule['labels']['severity']}. [What to do](../how-to/runbook.md#{name.lower()})",
        ]
    return lines


def page() -> str:
    board = json.loads((ROOT / "deploy/grafana/opilio.json").read_text(encoding="utf-8"))
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))
    listed = [rule for group in rules["groups"] for rule in group["rules"]]
    return "\n".join([_HEAD.rstrip("\n"), *panels(board), *alerts(listed), ""])


if __name__ == "__main__":
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")
    PAGE.write_text(page(), encoding="utf-8")
