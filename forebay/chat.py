"""A conversation, and its token ids: rendered by the model's own template, with what its writers wrote kept as text.

A template marks turns and media with special tokens. The same letters in somebody's message are only letters: they are
hidden while the template is rendered, and tokenized as ordinary text afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from forebay.chat_template import ChatTemplate
from forebay.errors import Rejected
from forebay.tokenizer import FileTokenizer

# Characters that mean nothing, and stand in no template: the three private areas of Unicode.
_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation as it travels: plain JSON values. A media part is ``{"type": "image"}`` and its like.

    Attributes:
        messages: with roles and contents, in order.
        tools: as the caller sent them, for the template.
        options: more names for the template, such as ``enable_thinking``.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def as_map(self) -> dict[str, Any]:
        return {"messages": list(self.messages), "tools": self.tools, "options": dict(self.options)}

    @classmethod
    def from_map(cls, data: Mapping[str, Any]) -> Chat:
        return cls(data["messages"], data["tools"], data["options"])


def chat_ids(chat: Chat, template: ChatTemplate, tokenizer: FileTokenizer) -> list[int]:
    """Token ids of a conversation's prompt.

    Raises:
        Rejected: the template does not take these messages, or nothing is left to mark special tokens with in them.
    """
    special = tokenizer.special_tokens
    written = (list(chat.messages), chat.tools, dict(chat.options))
    shield = Shield(special, list(_strings(written)))
    messages, tools, options = (shield.hide(one) for one in written)
    text = template.render(messages, tools, options)
    if not shield.hid_something:
        return tokenizer.encode(text)
    return list(_ids_around(text, special, tokenizer, shield.reveal))


def _ids_around(
    text: str, special: Mapping[str, int], tokenizer: FileTokenizer, reveal: Callable[[str], str]
) -> Iterator[int]:
    """The special tokens that are left are the template's; whatever lies between them is text."""
    for piece in re.split(f"({_any_of(special)})", text):
        if piece in special:
            yield special[piece]
        elif piece:
            yield from tokenizer.encode_text(reveal(piece))


def _any_of(texts: Mapping[str, int]) -> str:
    return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)


class Shield:
    """Stands between what people wrote and the special tokens that it spells, whole or across two of their strings."""

    def __init__(self, special: Mapping[str, int], texts: Sequence[str]) -> None:
        self._special = [text for text in special if text]
        self._edge, *marks = _free_marks(1 + len(self._special), texts)
        self._by_text = dict(zip(self._special, marks, strict=True))
        self._by_mark = {mark: text for text, mark in self._by_text.items()}
        self._pattern = re.compile(_any_of(special)) if self._special else None
        self.hid_something = False

    def hide(self, value: Any) -> Any:
        """The same value, with marks in place of special tokens in every string."""
        if isinstance(value, str):
            return self._hide_text(value)
        if isinstance(value, Mapping):
            return {self.hide(key): self.hide(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.hide(inner) for inner in value]
        return value

    def _hide_text(self, text: str) -> str:
        if self._pattern is None or not text:
            return text
        hidden = self._pattern.sub(lambda match: self._by_text[match[0]], text)
        before = self._edge if self._may_end_one(hidden) else ""
        after = self._edge if self._may_begin_one(hidden) else ""
        if before or after or hidden != text:
            self.hid_something = True
        return f"{before}{hidden}{after}"

    def _may_begin_one(self, text: str) -> bool:
        """Whether the text ends with the beginning of a special token, which the next string might end."""
        return any(text.endswith(token[:length]) for token in self._special for length in range(1, len(token)))

    def _may_end_one(self, text: str) -> bool:
        return any(text.startswith(token[-length:]) for token in self._special for length in range(1, len(token)))

    def reveal(self, text: str) -> str:
        """What was written."""
        text = text.replace(self._edge, "")
        return "".join(self._by_mark.get(letter, letter) for letter in text)


def _free_marks(count: int, texts: Sequence[str]) -> list[str]:
    used = set().union(*map(set, texts)) if texts else set()
    private = map(chr, chain(*_PRIVATE))
    free = list(islice((mark for mark in private if mark not in used), count))
    if len(free) < count:
        message = f"messages leave {len(free)} private-use characters of Unicode unused; {count} are needed"
        raise Rejected("chat_template", message, param="messages")
    return free
