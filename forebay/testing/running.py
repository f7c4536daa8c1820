"""One request through a processor, in one process, exactly as on a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forebay.drive import drive, typed_extensions
from forebay.features import Output
from forebay.media import Media
from forebay.processor import Processor, Prompt, Tokenizer, Work
from forebay.testing.media import placed


def run_processor(
    processor: Processor,
    media: Sequence[Media],
    *,
    text: str | None = None,
    input_ids: Sequence[int] | None = None,
    extensions: dict[str, Any] | None = None,
    tokenizer: Tokenizer | None = None,
    caller_hashes: Sequence[str] = (),
) -> Output:
    """Drive one request through ``processor`` and return the validated output.

    Raises:
        Rejected, Failed: exactly as on a worker.
    """
    capabilities = processor.capabilities()
    work = Work(
        rid="test",
        prompt=Prompt(text, None if input_ids is None else tuple(input_ids)),
        media=placed(media),
        extensions=typed_extensions(capabilities, extensions or {}, load=processor.load_extensions),
    )
    return drive(processor, capabilities, work, tokenizer or processor.tokenizer(), caller_hashes)
