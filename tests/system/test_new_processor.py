"""From nothing to served: what ``forebay new-processor`` writes is built, installed, tested, checked and asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from forebay.client import Client
from forebay.kit.new_command import new_processor
from tests.support import media
from tests.support.deployment import running

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
NAME = "mean-cells"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it was written."""
    folder = tmp_path_factory.mktemp("packages")
    written = CliRunner().invoke(new_processor, [NAME, "--dir", str(folder)])
    assert written.exit_code == 0, written.output
    return folder / NAME


@pytest.fixture(scope="module")
def env(package: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which it is installed from its wheel; nothing is downloaded."""
    wheels, site = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    told = run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(wheels), str(package)])
    (wheel,) = wheels.glob("*.whl")
    told += run([*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)])
    assert (site / "mean_cells" / "processor.py").exists(), told
    path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def run(command: list[str], **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_own_tests_pass(package: Path, env: dict[str, str]):
    """At once, as it was written; the conformance suite is one of them."""
    told = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=package, env=env)

    assert "5 passed" in told


def test_it_is_found_by_its_name_and_sound(env: dict[str, str]):
    """By the entry point in its wheel."""
    program = "from forebay.kit.check_command import check_processor; check_processor()"

    told = run([sys.executable, "-c", program, NAME, "--calls", "100"], env=env)

    assert "mean_cells.processor.MeanCells" in told
    assert "MeanCells is sound (24 passed, 0 failed, 0 not run)" in told


def test_it_is_served(env: dict[str, str], tmp_path: Path):
    """By a worker that was told nothing but its name."""
    with running(["--model", NAME, "--workers", "1", "--cores", "0"], env) as deployment, Client(deployment.url) as api:
        result = api.preprocess(
            model=NAME, input_ids=[1, 7, 2], images=[media.coffee()], extensions={"multimodal_cells": 2}
        )

    assert result.input_ids == (1, 7, 7, 7, 7, 2)
    assert result.processor == NAME
