"""A conversation becomes a prompt: by the model's own template, or, where the model reads no prompt, not at all."""

from __future__ import annotations

from forebay.chat import chat_ids
from forebay.errors import Rejected
from forebay.plugins import LoadedProcessor
from forebay.processor import Prompt
from forebay.task import TaskBody
from forebay.tokenizer import FileTokenizer


def prompt_of(body: TaskBody, loaded: LoadedProcessor) -> Prompt:
    """The prompt of a request as a processor reads it.

    Raises:
        Rejected: a conversation for a model without a chat template, or one that its template does not take.
    """
    chat = body.prompt.chat
    if chat is None:
        return body.prompt
    if not loaded.capabilities.needs_prompt_tokens:
        return Prompt(text="")
    if loaded.template is None or not isinstance(loaded.tokenizer, FileTokenizer):
        message = f"model {loaded.name!r} has no chat template; send text or input_ids to /generate"
        raise Rejected("no_chat_template", message, param="messages")
    return Prompt(ids=tuple(chat_ids(chat, loaded.template, loaded.tokenizer)))
