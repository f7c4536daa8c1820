"""Forebay: the CPU tier in front of a multimodal model.

This package is the shared language. It is all that the author of a processor or an engine imports.
"""

from forebay.dtypes import DType
from forebay.engine import Admission, AdmittedItem, Emission, Engine, Room
from forebay.errors import ConfigurationError, Failed, ForebayError, Rejected
from forebay.features import Feature, Item, Modality, Normalisation, Output, Planned, Positions, Processed, Span
from forebay.layout import Expansion, Layout, Run
from forebay.media import Audio, Image, Media
from forebay.model import ModelSource
from forebay.processor import Capabilities, Processor, Prompt, Tokenizer, Work
from forebay.states import State
from forebay.tokenizer import FileTokenizer

__version__ = "0.1.0"

__all__ = [
    "Admission",
    "AdmittedItem",
    "Audio",
    "Capabilities",
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
    "Work",
]
