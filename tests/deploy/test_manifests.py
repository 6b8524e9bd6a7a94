"""compose.yaml, the Kubernetes manifests and the systemd units, each checked by the tool or the schema of its kind."""

import json
import re
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from opilio.runtime.roles import ROLES
from opilio.runtime.settings import SETTINGS
from tests import validators
from tests.deploy.programs import DEPLOY, need, output

COMPOSE = DEPLOY / "compose/compose.yaml"
MANIFESTS = sorted(
    file
    for file in (DEPLOY / "kubernetes").glob("*.yaml")
    if file.name not in {"kustomization.yaml", "prometheus-adapter.yaml"}
)
DOCUMENTS = [document for file in MANIFESTS for document in yaml.safe_load_all(file.read_text())]
SETTINGS = {f"OPILIO_{name.upper()}" for name in SETTINGS} | {
    "OPILIO_BOT_TOKEN",
    "OPILIO_TRUSTED_PROXIES",
}


# ── compose ──────────────────────────────────────────────────────────────────────────────────────


def test_compose_follows_the_published_schema():
    validators.installed()
    schema = json.loads((validators.MODULES / "dclint/schemas/compose.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(COMPOSE.read_text()), schema)


def test_compose_starts_every_role_after_what_it_needs():
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    for role in ROLES:
        service = services[role]
        assert service["command"] == ["run", role]
        assert service["read_only"] is True
        assert service["healthcheck"]["test"]
        for needed, how in service["depends_on"].items():
            ended = how["condition"] == "service_completed_successfully"
            assert ended or services[needed]["healthcheck"], (
                f"{role} waits for {needed}, which tells no health"
            )


def test_prometheus_scrapes_every_role_of_compose():
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    assert config["scrape_configs"][0]["static_configs"][0]["targets"] == [f"{role}:9090" for role in ROLES]


# ── kubernetes ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_kubernetes_takes_the_manifest(file: Path):
    for document in yaml.safe_load_all(file.read_text()):
        kubernetes_validate.validate(document, "1.31", strict=True)


def test_every_role_is_deployed_with_probes_and_a_disruption_budget():
    named = {(document["kind"], document["metadata"]["name"]): document for document in DOCUMENTS}
    for role in ROLES:
        container = named["Deployment", role]["spec"]["template"]["spec"]["containers"][0]
        assert container["args"] == ["run", role]
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
        assert ("PodDisruptionBudget", role) in named
    assert named["Job", "migrate"]["spec"]["template"]["spec"]["containers"][0]["args"] == ["db", "upgrade"]


def test_kustomize_names_files_that_are_there():
    listed = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(file.name.replace(".example", "") for file in MANIFESTS)


# ── systemd ──────────────────────────────────────────────────────────────────────────────────────


def test_systemd_takes_the_units(tmp_path):
    opilio = str(Path(sys.executable).with_name("opilio"))
    for unit in (DEPLOY / "systemd").glob("opilio*.*"):
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/opilio/bin/opilio", opilio))
    units = [f"opilio@{role}.service" for role in ROLES]
    said = output(
        *(need("systemd-analyze"), "verify", "--man=no", *units, "opilio-migrate.service", "opilio.target"),
        env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )
    assert "opilio" not in said, said


def test_systemd_finds_the_units_hardened(tmp_path):
    unit = DEPLOY / "systemd/opilio@.service"
    output(need("systemd-analyze"), "security", "--offline=true", "--threshold=20", unit)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def test_every_setting_that_is_named_exists():
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            named = set(re.findall(r"\bOPILIO_[A-Z_]+\b(?!…)", file.read_text()))
            assert named - SETTINGS == set(), file.name


def test_roles_on_one_machine_have_ports_of_their_own():
    ports = [
        re.search(r"OPILIO_METRICS_PORT=(\d+)", (DEPLOY / f"systemd/{role}.env").read_text()).group(1)
        for role in ROLES
    ]
    assert len(set(ports)) == len(ROLES)
