"""Who may ask, and what a tenant may see: its own, and nothing of anybody else's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from api.keyring import lines_for
from api.settings import ApiSettings, MetricsAccess
from handoff.moves import End
from tests.api.actors import Staff, announce, result
from tests.api.process import meanwhile, started, talking_to

pytestmark = pytest.mark.service

ACME, OTHER, BOSS = ({"Authorization": f"Bearer key-of-{name}"} for name in ("acme", "other", "boss"))
BODY = {"text": "Hi", "rid": "r1"}


@pytest.fixture
def guarded(settings, tmp_path: Path) -> ApiSettings:
    """A deployment with keys."""
    path = tmp_path / "keys.toml"
    lines = [lines_for(name, f"key-of-{name}", operator=name == "boss") for name in ("acme", "other", "boss")]
    path.write_text("".join(lines) + "\n[tenants.other]\nrequests = 1\n")
    return replace(settings, api_keys=path)


@pytest.fixture
async def http(guarded, client, keys) -> AsyncIterator[httpx.AsyncClient]:
    announce(client, keys)
    async with started(guarded) as app, talking_to(app) as http:
        yield http


@pytest.mark.parametrize("path", ["/generate", "/v1/requests", "/v1/models", "/nowhere", "/v1/media/x", "/metrics"])
@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic key-of-acme"}])
async def test_without_a_key_nothing_is_told(http, path, given):
    """401 before anything is read; also about paths that are not there."""
    response = await http.post(path, headers=given, content=b"{")

    assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.headers["X-Request-Id"]


async def test_probes_need_no_key(http):
    """Nor does what describes the API."""
    assert [(await http.get(path)).status_code for path in ("/health", "/ready", "/openapi.json")] == [200] * 3


async def test_metrics_are_for_operators(http):
    """They are about everybody."""
    assert (await http.get("/metrics", headers=BOSS)).status_code == 200
    refused = await http.get("/metrics", headers=ACME)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_permitted")


async def test_why_a_package_is_broken_is_for_operators(http, client, keys):
    """It quotes a stranger's code, and may name files; that there is nothing to be had, everybody sees."""
    announce(client, keys, "n2", models=(), engines=(), broken={"mine": "No module named 'x' in /srv/models"})

    told = {}
    for name, headers in (("boss", BOSS), ("acme", ACME)):
        [told[name]] = (await http.get("/v1/processors", headers=headers)).json()["broken"]
    refused = await http.post("/generate", headers=ACME, json=BODY | {"model": "mine"})

    assert told["boss"] == {"name": "mine", "node": "n2", "reason": "No module named 'x' in /srv/models"}
    assert told["acme"] == {"name": "mine", "node": "n2", "reason": "its package cannot be loaded"}
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (503, "processor_broken")
    assert error["message"] == "model 'mine': its package cannot be loaded"
    scraped = (await http.get("/metrics", headers=BOSS)).text
    assert 'forebay_processor_broken{model="mine",node="n2"} 1.0' in scraped
    assert f'forebay_processor{{fingerprint="{"f" * 16}",model="toy",node="n1"}} 1.0' in scraped


@pytest.mark.parametrize(("access", "status"), [(MetricsAccess.OPEN, 200), (MetricsAccess.OFF, 404)])
async def test_metrics_have_a_switch_of_their_own(guarded, access, status):
    """Open for a scraper that has no key, or not there at all."""
    async with started(replace(guarded, metrics=access)) as app, talking_to(app) as http:
        assert (await http.get("/metrics")).status_code == status


async def test_two_tenants_may_use_the_same_id(http, staff: Staff):
    """Each gets its own answer, under its own id; within the tier they have two names."""

    def play() -> None:
        for text in ("one", "two"):
            staff.finish(staff.admit_next(f"c-{text}"), End.done(result(text)), f"c-{text}")

    async def both() -> list[httpx.Response]:
        first = await http.post("/v1/requests", json=BODY, headers=ACME)
        second = await http.post("/generate", json=BODY, headers=OTHER)
        return [first, second]

    accepted, answer = await meanwhile(both(), play)

    assert accepted.json()["rid"] == "r1"
    assert (answer.json()["text"], answer.json()["meta_info"]["id"]) == ("two", "r1")
    assert answer.headers["X-Request-Id"] == "r1"
    shown = (await http.get("/v1/requests/r1", headers=ACME)).json()
    assert (shown["rid"], shown["result"]["text"], shown["result"]["meta_info"]["id"]) == ("r1", "one", "r1")
    assert sorted(staff.way.asked("acme") + staff.way.asked("other")) == ["acme/r1", "other/r1"]


async def test_the_requests_of_another_tenant_are_not_there(http, way):
    """Not to be seen, listed, followed or cancelled; also not by the name that they have within the tier."""
    await http.post("/v1/requests", json=BODY, headers=ACME)

    for rid in ("r1", "acme/r1", "../acme/r1"):
        path = f"/v1/requests/{rid}"
        calls = [
            http.get(path, headers=OTHER),
            http.delete(path, headers=OTHER),
            http.get(f"{path}/events", headers=OTHER),
        ]
        assert [(await call).status_code for call in calls] == [404] * 3
    await http.post("/abort_request", json={"rid": "acme/r1"}, headers=OTHER)
    await http.post("/abort_request", json={"abort_all": True}, headers=OTHER)

    assert (await http.get("/v1/requests", headers=OTHER)).json() == {"data": [], "next": None}
    assert way.state("acme/r1") == "queued"
    await http.post("/abort_request", json={"abort_all": True}, headers=ACME)
    assert way.state("acme/r1") == "cancelled"


async def test_the_features_of_two_tenants_have_two_names(http, staff: Staff):
    """The worker is told whose a request is; see the cache's keys."""
    await http.post("/v1/requests", json=BODY, headers=ACME)

    task, body = staff.next_task()

    assert (task.rid, body.tenant) == ("acme/r1", "acme")


async def test_a_tenant_beyond_its_limit_is_told_when_to_come_again(http):
    """429 with both numbers, for this tenant alone."""
    await http.post("/v1/requests", json=BODY, headers=OTHER)

    refused = await http.post("/v1/requests", json={"text": "Hi"}, headers=OTHER)

    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")
    assert "1 of your requests are under way; your limit is 1" in refused.json()["error"]["message"]
    assert refused.headers["Retry-After"] == "1"
    assert (await http.post("/v1/requests", json=BODY, headers=ACME)).status_code == 202


async def test_the_longest_name_and_the_longest_id_fit(guarded, client, keys, way, tmp_path):
    """63 characters of a tenant and 128 of a request."""
    announce(client, keys)
    tenant, rid = "t" * 63, "r" * 128
    guarded.api_keys.write_text(lines_for(tenant, "k", operator=False))
    async with started(guarded) as app, talking_to(app) as http:
        response = await http.post(
            "/v1/requests", json={"text": "Hi", "rid": rid}, headers={"Authorization": "Bearer k"}
        )

    assert response.status_code == 202
    assert way.state(f"{tenant}/{rid}") == "queued"


async def test_without_keys_anybody_is_one_tenant(settings, client, keys, way):
    """As on a laptop: the limits of the deployment hold for all together."""
    announce(client, keys)
    async with started(replace(settings, tenant_requests=1)) as app, talking_to(app) as http:
        first = await http.post("/v1/requests", json=BODY)
        second = await http.post("/v1/requests", json={"text": "Hi"})
        metrics = await http.get("/metrics")

    assert [first.status_code, second.status_code, metrics.status_code] == [202, 429, 200]
    assert way.state("r1") == "queued"
