"""The flow every request takes through a processor: process, layout, positions, validate, hashes. No I/O here."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from forebay.errors import Rejected
from forebay.extensions import is_present
from forebay.features import Int64Array, Item, Modality, Output, Processed, ids_array
from forebay.layout import expand
from forebay.media import Identity, Media
from forebay.processor import Capabilities, Processor, Prompt, Tokenizer, TypedExtensions, Work
from forebay.validation import validate, validate_layout, validate_processed

log = logging.getLogger(__name__)

_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]+")
_LOW_64_BITS = (1 << 64) - 1


def drive(
    processor: Processor,
    capabilities: Capabilities,
    work: Work,
    tokenizer: Tokenizer | None,
    caller_hashes: Sequence[str] = (),
) -> Output:
    """Run one request through a processor and return a result that may be parked.

    Raises:
        Rejected: the caller's mistake.
        Failed: the processor's mistake, or no room in the pool.
    """
    check_items(capabilities, [media.modality for media in work.media])
    output = processor.wrap_result(processor.process(work, tokenizer))
    validate(output, rows_per_token=capabilities.rows_per_token)
    check_length(len(output.input_ids), capabilities.context_tokens)
    items = _with_identity(output.items, work.media)
    return replace(output, items=apply_caller_hashes(items, caller_hashes))


def usual_flow(processor: Processor, work: Work, tokenizer: Tokenizer | None) -> Output:
    """Tokenize, process each item, expand the prompt, compute positions."""
    prompt = prompt_ids(work.prompt, tokenizer, processor.capabilities().vocabulary)
    own = extensions_by_item(processor, work.extensions, [media.modality for media in work.media])
    processed = [
        processor.process_item(media, replace(work, extensions=one)) for media, one in zip(work.media, own, strict=True)
    ]
    return _assemble(processor, prompt, work.media, processed)


def extensions_by_item(
    processor: Processor, extensions: TypedExtensions, modalities: Sequence[Modality]
) -> list[TypedExtensions]:
    """For each item of a request what of its extension map is about it.

    Raises:
        Rejected: the map does not suit the items.
    """
    return [processor.extensions_of(extensions, modalities, number) for number in range(len(modalities))]


def drive_item(processor: Processor, capabilities: Capabilities, media: Media, work: Work) -> Processed:
    """The half of the usual flow that reads an item alone, for a cacheable processor.

    Args:
        processor: its ``process`` is not overridden.
        capabilities: what it has declared.
        media: the item.
        work: carries extensions and memory; prompt and other media are hidden from the processor.

    Returns:
        A result that may serve other requests: it has been checked.

    Raises:
        Rejected: the caller's mistake.
        Failed: the processor's mistake, or no room in the pool.
    """
    alone = Work(work.rid, Prompt(ids=()), (media,), work.extensions, work.allocate)
    processed = processor.process_item(media, alone)
    validate_processed(processed, media.param, rows_per_token=capabilities.rows_per_token)
    return processed


def drive_prompt(
    processor: Processor,
    prompt: Int64Array,
    identities: Sequence[Identity],
    processed: Sequence[Processed],
    caller_hashes: Sequence[str] = (),
    context_tokens: int | None = None,
) -> Output:
    """The other half: lay out the prompt around items that ``drive_item`` made, now or for an earlier request.

    Args:
        processor: its ``process`` is not overridden.
        prompt: ids before expansion.
        identities: what the items are.
        processed: what was made of them.
        caller_hashes: the caller's own, if any.
        context_tokens: the longest expanded prompt that is taken.

    Raises:
        Rejected: the caller's mistake.
        Failed: the processor's mistake.
    """
    output = processor.wrap_result(_assemble(processor, prompt, identities, processed))
    validate_layout(output)
    check_length(len(output.input_ids), context_tokens)
    return replace(output, items=apply_caller_hashes(output.items, caller_hashes))


def _assemble(
    processor: Processor, prompt: Int64Array, identities: Sequence[Identity], processed: Sequence[Processed]
) -> Output:
    modalities = [one.modality for one in identities]
    layouts = [processor.layout(one, modality) for one, modality in zip(processed, modalities, strict=True)]
    expansion = expand(prompt, processor.capabilities().placeholders, modalities, layouts)
    items = tuple(
        Item(media.modality, one.feature, spans, one.tokens, media.hash, media.digest, one.model_specific)
        for media, one, spans in zip(identities, processed, expansion.spans, strict=True)
    )
    return Output(expansion.input_ids, items, processor.positions(expansion, processed))


def prompt_ids(prompt: Prompt, tokenizer: Tokenizer | None, vocabulary: int | None = None) -> Int64Array:
    """The prompt's token ids before expansion, checked against the vocabulary.

    Raises:
        Rejected: no tokenizer for a text, an id outside the vocabulary, or no token at all.
    """
    if prompt.ids is None:
        return _tokenize(prompt.text or "", tokenizer)
    ids = ids_array(prompt.ids)
    if not ids.size:
        raise Rejected("empty_prompt", "input_ids has no token", param="input_ids")
    limit = vocabulary or (tokenizer.size if tokenizer else None)
    wrong = np.flatnonzero((ids < 0) | (ids >= limit)) if limit is not None else np.flatnonzero(ids < 0)
    if wrong.size:
        valid = f"[0, {limit})" if limit is not None else "0 and above"
        raise Rejected(
            "invalid_token_id",
            f"input_ids[{wrong[0]}] is {ids[wrong[0]]}; valid ids are {valid}",
            param=f"input_ids[{wrong[0]}]",
        )
    return ids


def _tokenize(text: str, tokenizer: Tokenizer | None) -> Int64Array:
    if tokenizer is None:
        raise Rejected("no_tokenizer", "this model has no tokenizer; send input_ids", param="text")
    ids = ids_array(tokenizer.encode(text))
    if not ids.size:
        raise Rejected("empty_prompt", "the text has no token", param="text")
    return ids


def check_length(tokens: int, limit: int | None, *, at_least: bool = False) -> None:
    """Refuse a prompt that is longer than the model's context; ``at_least``: it has more tokens than were counted.

    Raises:
        Rejected: ``prompt_too_long``, with both numbers.
    """
    if limit is not None and tokens > limit:
        shown = f"at least {tokens}" if at_least else f"{tokens}"
        raise Rejected("prompt_too_long", f"the prompt has {shown} tokens with its media; the model takes {limit}")


def check_items(capabilities: Capabilities, modalities: Sequence[Modality]) -> None:
    """Refuse a modality the processor does not take, or more items than it takes."""
    for modality, count in Counter(modalities).items():
        limit = capabilities.modalities.get(modality, 0)
        if not limit:
            raise Rejected("unsupported_modality", f"this model takes no {modality}", param=f"{modality}_data")
        if count > limit:
            raise Rejected(
                "too_many_items",
                f"{count} items of {modality}_data; this model takes at most {limit}",
                param=f"{modality}_data",
            )


def _load(kind: type[BaseModel], fields: Mapping[str, Any]) -> BaseModel:
    return kind.model_validate(dict(fields))


def typed_extensions(
    capabilities: Capabilities,
    extensions: Mapping[str, Any],
    *,
    has_media: bool = True,
    load: Callable[[type[BaseModel], Mapping[str, Any]], BaseModel] = _load,
) -> BaseModel | None:
    """The extension map as the processor's own model sees it.

    Args:
        capabilities: what the processor has declared.
        extensions: the map as it came.
        has_media: whether the request has media; to a text alone, a map that says nothing does no harm.
        load: the processor's own ``load_extensions``.

    Raises:
        Rejected: the processor declares none, or its model refuses the map; the field path is named.
    """
    if capabilities.extensions is None:
        if extensions and (has_media or any(map(is_present, extensions.values()))):
            raise Rejected(
                "unsupported_extensions",
                f"unsupported generate extensions for this processor: {', '.join(sorted(extensions))}",
                param=min(extensions),
            )
        return None
    if not has_media:
        extensions = {name: value for name, value in extensions.items() if is_present(value)}
    try:
        return load(capabilities.extensions, extensions)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "extensions"
        raise Rejected(
            "invalid_extensions", f"invalid processor extensions: {path}: {first['msg']}", param=path
        ) from error


def _with_identity(items: tuple[Item, ...], media: tuple[Media, ...]) -> tuple[Item, ...]:
    """Give an item that names no hash the identity of its media, where items and media correspond."""
    if len(items) != len(media):
        return tuple(replace(item, hash=item.hash or 0) for item in items)
    return tuple(
        replace(item, hash=one.hash if item.hash is None else item.hash, digest=item.digest or one.digest)
        for item, one in zip(items, media, strict=True)
    )


def apply_caller_hashes(items: tuple[Item, ...], hashes: Sequence[str]) -> tuple[Item, ...]:
    """Let the caller name the items' identities.

    A list of another length is ignored as a whole, a malformed entry by itself; both are logged.
    Only the low 64 bits of an entry are kept.
    """
    if not hashes:
        return items
    if len(hashes) != len(items):
        log.warning("caller hashes ignored", extra={"hashes": len(hashes), "items": len(items)})
        return items
    return tuple(_with_caller_hash(item, text) for item, text in zip(items, hashes, strict=True))


def _with_caller_hash(item: Item, text: str) -> Item:
    if not _HEX.fullmatch(text):
        log.warning("malformed caller hash ignored", extra={"length": len(text)})
        return item
    return replace(item, hash=int(text, 16) & _LOW_64_BITS)
