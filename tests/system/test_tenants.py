"""A deployment with API keys, as its callers meet it: both clients, and the real ``openai`` client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from click.testing import CliRunner

from api.key_command import key
from forebay.client import RequestFailedError
from tests.support import media
from tests.support.clients import BOTH, either
from tests.support.deployment import Deployment, running

pytestmark = pytest.mark.system

PHOTOS = "efficientnet-lite0"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The file, and a key for each tenant, as ``forebay key`` makes them."""
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    made = {name: CliRunner().invoke(key, [name, "--file", str(path)]).stdout.strip() for name in ("acme", "other")}
    return path, made


@pytest.fixture(scope="module")
def guarded(keys) -> Iterator[Deployment]:
    path, _ = keys
    arguments = ["--model", PHOTOS, "--workers", "1", "--cores", "0"]
    with running(arguments, {"FOREBAY_API_KEYS": str(path)}) as deployment:
        yield deployment


@pytest.fixture(params=BOTH)
def two(request: pytest.FixtureRequest, guarded: Deployment, keys) -> Iterator[tuple[Any, Any]]:
    """A client of each tenant."""
    acme, other = (keys[1][name] for name in ("acme", "other"))
    with either(request.param, guarded.url, acme) as first, either(request.param, guarded.url, other) as second:
        yield first, second


def test_a_client_with_a_key_is_answered(two):
    """On every way: waited for, submitted, followed, listed, uploaded."""
    client, _ = two
    upload = client.upload(media.coffee())

    answer = client.ask("What?", [media.coffee()], model=PHOTOS)
    submitted = client.submit(model=PHOTOS, text="x", images=[upload])
    *_, end = client.events(submitted.rid)

    assert (answer.text, end.status.answer.text) == ("espresso", "espresso")
    assert [one.rid for one in client.requests()][:2] == [submitted.rid, answer.rid]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("wrong", ["none", "fb-wrong"])
def test_a_wrong_key_is_told_so(guarded: Deployment, monkeypatch, kind, wrong):
    """Whatever is asked; the error does not show the key."""
    monkeypatch.delenv("FOREBAY_API_KEY", raising=False)
    with either(kind, guarded.url, None if wrong == "none" else wrong) as client:
        for ask in (client.models, lambda: client.ask("Hi"), lambda: list(client.requests())):
            with pytest.raises(RequestFailedError) as caught:
                ask()

            assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")
            assert "fb-wrong" not in str(caught.value)


def test_two_tenants_do_not_see_one_another(two):
    """Neither requests nor uploads, though both use the same id and the same bytes."""
    acme, other = two
    upload = acme.upload(media.coffee())
    rid = acme.submit(model=PHOTOS, text="x", images=[upload]).rid

    assert not other.has_upload(upload.id)
    assert rid not in [one.rid for one in other.requests()]
    for look in (other.status, other.cancel, lambda one: list(other.events(one))):
        with pytest.raises(RequestFailedError, match="404 request_not_found"):
            look(rid)
    with pytest.raises(RequestFailedError, match="404 media_not_found"):
        other.generate(model=PHOTOS, text="x", images=[upload])
    assert other.generate(model=PHOTOS, text="x", images=[media.coffee()], rid=rid).rid == rid
    assert acme.wait(rid, timeout_s=60).text == "espresso"


def test_the_openai_client_sends_its_key(guarded: Deployment, keys):
    """``api_key=`` is all there is to it; a wrong one is its own kind of error."""
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=keys[1]["acme"], max_retries=0) as client:
        assert [model.id for model in client.models.list()] == [PHOTOS]
    wrong = openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="fb-wrong", max_retries=0)
    with wrong, pytest.raises(openai.AuthenticationError) as caught:
        wrong.models.list()

    assert caught.value.code == "invalid_api_key"


def test_no_key_is_written_anywhere(guarded: Deployment, keys, two):
    """What the deployment prints has neither a key nor its hash."""
    two[0].models()

    for made in keys[1].values():
        assert made not in guarded.output
