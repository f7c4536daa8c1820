"""What features cost here: CPU seconds for each byte of them, as this process has measured."""

from __future__ import annotations

from dataclasses import dataclass, field

ASSUMED_S_A_BYTE = 1e-9  # until something is measured: some 20 ms for the 22 MB of a 1280x720 picture
_WEIGHT = 0.1  # of the latest, so that some ten requests decide


@dataclass(slots=True)
class Pace:
    """A running mean for each model. Decoding counts with the features that come of it."""

    _s_a_byte: dict[str, float] = field(default_factory=dict)

    def note(self, model: str, feature_bytes: int, cpu_s: float) -> None:
        """Take in one request whose features were made here."""
        if feature_bytes <= 0:
            return
        latest = cpu_s / feature_bytes
        earlier = self._s_a_byte.get(model, latest)
        self._s_a_byte[model] = earlier + _WEIGHT * (latest - earlier)

    def is_measured(self, model: str) -> bool:
        """Whether estimates rest on more than an assumption."""
        return model in self._s_a_byte

    def estimate_s(self, model: str, feature_bytes: int) -> float:
        """CPU seconds for features of that many bytes."""
        return feature_bytes * self._s_a_byte.get(model, ASSUMED_S_A_BYTE)
