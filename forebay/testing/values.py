"""Values to try for the fields of an extension model: ones it may take, by its JSON schema, and ones it may not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

WRONG: tuple[Any, ...] = ("no such value", -1, 0, 1.5, True, [], [[]], {}, {"no": "such"}, [None], -(2**40))
"""JSON values of every kind; a field may take some of them."""

_INTEGERS = (1, 2, 3, 8, 100, 1000, 50_000)
_NUMBERS = (0.25, 0.5, 1.0, 2.0, 10.0)
_TEXTS = ("a", "b", "left")
_MOST = 4
_DEEPEST = 4


def fields_of(model: type[BaseModel]) -> dict[str, str]:
    """The names by which a caller sets the model's fields, and each field's own name."""
    return {_alias(name, info.alias, info.validation_alias): name for name, info in model.model_fields.items()}


def _alias(name: str, *aliases: Any) -> str:
    return next((one for one in aliases if isinstance(one, str)), name)


def valid_values(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """For each field, values that the model takes beside ``given`` and that say something else than it."""
    schema = model.model_json_schema()
    return {
        name: _accepted(model, given, name, _values(part, schema, 0))
        for name, part in schema.get("properties", {}).items()
    }


def _accepted(model: type[BaseModel], given: Mapping[str, Any], name: str, values: Sequence[Any]) -> list[Any]:
    seen = [_dumped(model, given)]
    accepted = []
    for value in values:
        dumped = _dumped(model, {**given, name: value})
        if dumped is not None and dumped not in seen:
            seen.append(dumped)
            accepted.append(value)
    step = max(1, math.ceil(len(accepted) / _MOST))
    return accepted[::step]


def _dumped(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        typed = model.model_validate(dict(values))
    except ValidationError:
        return None
    except Exception:  # noqa: BLE001 - a validator that raises anything else is another check's to name
        return None
    return dict(vars(typed))  # not what it dumps: a field may be left out of that


def _values(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> list[Any]:
    """Values of one schema, the plainest first."""
    if depth > _DEEPEST:
        return []
    if "$ref" in schema:
        return _values(root["$defs"][schema["$ref"].rpartition("/")[2]], root, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return [value for part in schema[word] for value in _values(part, root, depth + 1)]
    if "const" in schema or "enum" in schema:
        return list(schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "boolean":
        return [True, False]
    if kind in ("integer", "number"):
        return _numbers(schema, whole=kind == "integer")
    if kind == "string":
        return list(_TEXTS)
    if kind == "array":
        return _arrays(schema, root, depth)
    return _objects(schema, root, depth) if kind == "object" else []


def _numbers(schema: Mapping[str, Any], *, whole: bool) -> list[Any]:
    """Around the default and the limits, then usual ones."""
    known = [
        schema[key]
        for key in ("default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        if _is_number(schema.get(key))
    ]
    near = [one + step for one in known for step in (1, -1, 0)] + [one * 2 for one in known]
    values = [*near, *(_INTEGERS if whole else _NUMBERS)]
    return [int(value) for value in values if math.isfinite(value)] if whole else values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _arrays(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> list[Any]:
    if "prefixItems" in schema:
        parts = [_values(part, root, depth + 1) for part in schema["prefixItems"]]
        return [[values[at % len(values)] for values in parts] for at in range(3)] if all(parts) else []
    values = _values(schema.get("items", {}), root, depth + 1)
    least = max(1, schema.get("minItems", 1))
    return [[values[(at + step) % len(values)] for step in range(least)] for at in range(3)] if values else []


def _objects(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> list[Any]:
    parts = {name: _values(part, root, depth + 1) for name, part in schema.get("properties", {}).items()}
    parts = {name: values for name, values in parts.items() if values}
    return [{name: values[at % len(values)] for name, values in parts.items()} for at in range(3)] if parts else []
