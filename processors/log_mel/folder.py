"""How a folder's feature extractor hears, key by key: honoured, of the one supported value, or refused by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from forebay import ConfigurationError, ModelSource
from forebay.model import JsonFile

CONFIG, PREPROCESSOR, PROCESSOR, NESTED = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "feature_extractor",
)
_CLASS = "WhisperFeatureExtractor"
_ONLY: dict[str, tuple[Any, ...]] = {
    "feature_extractor_type": (_CLASS,),
    "dither": (0, 0.0),
    "do_normalize": (False,),
    "padding_side": ("right",),
    "padding_value": (0, 0.0),
}
_HONOURED = {"feature_size", "sampling_rate", "hop_length", "chunk_length", "n_fft", "n_samples", "nb_max_frames"}
_INERT = {"processor_class", "return_attention_mask", "mel_filters", "auto_map"}


@dataclass(frozen=True, slots=True)
class Hearing:
    """All that changes a feature.

    Attributes:
        bands: of the spectrogram.
        rate_hz: of the samples.
        hop: samples from frame to frame.
        window: samples in a frame.
        seconds: what is heard; less is filled with silence.
    """

    bands: int = 80
    rate_hz: int = 16_000
    hop: int = 160
    window: int = 400
    seconds: int = 30

    @property
    def samples(self) -> int:
        return self.seconds * self.rate_hz

    @property
    def frames(self) -> int:
        return self.samples // self.hop

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def read_hearing(model: ModelSource) -> Hearing:
    """Read a folder's audio settings.

    Raises:
        ConfigurationError: naming the file and the key that is missing or unsupported.
    """
    file, prefix = _place(model)
    names = file.get(prefix.rstrip("."), dict) if prefix else file.data
    for name in sorted(names):
        value = file.get(prefix + name, object, default=None)
        if value is None or name.startswith("_") or name in _HONOURED or name in _INERT:
            continue
        if name not in _ONLY or value not in _ONLY[name]:
            raise ConfigurationError(f"{file.path}: key {prefix + name!r} has the unsupported value {value!r}")
    usual = Hearing()

    def number(name: str, default: int) -> int:
        found = file.get(prefix + name, int, default=default)
        if found < 1:
            raise ConfigurationError(f"{file.path}: key {prefix + name!r} has the unsupported value {found!r}")
        return found

    return Hearing(
        bands=number("feature_size", usual.bands),
        rate_hz=number("sampling_rate", usual.rate_hz),
        hop=number("hop_length", usual.hop),
        window=number("n_fft", usual.window),
        seconds=number("chunk_length", usual.seconds),
    )


def _place(model: ModelSource) -> tuple[JsonFile, str]:
    """Newer folders nest the settings in the processor's file, and then that comes first."""
    if model.folder is not None and (model.folder / PROCESSOR).is_file():
        file = model.json(PROCESSOR)
        if NESTED in file.names:
            return file, f"{NESTED}."
    return model.json(PREPROCESSOR), ""
