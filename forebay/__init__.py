"""Forebay: the CPU tier in front of a multimodal model.

This package is the shared language. It is all that the author of a processor or an engine imports. ``Client`` and
``AsyncClient`` are imported when they are first asked for, because workers and authors need no HTTP.
"""

from typing import TYPE_CHECKING

from forebay.dtypes import DType
from forebay.engine import Admission, AdmittedItem, Emission, Engine, Room
from forebay.errors import ConfigurationError, Failed, ForebayError, Rejected
from forebay.features import Feature, Item, Modality, Normalisation, Output, Planned, Positions, Processed, Span
from forebay.layout import Expansion, Layout, Run
from forebay.media import Audio, Clip, Image, Media, Video
from forebay.model import ModelSource
from forebay.processor import Capabilities, Processor, Prompt, Tokenizer, Work, WorkerStart
from forebay.states import State
from forebay.tokenizer import FileTokenizer

if TYPE_CHECKING:
    from forebay.client import AsyncClient, Client
else:

    def __getattr__(name: str) -> object:
        if name in ("AsyncClient", "Client"):
            from forebay import client

            return getattr(client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"

__all__ = [
    "Admission",
    "AdmittedItem",
    "AsyncClient",
    "Audio",
    "Capabilities",
    "Client",
    "Clip",
    "ConfigurationError",
    "DType",
    "Emission",
    "Engine",
    "Expansion",
    "Failed",
    "Feature",
    "FileTokenizer",
    "ForebayError",
    "Image",
    "Item",
    "Layout",
    "Media",
    "Modality",
    "ModelSource",
    "Normalisation",
    "Output",
    "Planned",
    "Positions",
    "Processed",
    "Processor",
    "Prompt",
    "Rejected",
    "Room",
    "Run",
    "Span",
    "State",
    "Tokenizer",
    "Video",
    "Work",
    "WorkerStart",
]
