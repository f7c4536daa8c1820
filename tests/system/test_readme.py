"""The commands of the README, run as they are printed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from forebay.client import Client
from tests.support import media
from tests.support.deployment import Deployment
from tests.support.valkey import running_server

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]


def shell_blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_make_demo_shows_the_whole_way():
    """What a newcomer sees first: the label, the sentence, the features, and that nothing is left."""
    done = subprocess.run(["make", "demo"], cwd=ROOT, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "label: espresso" in done.stdout
    assert "The quick brown fox jumps over the lazy dog." in done.stdout
    assert "[1, 28, 42]" in done.stdout
    assert "processes left: none" in done.stdout
    assert "disk left: none" in done.stdout


def test_the_curl_command_answers(deployment: Deployment, tmp_path: Path):
    """Printed with port 8000 and photo.jpg; here the deployment's port and a real photo."""
    (command,) = [block for block in shell_blocks() if "curl" in block]
    shutil.copy(media.rocket(), tmp_path / "photo.jpg")
    command = command.replace("localhost:8000", deployment.url.removeprefix("http://"))

    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert '"image_grid_thw":[1,30,46]' in done.stdout, done.stdout[:500]


def test_sending_photos_answers(deployment: Deployment, photos: Path):
    """One photo, then a folder; here with the deployment's address, and the program of these tests."""
    (block,) = [block for block in shell_blocks() if "forebay send" in block]
    command = block.replace(".venv/bin/forebay", f"{sys.executable} -m forebay")
    env = {**os.environ, "FOREBAY_URL": deployment.url}

    done = subprocess.run(["bash", "-ec", command], cwd=photos, env=env, capture_output=True, text=True, timeout=120)

    assert (done.stdout, done.returncode) == ("espresso\n", 0), done.stderr
    assert '"text": "espresso"' in (photos / "results.jsonl").read_text()


def test_the_client_of_the_readme_answers(deployment: Deployment, photos: Path):
    """As it is printed."""
    (block,) = [block for block in python_blocks() if "import Client" in block]
    env = {**os.environ, "FOREBAY_URL": deployment.url}

    done = subprocess.run(
        [sys.executable, "-c", block], cwd=photos, env=env, capture_output=True, text=True, timeout=120
    )

    assert (done.stdout, done.stderr) == ("espresso\nphotos/cup.png espresso\n", "")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder with a photo, and a folder with one."""
    (tmp_path / "photos").mkdir()
    shutil.copy(media.coffee(), tmp_path / "photo.jpg")
    shutil.copy(media.coffee(), tmp_path / "photos" / "cup.png")
    return tmp_path


def test_each_process_runs_by_itself(tmp_path: Path, shm: Path):
    """Worker, scheduler and API, started apart, find one another through Redis, and stop when told to."""
    (block,) = [block for block in shell_blocks() if "forebay worker" in block]
    commands = [line.split()[1] for line in block.splitlines() if line.startswith("forebay ")]
    assert all(line.endswith(" &") for line in block.splitlines()[1:])
    assert commands == ["worker", "scheduler", "api"]
    with running_server(tmp_path) as url:
        env = {
            **os.environ,
            "FOREBAY_SECRET": secrets.token_hex(32),
            "REDIS_URL": url,
            "FOREBAY_RUN_DIR": str(shm / "node"),
            "FOREBAY_POOL_BYTES": "64MiB",
        }
        arguments = {
            "worker": ["--model", "efficientnet-lite0", "--workers", "1"],
            "scheduler": ["--model", "efficientnet-lite0"],
            "api": ["--port", "0"],
        }
        forebay = [sys.executable, "-m", "forebay"]
        processes = {
            name: subprocess.Popen([*forebay, name, *arguments[name]], env=env, stdout=subprocess.PIPE, text=True)
            for name in commands
        }
        try:
            address = re.search(r"http://\S+", processes["api"].stdout.readline())[0]
            wait_until_ready(address)
            with Client(address) as client:
                answer = client.generate(model="efficientnet-lite0", text="x", images=[media.coffee()])
        finally:
            for name in ("api", "worker", "scheduler"):
                processes[name].terminate()
            codes = {name: process.wait(60) for name, process in processes.items()}
            for process in processes.values():
                process.stdout.close()

    assert answer.text == "espresso"
    assert codes == {"api": 0, "worker": 0, "scheduler": 0}


def wait_until_ready(address: str) -> None:
    give_up_at = time.monotonic() + 90
    while True:
        models = httpx.get(f"{address}/v1/models").json().get("data", [])
        if any(model["engine"] for model in models):
            return
        assert time.monotonic() < give_up_at, models
        time.sleep(0.2)
