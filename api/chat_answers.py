"""Answers of ``/v1/chat/completions``, whole or in chunks, as OpenAI's clients read them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forebay.errors import Failed


@dataclass(slots=True)
class ChatAnswer:
    """One answer to a conversation; it remembers what of its stream has been said."""

    rid: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))
    _said: dict[int, str] = field(default_factory=dict)

    def whole(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The completion, with a choice for each answer."""
        choices = [
            {
                "index": number,
                "message": {"role": "assistant", "content": answer["text"]},
                "finish_reason": _reason(answer),
                "logprobs": None,
            }
            for number, answer in enumerate(answers)
        ]
        return {**self._head("chat.completion"), "choices": choices, "usage": usage(answers)}

    def chunks(self, number: int, answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What is new of an answer that grows.

        Raises:
            Failed: another scheduler has begun the answer anew, and says something else; what was said stands.
        """
        if number not in self._said:
            self._said[number] = ""
            yield self._chunk(number, {"role": "assistant", "content": ""}, None)
        said, text = self._said[number], answer["text"]
        if text.startswith(said):
            if len(text) > len(said):
                self._said[number] = text
                yield self._chunk(number, {"content": text[len(said) :]}, None)
        elif not said.startswith(text):
            raise Failed(
                "answer_restarted", "the answer was begun anew and goes on differently; send it again", status=503
            )
        if answer["meta_info"]["finish_reason"] is not None:
            yield self._chunk(number, {}, _reason(answer))

    def counts(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The last chunk where token counts were asked for."""
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": usage(answers)}

    def _chunk(self, number: int, delta: Mapping[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": number, "delta": dict(delta), "finish_reason": reason, "logprobs": None}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.rid, "object": kind, "created": self.created, "model": self.model}


def usage(answers: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Token counts; the prompt was prepared, and is counted, once."""
    prompt = answers[0]["meta_info"]["prompt_tokens"]
    completion = sum(answer["meta_info"]["completion_tokens"] for answer in answers)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _reason(answer: Mapping[str, Any]) -> str:
    return str(answer["meta_info"]["finish_reason"]["type"])
