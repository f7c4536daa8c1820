"""Where Forebay answers another thing than SGLang's Rust frontend on purpose, and how one compares the two.

SGLang's answers were observed by sending the bodies to the compiled frontend of its public package (0.5.23); those
about ``multimodal_*`` fields, which that package ignores, were read in the sources that carry them. They are recorded,
so that no test needs SGLang.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from api.limits import Limits

_USUAL = Limits()


class Why(StrEnum):
    """The intended differences. One that no row shows any more must go from here."""

    CLIENTS_FAULT = "media that a worker cannot use are the caller's mistake: 400, where the original says 500"
    FORGIVING_BASE64 = "line breaks, missing padding and the URL-safe alphabet are accepted"
    BARE_JPEG = "a string is never guessed to be a path, so the base64 of a JPEG needs no data: in front"
    UPPER_CASE_SCHEME = "the scheme of a data: URL has no case"
    ONLY_BASE64_URLS = "a data: URL says that it is base64, otherwise it is refused"
    NO_FILES = "the server's files are closed to callers"
    NO_LOCAL_HOSTS = "nothing is fetched from the server's own network"
    ITS_OWN_PROMPTS_MISTAKE = "a source or a count that is refused is its prompt's mistake; the others are answered"
    NULL_FIRST = "nesting is not judged by the first element of a batch"
    BROADCAST = "an extension value that is no list goes to every prompt; strict mode refuses it"
    NULL_EXTENSION = "a null is as good as nothing, also for one prompt of a batch"
    HASHES_OF_A_BATCH = "a batch takes a list of hashes for each prompt"
    SEVERAL_ANSWERS = "n above 1: prepared once, answered n times"
    DUPLICATE_RID = "an id that is running is not accepted a second time"
    LOST_PLACEHOLDER = "a placeholder without an item is refused, not read as text"
    MOST_ITEMS = "a request has at most 64 items"
    SAID_BY_STATUS = "413 and 415 where the original says 400"
    LENIENT_ITEM = "unknown keys of a media object are ignored, as unknown fields of a body are"
    ENGINES_BUSINESS = "fields and sampling parameters that only an engine reads are not looked at"
    TRUNCATED = "an image that ends too early is refused"
    SIXTEEN_BITS = "sixteen bits a channel are scaled to eight"
    EXIF = "an orientation is applied"
    CHAT_IMAGES = "conversations may have images"
    RETRY_AFTER = "a refusal for lack of room says when to come again"


@dataclass(frozen=True, slots=True)
class Row:
    """One body.

    Attributes:
        name: for the test's id.
        body: as JSON, or as the bytes themselves.
        seen: what the original answers: a status above 200, or what it makes of each prompt. A number among the
            prompts is the status of that prompt's own error.
        ours: what Forebay answers, where that is another thing on purpose.
        why: the intended difference.
        of: what of each prompt is looked at.
        limits: of a deployment with limits of its own.
        path: where it is sent to, if it is sent at all.
    """

    name: str
    body: Any
    seen: Any
    ours: Any = None
    why: Why | None = None
    of: str = "images"
    limits: Limits = _USUAL
    path: str = "/v1/preprocess"

    @property
    def expected(self) -> Any:
        """What Forebay must answer."""
        return self.seen if self.why is None else self.ours

    @property
    def is_sound(self) -> bool:
        """Whether it is either the same, or a difference that is one and says why."""
        return (self.ours is None) if self.why is None else (self.ours is not None and self.ours != self.seen)


def ids(rows: list[Row]) -> list[str]:
    """The names, for pytest."""
    return [row.name for row in rows]
