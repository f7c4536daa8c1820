"""A Redis that is reached over TLS, or as a user who may do what Forebay needs and no more."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
import trustme

from forebay.errors import ConfigurationError
from handoff.connection import connect, require
from tests.support.tier_node import TierNode, tier_node
from tests.support.tls_door import tls_door
from tests.support.valkey import running_server

pytestmark = pytest.mark.system

DOCS = Path(__file__).parents[2] / "docs" / "redis.md"


def does_its_work(node: TierNode) -> None:
    node.started(FOREBAY_EVENTS="1")
    node.ask("r1")
    node.waits_for("r1", "parked")
    node.wait_until(node.is_quiet, lambda: node.said)


def test_everything_goes_over_tls_where_the_url_says_so(redis_url, tmp_path):
    """Celery's own connections, too; and a certificate of another authority is refused before anything begins."""
    authority, stranger = trustme.CA(), trustme.CA()
    for name, ca in (("ours.pem", authority), ("other.pem", stranger)):
        ca.cert_pem.write_to_path(tmp_path / name)
    with tls_door(Path(urlsplit(redis_url).path), authority) as port:
        url = f"rediss://127.0.0.1:{port}/0?ssl_cert_reqs=required&ssl_ca_certs={tmp_path}/ours.pem"
        with pytest.raises(ConfigurationError, match="certificate verify failed"):
            require(url.replace("ours", "other"))

        over_tls = connect(url, "test")
        with tier_node(over_tls, url, tmp_path) as node:
            does_its_work(node)
        over_tls.close()


def rules() -> list[str]:
    """Those of the document, for a deployment that is called ``test``."""
    [line] = re.findall(r"^ACL SETUSER forebay (.*)$", DOCS.read_text(), re.MULTILINE)
    return str(line).replace("forebay:*", "test:*").split()


def test_a_user_with_the_rights_that_the_document_names_is_enough(tmp_path):
    """Nothing is refused to it but the look at the server's settings, and what is not Forebay's is not its to touch."""
    with running_server(tmp_path) as url, redis.Redis.from_url(url) as admin:
        admin.execute_command("ACL", "SETUSER", "forebay", *rules())
        mine = url.replace("unix://", "unix://forebay:PASSWORD@")
        client = connect(mine, "test")
        packages = tmp_path / "packages"
        packages.mkdir()
        with tier_node(client, mine, packages) as node:
            does_its_work(node)

        assert {entry["object"] for entry in admin.acl_log()} <= {"config|get"}
        for command in (("FLUSHALL",), ("KEYS", "*"), ("GET", "another:key"), ("CONFIG", "SET", "maxmemory", "1")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)
        client.close()
