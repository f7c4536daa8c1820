"""The GPU side: every step classifies all images of all admitted requests at once, and finishes those requests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from forebay import Admission, Emission, Engine, ModelSource, Room
from forebay_efficientnet_lite0.labels import read_labels
from forebay_efficientnet_lite0.processor import MOST_IMAGES
from forebay_efficientnet_lite0.weights import weights_file

if TYPE_CHECKING:
    from torch import Tensor

    from forebay_efficientnet_lite0.classifier import Classifier, Prediction

MOST_REQUESTS = 8
MOST_TOKENS = MOST_REQUESTS * MOST_IMAGES  # one token an image


class EfficientNetLite0Engine(Engine):
    """Answers each request with the label of each image, and the probabilities beside it."""

    def __init__(self, classifier: Classifier, labels: Sequence[str]) -> None:
        self._classifier = classifier
        self._labels = labels
        self._waiting: dict[str, list[Tensor]] = {}

    @classmethod
    def create(cls, model: ModelSource) -> EfficientNetLite0Engine:
        # torch is loaded here, not with this module: looking an engine up must be quick.
        from forebay_efficientnet_lite0.classifier import Classifier

        return cls(Classifier.load(weights_file(model)), read_labels())

    def room(self) -> Room:
        taken = sum(map(len, self._waiting.values()))
        return Room(requests=MOST_REQUESTS - len(self._waiting), tokens=MOST_TOKENS - taken)

    def admit(self, admission: Admission) -> None:
        # Copied at once: a view into shared memory that is never kept cannot be kept too long.
        self._waiting[admission.rid] = [self._classifier.upload(item.array) for item in admission.items]

    def step(self) -> Sequence[Emission]:
        if not self._waiting:
            return []
        # Taken before the work: should the network fail, all of these requests have failed.
        waiting, self._waiting = self._waiting, {}
        images = [image for group in waiting.values() for image in group]
        predictions = iter(self._classifier.classify(images))
        return [self._answer(rid, list(islice(predictions, len(group)))) for rid, group in waiting.items()]

    def abort(self, rid: str) -> None:
        self._waiting.pop(rid, None)

    def close(self) -> None:
        self._waiting.clear()

    def _answer(self, rid: str, predictions: Sequence[Prediction]) -> Emission:
        images = [self._describe(prediction) for prediction in predictions]
        text = ", ".join(image["label"] for image in images)
        return Emission(rid, text, tokens=len(images), finish_reason="stop", meta={"images": images})

    def _describe(self, prediction: Prediction) -> dict[str, Any]:
        label = self._labels[prediction.label_id]
        return {"label_id": prediction.label_id, "label": label, "probability": prediction.probability}
