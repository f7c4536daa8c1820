"""The address of a Redis that Sentinels watch: who they are, and what they call it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlsplit

SCHEME = "sentinel://"
_PORT = 26379
_SHAPE = "sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],…/MASTER[/DB][?sentinel_password=…]"


@dataclass(frozen=True, slots=True)
class Sentinels:
    """What a ``sentinel://`` URL says.

    Attributes:
        hosts: name and port of each Sentinel; one that answers is enough.
        master: what they call the Redis that is meant.
        database: its number there.
        username, password: of the Redis; empty for none.
        own_password: of the Sentinels themselves; empty for none.
    """

    hosts: tuple[tuple[str, int], ...]
    master: str
    database: int = 0
    username: str = ""
    password: str = ""
    own_password: str = ""

    @classmethod
    def read(cls, url: str) -> Sentinels:
        """Read a URL.

        Raises:
            ValueError: it is not of that shape.
        """
        parts = urlsplit(url)
        who, _, hosts = parts.netloc.rpartition("@")
        username, _, password = who.partition(":")
        master, _, database = parts.path.strip("/").partition("/")
        query = parse_qs(parts.query)
        if parts.scheme != "sentinel" or not master or query.keys() - {"sentinel_password"}:
            raise ValueError(f"{_SHAPE} was expected")
        return cls(
            tuple(_host(one) for one in hosts.split(",")),
            unquote(master),
            int(database or 0),
            unquote(username),
            unquote(password),
            query.get("sentinel_password", [""])[0],
        )

    @property
    def sign_in(self) -> dict[str, str]:
        """Name and password for the Redis, as redis-py calls them; only those that there are."""
        return {name: value for name in ("username", "password") if (value := getattr(self, name))}

    @property
    def own_sign_in(self) -> dict[str, str]:
        """The same for the Sentinels."""
        return {"password": self.own_password} if self.own_password else {}

    @property
    def broker_url(self) -> str:
        """As kombu spells it; the master's name is not in it."""
        who = f"{quote(self.username, '')}:{quote(self.password, '')}@" if self.username or self.password else ""
        hosts = ((f"[{host}]" if ":" in host else host, port) for host, port in self.hosts)
        return ";".join(f"sentinel://{who}{host}:{port}/{self.database}" for host, port in hosts)


def _host(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, str(_PORT)
    if not (host and port.isdecimal()):
        raise ValueError(f"{_SHAPE} was expected")
    return host.strip("[]"), int(port)
