"""The JSON Schema of a spec file, for editors. Looser than `document.load`, which also knows what fits together."""

from typing import Any

from streamlease.spec.model import ConnectionSpec

_FOR_EACH = {
    "description": "Makes one connection for each row; {name} in any text is filled in from it",
    "anyOf": [
        {"type": "string", "description": "The path of a CSV file whose first line names the columns"},
        {"type": "array", "minItems": 1, "items": {"type": ["object", "string", "number"]}},
    ],
}


def _or_one(several: dict[str, Any]) -> dict[str, Any]:
    """A list, or one of what it holds."""
    kept: dict[str, Any] = {name: several.pop(name) for name in ("description", "title") if name in several}
    return {**kept, "anyOf": [several, several["items"]]}


def json_schema() -> dict[str, Any]:
    connection = ConnectionSpec.model_json_schema(mode="validation")
    definitions: dict[str, Any] = connection.pop("$defs")
    fields: dict[str, Any] = connection["properties"]
    fields["for_each"] = _FOR_EACH
    fields["ready"] = {"anyOf": [{"type": "string", "description": "Short for ready.when"}, {"$ref": "#/$defs/Ready"}]}
    fields["adapter"] = {
        "anyOf": [{"type": "string", "description": "Short for adapter.name"}, {"$ref": "#/$defs/Adapter"}]
    }
    definitions["Dials"] = _or_one(definitions["Dials"])
    definitions["Entry"] = {"anyOf": definitions["Entry"]["oneOf"]}  # every step could be a message too
    rule: dict[str, Any] = definitions["Rule"]["properties"]
    for name in ("close", "http"):
        rule[name] = _or_one(rule[name])
    defaults = {name: value for name, value in fields.items() if name not in ("id", "for_each")}
    definitions["Connection"] = {**connection, "required": ["id"]}  # the URL may come from defaults
    definitions["Connection"].pop("title", None)
    definitions["Defaults"] = {"type": "object", "additionalProperties": False, "properties": defaults}
    connections = {"type": "array", "items": {"$ref": "#/$defs/Connection"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Streamlease connections",
        "anyOf": [
            {
                "type": "object",
                "required": ["connections"],
                "additionalProperties": False,
                "properties": {"defaults": {"$ref": "#/$defs/Defaults"}, "connections": connections},
            },
            connections,
            {"$ref": "#/$defs/Connection"},
        ],
        "$defs": definitions,
    }
