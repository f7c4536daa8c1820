"""What a finished output becomes: a ticket for the scheduler, or a description for ``/v1/preprocess``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forebay.dtypes import DType
from forebay.features import Item, Normalisation, Output, Positions
from forebay.media import digest_of
from forebay.task import TaskBody
from forebay.ticket import ArrayAt, Ticket, TicketItem
from handoff.media import MediaStore
from workers.reservation import Reservation


def make_ticket(
    output: Output,
    reservation: Reservation,
    rid: str,
    attempt: int,
    model: str,
    sampling: Mapping[str, Any],
    samples: int = 1,
) -> Ticket:
    """Place everything in the pool and say where it lies. A request without media needs no block."""
    items = tuple(_ticket_item(item, reservation) for item in output.items)
    ids: ArrayAt | bytes = output.input_ids.tobytes()
    if items:
        ids = reservation.put(output.input_ids, DType.INT64)
    mrope, delta = _place_positions(output.positions, reservation)
    return Ticket(rid, attempt, model, reservation.handles, ids, items, mrope, delta, sampling, samples)


def _place_positions(positions: Positions | None, reservation: Reservation) -> tuple[ArrayAt | None, int]:
    if positions is None:
        return None, 0
    return reservation.put(positions.mrope, DType.INT64), positions.delta


def _ticket_item(item: Item, reservation: Reservation) -> TicketItem:
    at = reservation.place(item.feature.array.reshape(item.feature.shape), item.feature.dtype)
    return TicketItem(
        modality=item.modality,
        hash=item.hash or 0,
        digest=item.digest,
        spans=item.spans,
        tokens=item.tokens,
        feature=at,
        model_specific=dict(item.model_specific),
        normalisation=item.feature.normalisation,
    )


def describe(output: Output, body: TaskBody, store: MediaStore, cached: Sequence[bool]) -> dict[str, Any]:
    """The answer of ``/v1/preprocess``, but for what only the API knows.

    Args:
        output: the result.
        body: what was asked for.
        store: where features go that the caller wants whole.
        cached: for each item, whether its feature was found rather than made.
    """
    items = zip(output.items, cached, strict=True)
    return {
        "input_ids": output.input_ids.tolist(),
        "items": [_describe_item(item, body.features, store) | {"cached": found} for item, found in items],
        "mrope": _describe_positions(output.positions),
    }


def _describe_positions(positions: Positions | None) -> dict[str, Any] | None:
    return None if positions is None else {"positions": positions.mrope.tolist(), "delta": positions.delta}


def _describe_normalisation(normalisation: Normalisation) -> dict[str, Any]:
    return {"mean": list(normalisation.mean), "std": list(normalisation.std), "copies": normalisation.copies}


def _describe_item(item: Item, features: str, store: MediaStore) -> dict[str, Any]:
    feature: dict[str, Any] = {"dtype": str(item.feature.dtype), "shape": list(item.feature.shape)}
    if item.feature.normalisation is not None:
        feature["normalisation"] = _describe_normalisation(item.feature.normalisation)
    data = np.ascontiguousarray(item.feature.array)
    if features != "none":
        feature["sha256"] = hashlib.sha256(data.data).hexdigest()
    if features == "base64":
        # Never through the record: the bytes take the media store, and the API picks them up there.
        raw = data.tobytes()
        feature["stored"] = digest_of(raw)
        store.put(feature["stored"], raw)
    return {
        "modality": str(item.modality),
        "offsets": [[span.first, span.last] for span in item.spans],
        "hash": f"{item.hash or 0:016x}",
        "digest": item.digest,
        "feature": feature,
        "model_specific_data": dict(item.model_specific),
    }
