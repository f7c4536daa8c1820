"""The example packages as strangers' are: from wheels, in environments that know no checkout; found, checked and used.

One of them has an environment of its own, because its library cannot stand beside what the tier has. Its worker is of
that environment, on a node of its own; the API and everybody else are of the other.
"""

from __future__ import annotations

import importlib.util
import json
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from os import killpg
from pathlib import Path

import httpx
import numpy as np
import PIL.Image
import pytest

from forebay.client import Client
from forebay.testing import CHECKS
from tests.support import media
from tests.support.clean_environment import CleanEnvironment, build_wheels, make_environment, outside
from tests.support.deployment import Deployment, running
from tests.support.outsiders import OUTSIDERS, Outsider
from tests.support.valkey import running_server

pytestmark = pytest.mark.system

SECOND = Path(sys.prefix) / "pixtral"
MISTRAL_ANSWER = Path(__file__).parents[1] / "support" / "mistral_answer.py"
APART = [outsider for outsider in OUTSIDERS if outsider.is_apart]
BESIDE = [outsider for outsider in OUTSIDERS if not outsider.is_apart]
CALLS = "4"
# How long an item takes beside its peers is no question for a machine that others use as well.
RULES = [check.name for check in CHECKS if check.name != "time"]


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, CleanEnvironment]:
    """The tier's environment, and the second (``True``)."""
    assert SECOND.is_dir(), f"{SECOND} is not there: run 'make test'"
    folder = tmp_path_factory.mktemp("outsiders")
    wheels = build_wheels([outsider.folder.name for outsider in OUTSIDERS], folder)
    others = {False: sysconfig.get_path("purelib"), True: sysconfig.get_path("purelib", vars={"base": str(SECOND)})}
    made = {}
    for is_apart, packages in others.items():
        names = {"forebay", *(outsider.package for outsider in OUTSIDERS if outsider.is_apart is is_apart)}
        own = [wheel for wheel in wheels if wheel.name.partition("-")[0] in names]
        assert len(own) == len(names)
        place = folder / ("second" if is_apart else "first")
        place.mkdir()
        made[is_apart] = make_environment(place, own, Path(packages))
    return made


@pytest.fixture(scope="module")
def deployment(environments: dict[bool, CleanEnvironment], tmp_path_factory) -> Iterator[Deployment]:
    """API, worker and schedulers of the first environment, and one more worker, of the second."""
    folder = tmp_path_factory.mktemp("deployment")
    secret, run_dir = secrets.token_hex(16), Path("/dev/shm") / f"forebay-test-{secrets.token_hex(4)}"
    first, second = environments[False], environments[True]
    with running_server(folder) as redis_url:
        shared = {"FOREBAY_SECRET": secret, "FOREBAY_DEPLOYMENT": "outsiders", "REDIS_URL": redis_url}
        models = [part for outsider in BESIDE for part in ("--model", model_of(outsider, folder))]
        arguments = [*models, "--workers", "1", "--cores", "0", "--no-flower", "--data-dir", str(folder)]
        own = {"FOREBAY_NODE": "second", "FOREBAY_MEDIA": f"spool:{folder}/media", "FOREBAY_RUN_DIR": str(run_dir)}
        try:
            with (
                worker(second, outside(**shared, **own, FOREBAY_POOL_BYTES="64MiB")),
                running(arguments, outside(**shared), first.python, first.home) as deployment,
            ):
                wait_for_offers(deployment, second.home / "worker.log")
                yield deployment
        finally:
            shutil.rmtree(run_dir, ignore_errors=True)


def model_of(outsider: Outsider, folder: Path) -> str:
    """What ``--model`` is told; a model's folder is copied, as an operator has it somewhere else."""
    if not outsider.model_folder:
        return outsider.model
    copy = folder / outsider.model
    if not copy.exists():
        shutil.copytree(outsider.folder / outsider.model_folder, copy)
    return f"{outsider.model}={copy}"


@contextmanager
def worker(environment: CleanEnvironment, env: dict[str, str]) -> Iterator[None]:
    """``forebay worker`` of an environment, as its operator starts it; it drains when the block ends."""
    models = [part for outsider in APART for part in ("--model", outsider.model)]
    command = [environment.forebay, "worker", *models, "--workers", "1"]
    with (environment.home / "worker.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=environment.home, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (environment.home / "worker.log").read_text()
        finally:
            with suppress(ProcessLookupError):  # it has ended, and all that it started
                killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def api(deployment: Deployment) -> Iterator[Client]:
    with Client(deployment.url) as client:
        yield client


@pytest.mark.parametrize("is_apart", [False, True], ids=["first", "second"])
def test_our_own_code_is_that_of_the_wheels(environments, is_apart):
    """A module of the checkout, by an editable installation or by the folder we are in, would prove nothing."""
    rooms = ["forebay", "handoff", "api", "workers", "processors", "scheduler", "launch"]
    own = [*rooms, *(outsider.package for outsider in OUTSIDERS if outsider.is_apart is is_apart)]
    program = "import sys, importlib; [print(importlib.import_module(name).__file__) for name in sys.argv[1:]]"

    told = environments[is_apart].run(environments[is_apart].python, "-c", program, *own)

    files = told.split()
    assert len(files) == len(own)
    assert all(Path(file).is_relative_to(environments[is_apart].prefix) for file in files), files


def test_the_two_environments_are_two(environments):
    """What the second is for is not in the first, and its worker needs none of the tier's largest package."""
    program = (
        "import numpy, importlib.util as u; print(*(u.find_spec(n) is not None for n in ('mistral_common', 'torch')))"
    )

    told = [environments[is_apart].run(environments[is_apart].python, "-c", program) for is_apart in (False, True)]

    assert [one.split() for one in told] == [["False", "True"], ["True", "False"]]
    assert importlib.util.find_spec("mistral_common") is None


def test_each_is_sound(environments, tmp_path):
    """The command that the wheel has installed finds it by its name, and holds it to the rules."""

    def check(outsider: Outsider) -> str:
        environment, folder = environments[outsider.is_apart], model_of(outsider, tmp_path).partition("=")[2]
        options = ["--calls", CALLS, *(part for rule in RULES for part in ("--only", rule))]
        options += ["--model-dir", folder] if folder else []
        return environment.run(environment.forebay, "check-processor", outsider.model, *options)

    with ThreadPoolExecutor(2) as threads:
        told = list(threads.map(check, OUTSIDERS))

    for outsider, text in zip(OUTSIDERS, told, strict=True):
        assert f"{outsider.package}.processor." in text
        assert "is sound" in text
        assert "0 failed" in text


def test_the_own_tests_of_the_one_apart_pass(environments):
    """In its environment; nobody else can run them."""
    for outsider in APART:
        tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
        told = environments[True].run(environments[True].python, *tests, cwd=outsider.folder)

        assert " passed" in told
        assert "skipped" not in told


def wait_for_offers(deployment: Deployment, log: Path) -> None:
    """Until the API has heard of all of them; the run's own are there as soon as it is ready."""
    give_up_at = time.monotonic() + 60
    while len(offers := processors_of(deployment)) < len(OUTSIDERS):
        assert time.monotonic() < give_up_at, (offers, log.read_text())
        time.sleep(0.1)


def test_each_is_found(deployment):
    """The API hears of them from the workers, and so needs none of their packages."""
    offers = processors_of(deployment)

    assert set(offers) == {outsider.model for outsider in OUTSIDERS}
    assert {offers[outsider.model]["node"] for outsider in APART} == {"second"}
    assert "second" not in {offers[outsider.model]["node"] for outsider in BESIDE}


def processors_of(deployment: Deployment) -> dict[str, dict]:
    told = httpx.get(f"{deployment.url}/v1/processors").json()
    assert told["broken"] == []
    return {offer["name"]: offer for offer in told["data"]}


def test_a_picture_has_its_label(api):
    """EfficientNet-Lite0."""
    assert api.generate(model="efficientnet-lite0", text="What is it?", images=[media.coffee()]).text == "espresso"


def test_speech_is_transcribed(api):
    """Whisper tiny.en."""
    answer = api.generate(model="whisper-tiny-en", text="transcribe", audio=[media.fox_recording()])

    assert answer.text == "The quick brown fox jumps over the lazy dog."


def test_a_page_is_read(api):
    """The one that uses all of the contract: black on its left half, white on its right."""
    page = np.repeat(np.repeat(np.uint8([[[0] * 3, [255] * 3]]), 32, axis=0), 32, axis=1)

    answer = api.generate(
        model="layout-demo",
        text="Read <page>.",
        images=[media.encoded(page, "PNG")],
        extensions={"multimodal_boxes": [[0, 0, 32, 32]]},
    )

    assert answer.text == "page 0 is 50 % bright; at [0, 0, 500, 1000] it is 0 %"


def test_pictures_are_prepared_as_by_mistral_itself(api, environments, tmp_path):
    """Pixtral: ids and pixels of the answer are the library's to the bit, of a photo that lies on its side as well."""
    turned = tmp_path / "turned.png"
    pixels = np.random.default_rng(5).integers(0, 256, (37, 90, 3), dtype=np.uint8)
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    PIL.Image.fromarray(pixels).save(turned, exif=exif)
    pictures = [media.rocket(), turned, media.cat()]
    expected = json.loads(environments[True].run(environments[True].python, "-P", MISTRAL_ANSWER, *pictures))

    text = f"<s>[INST]{'[IMG]' * len(pictures)}Describe.[/INST]"
    made, again = (api.preprocess(model="pixtral", text=text, images=pictures) for _ in range(2))

    assert list(made.input_ids) == expected["ids"]
    assert [item.sha256 for item in made.items] == [item.sha256 for item in again.items] == expected["sha256"]
    assert [item.shape for item in made.items] == [(3, 432, 640), (3, 96, 48), (3, 304, 464)]
    assert [len(item.spans) for item in made.items] == [27, 6, 19]
    assert all(item.is_cached for item in again.items)
