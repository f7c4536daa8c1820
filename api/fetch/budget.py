"""How many bytes a request may still fetch; charged as they arrive, whoever fetches them."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.errors import Rejected


@dataclass(slots=True)
class Budget:
    """Of one request. ``item_limit`` is of each item."""

    limit: int
    item_limit: int
    taken: int = 0

    def check(self, param: str, item_bytes: int, more: int = 0) -> None:
        """Whether an item may have ``item_bytes``, ``more`` of which are still to be charged.

        Raises:
            Rejected: beyond either limit, with the numbers.
        """
        if item_bytes > self.item_limit:
            message = f"{param} is at least {item_bytes} bytes; the limit is {self.item_limit}"
            raise Rejected("media_too_large", message, param=param, status=413)
        if self.taken + more > self.limit:
            message = f"{param}: {item_bytes} bytes after {self.taken + more - item_bytes} of other items; the limit "
            raise Rejected("request_too_large", message + f"of a request is {self.limit}", param=param, status=413)

    def charge(self, param: str, item_bytes: int, more: int) -> None:
        """Take ``more`` bytes for an item that will then have ``item_bytes``.

        Raises:
            Rejected: beyond either limit, with the numbers.
        """
        self.check(param, item_bytes, more)
        self.taken += more

    def give_back(self, size: int) -> None:
        """What a broken transfer has taken is taken again when it is repeated."""
        self.taken -= size
