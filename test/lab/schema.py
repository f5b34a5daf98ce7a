"""Replies against doc/schema.json."""
import json
from functools import lru_cache
from pathlib import Path

import jsonschema

SCHEMA = Path(__file__).resolve().parents[2] / "doc" / "schema.json"
# The definitions that are not named as their commands are.
DEFINITIONS = {"rekey": "peer", "down": "peer", "up": "peer", "log": "done",
               "offload": "done"}


@lru_cache
def _validator(definition):
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    if definition not in schema["$defs"]:
        raise KeyError(f"doc/schema.json defines no reply {definition}")
    return jsonschema.Draft202012Validator(
        {"$ref": f"#/$defs/{definition}", "$defs": schema["$defs"]})


def validate(command, reply):
    """Raises AssertionError when `reply` (a dict) is not what `command` must answer; a refusal is
    none either: validate("error", reply) checks one. Returns the reply.
    """
    errors = sorted(_validator(DEFINITIONS.get(command, command)).iter_errors(reply), key=str)
    if errors:
        said = "; ".join(f"{'/'.join(map(str, e.absolute_path)) or 'the reply'}: {e.message}"
                         for e in errors[:5])
        raise AssertionError(f"the reply to {command} breaks doc/schema.json: {said}")
    return reply
