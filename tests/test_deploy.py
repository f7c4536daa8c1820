"""The container files, checked without an engine: schema, lint, and that their names resolve."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from forebay.settings import load
from scheduler.settings import SchedulerSettings
from workers.settings import WorkerSettings

ROOT = Path(__file__).parents[1]
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
GIVEN = {"FOREBAY_SECRET": "s" * 32, "FLOWER_PASSWORD": "p"}


def tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def substituted() -> dict:
    """The file as Compose would read it."""

    def value(match: re.Match) -> str:
        name, kind, text = match.groups()
        if name in GIVEN:
            return GIVEN[name]
        assert kind == "-", f"{name} has no default and is not given"
        return text

    return yaml.safe_load(VARIABLE.sub(value, (ROOT / "compose.yaml").read_text()))


def test_compose_fits_the_schema():
    """Checked offline against the schema that the checker brings."""
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "compose.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_has_no_lint():
    """hadolint finds nothing to say."""
    done = subprocess.run([tool("hadolint"), "Dockerfile"], cwd=ROOT, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "")


def test_every_name_in_compose_resolves():
    """Volumes, dependencies and build targets exist; nothing listens beyond loopback unless asked to."""
    compose = substituted()
    stages = set(re.findall(r"^FROM .* AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))

    assert set(compose["services"]) == {"redis", "api", "worker", "scheduler", "flower"}
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in compose["volumes"]
        for other, condition in service.get("depends_on", {}).items():
            assert condition["condition"] == "service_healthy"
            assert "healthcheck" in compose["services"][other]
        if "build" in service:
            assert service["build"]["target"] in stages
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize(("service", "settings"), [("worker", WorkerSettings), ("scheduler", SchedulerSettings)])
def test_the_environment_of_a_service_is_what_its_process_reads(monkeypatch, service, settings):
    """The variables make settings, and both processes of the node mean the same pool."""
    environment = substituted()["services"][service]["environment"]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    made = load(settings)

    assert str(made.pool_path) == "/run/forebay/node/pool"
    assert made.pool_bytes == 1 << 30
    assert made.node == "compose"


def test_the_shared_memory_holds_the_pool():
    """The tmpfs volume is larger than the pool that goes on it."""
    compose = substituted()
    options = compose["volumes"]["node"]["driver_opts"]["o"]

    assert int(re.search(r"size=(\d+)m", options)[1]) > 1024
