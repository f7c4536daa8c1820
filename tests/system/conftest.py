"""One deployment for all system tests that do not end it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.client import Client
from tests.support import media
from tests.support.deployment import Deployment, running
from tests.support.photos import HOST, Photos, photos
from tests.support.tiny_qwen import make_folder


@pytest.fixture(scope="session")
def qwen_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("qwen2-vl"))


@pytest.fixture(scope="session")
def loopback_photos() -> Iterator[Photos]:
    """A server of a cup of coffee, which the deployment may ask although it is not public."""
    with photos(media.coffee().read_bytes()) as found:
        yield found


@pytest.fixture(scope="session")
def deployment(qwen_folder: Path, loopback_photos: Photos) -> Iterator[Deployment]:
    models = ["efficientnet-lite0", "whisper-tiny-en", f"qwen2-vl={qwen_folder}", "qwen3-vl"]
    ports = f"80,443,{loopback_photos.port}"
    env = {"FOREBAY_PRECOMPUTED_BYTES": "4MiB", "FOREBAY_FETCH_NETWORKS": HOST, "FOREBAY_FETCH_PORTS": ports}
    arguments = [part for model in models for part in ("--model", model)]
    with running([*arguments, "--workers", "2", "--cores", "0,1"], env) as deployment:
        yield deployment


@pytest.fixture
def api(deployment: Deployment) -> Iterator[Client]:
    with Client(deployment.url) as client:
        yield client
