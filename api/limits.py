"""What one body may ask for at most. Everything here is checked before any work begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forebay.errors import Rejected
from forebay.extensions import MAX_BYTES, MAX_DEPTH
from forebay.features import Modality


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one deployment.

    Attributes:
        prompts: in a batch.
        items: of media, in one request.
        by_modality: of media of one kind, in one request.
        rid_length: characters of a request's id.
        broadcast_bytes: that one item may become when every request of a batch gets it.
        extension_bytes: of a request's extension map, packed.
        extension_depth: of its values.
        strict_extensions: whether an extension field of a batch must be a list.
    """

    prompts: int = 4096
    items: int = 64
    by_modality: Mapping[Modality, int] = field(default_factory=dict)
    rid_length: int = 128
    broadcast_bytes: int = 64 << 20
    extension_bytes: int = MAX_BYTES
    extension_depth: int = MAX_DEPTH
    strict_extensions: bool = False

    def check_items(self, modalities: Sequence[Modality]) -> None:
        """Refuse more items than a request may have.

        Raises:
            Rejected: with the two numbers.
        """
        if len(modalities) > self.items:
            raise Rejected(
                "too_many_items", f"the request has {len(modalities)} media items; the limit is {self.items}"
            )
        for modality, count in Counter(modalities).items():
            limit = self.by_modality.get(modality)
            if limit is not None and count > limit:
                message = f"{count} items of {modality}_data; the limit is {limit} a request"
                raise Rejected("too_many_items", message, param=f"{modality}_data")


def read_limit_mm(text: str) -> dict[Modality, int]:
    """``image=8,video=1``: the most items of a modality in one request; 0 takes none."""
    limits: dict[Modality, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, number = part.partition("=")
        if name not in list(Modality) or not equals or not number.isdigit():
            raise ValueError(f"MODALITY=NUMBER was expected, with one of {', '.join(Modality)}, got {part!r}")
        limits[Modality(name)] = int(number)
    return limits
