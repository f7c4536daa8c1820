"""A model's chat template: messages in, the prompt's text out, as Hugging Face's tokenizers render it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from forebay.errors import ConfigurationError, Rejected

TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
"""Where a model folder may keep it, in the order in which they are looked at."""

_KEY = "chat_template"


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A template that was read and compiled; ``path`` is for messages."""

    path: Path
    compiled: Any
    variables: Mapping[str, Any]
    """What templates may name besides the request's own: the tokenizer's ``bos_token`` and its like."""

    @classmethod
    def find(cls, folder: Path) -> ChatTemplate | None:
        """The template of a model folder; ``None`` where there is none.

        Raises:
            ConfigurationError: it is no template, or the library is not installed.
        """
        for name in TEMPLATE_FILES:
            path = folder / name
            source = _read(path) if path.is_file() else None
            if source is not None:
                return cls(path, _compile(source, path), _special_tokens(folder))
        return None

    def render(self, messages: list[Any], tools: list[Any] | None, options: Mapping[str, Any]) -> str:
        """The prompt of a conversation, up to where the assistant is to go on.

        Raises:
            Rejected: the template refuses these messages, or cannot make anything of them.
        """
        from jinja2 import TemplateError

        named = {**self.variables, **options, "messages": messages, "tools": tools, "add_generation_prompt": True}
        try:
            text: str = self.compiled.render(**named)
        except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError) as error:
            message = f"the model's chat template cannot render these messages: {str(error)[:200]}"
            raise Rejected("chat_template", message, param="messages") from error
        return text


def _read(path: Path) -> str | None:
    if path.suffix == ".jinja":
        return path.read_text()
    try:
        found = json.loads(path.read_bytes()).get(_KEY)
    except (ValueError, AttributeError) as error:
        raise ConfigurationError(f"{path}: not a JSON object: {error}") from error
    if isinstance(found, list):  # several, by name
        found = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}.get("default")
    return found if isinstance(found, str) else None


def _special_tokens(folder: Path) -> dict[str, str]:
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_bytes()) if path.is_file() else {}
    tokens = {name: config.get(name) for name in ("bos_token", "eos_token", "unk_token", "pad_token")}
    plain = {name: token.get("content") if isinstance(token, dict) else token for name, token in tokens.items()}
    return {name: token for name, token in plain.items() if isinstance(token, str)}


def _compile(source: str, path: Path) -> Any:
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise ConfigurationError(f"{path} needs the 'jinja2' library: pip install 'forebay[tier]'") from error
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation_tag()]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    try:
        return environment.from_string(source)
    except TemplateError as error:
        raise ConfigurationError(f"{path}: not a chat template: {error}") from error


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    """Plain JSON: jinja2's own filter escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _raise_exception(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _generation_tag() -> type:
    """``{% generation %}`` marks what a model said, for training; here its body is all that counts."""
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return Generation
