"""What the API process needs to know."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Network
from pathlib import Path
from typing import TypeVar

from api.fetch.fetcher import PERMITS
from api.fetch.patterns import read_hosts
from api.fetch.proxies import Direct, Proxies, Proxy, read_no_proxy, read_proxy
from api.fetch.rules import FetchRules, Network, read_networks, read_ports, read_translated
from api.limits import Limits, read_limit_mm
from api.routing import ReadyFor
from forebay.errors import ConfigurationError
from forebay.extensions import MAX_BYTES, MAX_DEPTH
from forebay.features import Modality
from forebay.settings import (
    SharedSettings,
    read_file_name,
    read_flag,
    read_port,
    read_seconds,
    read_size,
    setting,
    whole_number,
)
from handoff.moves import Quota

T = TypeVar("T")


class MetricsAccess(StrEnum):
    """Who may read the metrics."""

    OPEN = "open"
    OPERATOR = "operator"
    OFF = "off"


def read_rate(text: str) -> float:
    """Requests a second; 0 for no limit."""
    rate = float(text)
    if not 0 <= rate < float("inf"):
        raise ValueError("a number of at least 0 was expected")
    return rate


def read_roots(text: str) -> tuple[Path, ...]:
    """Folders, separated by colons; each must be there, and is meant as it resolves now."""
    roots = tuple(Path(part).resolve() for part in text.split(":") if part)
    for root in roots:
        if not root.is_dir():
            raise ValueError(f"{root} is no folder")
    return roots


def in_small_letters(variable: str, read: Callable[[str], T]) -> Callable[[], T]:
    """What a variable says that others read in small letters alone.

    Raises:
        ConfigurationError: when it is called; the value is not shown, for a password may be in it.
    """

    def found() -> T:
        try:
            return read(os.environ.get(variable, ""))
        except ValueError as error:
            raise ConfigurationError(f"{variable}=(not shown): {error}") from error

    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings(SharedSettings):
    """Settings of ``forebay api``."""

    host: str = setting("FOREBAY_HOST", str, "127.0.0.1")
    port: int = setting("FOREBAY_PORT", read_port, 8000)
    listen_fd: int | None = setting("FOREBAY_LISTEN_FD", int, None)
    """A listening socket that the launcher already holds, so that a restart refuses no connection."""
    timeout_ms: int = setting("FOREBAY_TIMEOUT_MS", whole_number(1), 120_000)
    """Time to the deadline of a request that names none."""
    max_live: int = setting("FOREBAY_MAX_LIVE", whole_number(1), 2048)
    """Most requests between accepted and ended, over the whole deployment."""
    max_body_bytes: int = setting("FOREBAY_MAX_BODY_BYTES", read_size, 256 << 20)
    max_item_bytes: int = setting("FOREBAY_MAX_ITEM_BYTES", read_size, 64 << 20)
    precomputed_bytes: int = setting("FOREBAY_PRECOMPUTED_BYTES", read_size, 0)
    """Most bytes of a feature that a caller sends instead of an item; 0 takes none."""
    max_prompts: int = setting("FOREBAY_MAX_PROMPTS", whole_number(1), 4096)
    """Most prompts in a batch."""
    max_items: int = setting("FOREBAY_MAX_ITEMS", whole_number(1), 64)
    """Most media items in one request."""
    max_rid_length: int = setting("FOREBAY_MAX_RID_LENGTH", whole_number(1), 128)
    """Most characters of a request's id."""
    limit_mm: Mapping[Modality, int] = setting("FOREBAY_LIMIT_MM", read_limit_mm, dict)
    """Most items of a modality in one request, such as ``image=8,video=1``."""
    max_extension_bytes: int = setting("FOREBAY_MAX_EXTENSION_BYTES", read_size, MAX_BYTES)
    max_extension_depth: int = setting("FOREBAY_MAX_EXTENSION_DEPTH", whole_number(1), MAX_DEPTH)
    strict_extensions: bool = setting("FOREBAY_STRICT_EXTENSIONS", read_flag, False)
    """Whether an extension field of a batch must be a list, as SGLang has it."""
    max_request_bytes: int = setting("FOREBAY_MAX_REQUEST_BYTES", read_size, 256 << 20)
    """Most bytes of all media of one request."""
    ready_for: ReadyFor = setting("FOREBAY_READY_FOR", ReadyFor, ReadyFor.GENERATE)
    """What /ready waits for: ``generate`` wants a scheduler too, ``preprocess`` does not."""
    fetch: bool = setting("FOREBAY_FETCH", read_flag, True)
    """Whether http and https URLs are fetched."""
    fetch_hosts: tuple[str, ...] = setting("FOREBAY_FETCH_HOSTS", read_hosts, ())
    """The only hosts that are asked, such as ``*.example.org``; none for any."""
    fetch_deny_hosts: tuple[str, ...] = setting("FOREBAY_FETCH_DENY_HOSTS", read_hosts, ())
    fetch_networks: tuple[Network, ...] = setting("FOREBAY_FETCH_NETWORKS", read_networks, ())
    """Networks that may be dialled although they are not public, such as ``10.1.0.0/16``."""
    fetch_nat64: tuple[IPv6Network, ...] = setting("FOREBAY_FETCH_NAT64", read_translated, ())
    """Prefixes of this network's translators, such as ``fd00:64::/96``, besides ``64:ff9b::/96``."""
    fetch_ports: tuple[int, ...] = setting("FOREBAY_FETCH_PORTS", read_ports, (80, 443))
    fetch_connect_s: float = setting("FOREBAY_FETCH_CONNECT_S", read_seconds, 5.0)
    fetch_read_s: float = setting("FOREBAY_FETCH_READ_S", read_seconds, 10.0)
    """Longest pause within an answer."""
    fetch_total_s: float = setting("FOREBAY_FETCH_TOTAL_S", read_seconds, 30.0)
    """For one item, with redirects and further tries."""
    fetch_at_once: int = setting("FOREBAY_FETCH_AT_ONCE", whole_number(1), PERMITS)
    """Most items that a process fetches side by side."""
    file_roots: tuple[Path, ...] = setting("FOREBAY_FILE_ROOTS", read_roots, ())
    """Folders below which ``file:`` URLs are read; none for nowhere."""
    http_proxy: Proxy | None = setting(
        "HTTP_PROXY", read_proxy, in_small_letters("http_proxy", read_proxy), secret=True
    )
    https_proxy: Proxy | None = setting(
        "HTTPS_PROXY", read_proxy, in_small_letters("https_proxy", read_proxy), secret=True
    )
    no_proxy: tuple[Direct, ...] = setting("NO_PROXY", read_no_proxy, in_small_letters("no_proxy", read_no_proxy))
    api_keys: Path | None = setting("FOREBAY_API_KEYS", read_file_name, None)
    """The file of API keys; without one anybody may ask."""
    allow_open: bool = setting("FOREBAY_ALLOW_OPEN", read_flag, False)
    """Whether to listen beyond loopback without keys."""
    metrics: MetricsAccess = setting("FOREBAY_METRICS", MetricsAccess, MetricsAccess.OPERATOR)
    """Who may read /metrics: ``open``, ``operator`` (with an operator's key, where there are keys), ``off``."""
    tenant_requests: int = setting("FOREBAY_TENANT_REQUESTS", whole_number(0), 0)
    """Most live requests of one tenant; 0 for no limit."""
    tenant_bytes: int = setting("FOREBAY_TENANT_BYTES", read_size, 0)
    """Most media bytes of one tenant's live requests; 0 for no limit."""
    tenant_rate: float = setting("FOREBAY_TENANT_RATE", read_rate, 0.0)
    """Most requests a second of one tenant; 0 for no limit."""
    drain_s: int = setting("FOREBAY_DRAIN_S", whole_number(0), 30)
    """How long a stopping process waits for the requests it serves."""

    @property
    def fetch_rules(self) -> FetchRules:
        """Where one may fetch from."""
        hosts, denied, networks = self.fetch_hosts, self.fetch_deny_hosts, self.fetch_networks
        return FetchRules(self.fetch, hosts, denied, networks, self.fetch_ports, self.fetch_nat64)

    @property
    def proxies(self) -> Proxies:
        """Through which proxies."""
        return Proxies(self.http_proxy, self.https_proxy, self.no_proxy)

    @property
    def quota(self) -> Quota:
        """What a tenant may have that has no limits of its own."""
        return Quota(self.tenant_requests, self.tenant_bytes, self.tenant_rate)

    @property
    def limits(self) -> Limits:
        """What one body may ask for at most."""
        return Limits(
            prompts=self.max_prompts,
            items=self.max_items,
            by_modality=self.limit_mm,
            rid_length=self.max_rid_length,
            broadcast_bytes=self.max_item_bytes,
            extension_bytes=self.max_extension_bytes,
            extension_depth=self.max_extension_depth,
            strict_extensions=self.strict_extensions,
        )
