"""Writes docs/reference/monitoring.md from the board and the alert rules of deploy/: `python assets/monitoring.py`."""

import json
import re
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

The board has a row for each part of the system, and three panels side by side in a row. Below, a word in italics is a label:
the panel draws a line for each of its values. Grafana shows the same explanation at the *i* of a panel.
"""


_UNITS = {"short": "number", "s": "seconds", "percentunit": "percent"}


def panels(board: dict[str, Any]) -> list[str]:
    """A section for each row of the board, with a table of its panels."""
    lines = ["", "## Board"]
    for panel in board["panels"]:
        if panel["type"] == "row":
            lines += [
                "",
                f"### {panel['title']}",
                "",
                "| panel | what it shows | its lines |",
                "|---|---|---|",
            ]
            continue
        unit = _UNITS[panel["fieldConfig"]["defaults"]["unit"]]
        drawn = "<br>".join(_line(target) for target in panel["targets"])
        lines.append(f"| {panel['title']} ({unit}) | {panel['description']} | {drawn} |")
    return lines


def _line(target: dict[str, Any]) -> str:
    """The legend of a line, where each label has a line of its own, and its query."""
    legend = re.sub(r"{{(\w+)}}", r"*\1*", target["legendFormat"])
    return f"{legend}: `{target['expr']}`"


def alerts(rules: list[dict[str, Any]]) -> list[str]:
    """A section for each alert, as the rule says it."""
    lines = ["", "## Alerts", "", "| alert | severity | after | fires when |", "|---|---|---|---|"]
    lines += [_row(rule) for rule in rules]
    for rule in rules:
        name = rule["alert"]
        lines += [
            *("", f"### {name}", "", f"{rule['annotations']['summary']}.", ""),
            *("```promql", rule["expr"], "```", ""),
            f"For {rule['for']}, {rule['labels']['severity']}. [What to do](../how-to/runbook.md#{name.lower()})",
        ]
    return lines


def _row(rule: dict[str, Any]) -> str:
    """One line of the overview; values and labels of the alert are an ellipsis."""
    told = re.sub(r"{{.*?}}", "…", rule["annotations"]["summary"])
    return f"| [{rule['alert']}](#{rule['alert'].lower()}) | {rule['labels']['severity']} | {rule['for']} | {told} |"


def page() -> str:
    board = json.loads((ROOT / "deploy/grafana/opilio.json").read_text(encoding="utf-8"))
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))
    listed = [rule for group in rules["groups"] for rule in group["rules"]]
    return "\n".join([_HEAD.rstrip("\n"), *panels(board), *alerts(listed), ""])


if __name__ == "__main__":
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")
    PAGE.write_text(page(), encoding="utf-8")
