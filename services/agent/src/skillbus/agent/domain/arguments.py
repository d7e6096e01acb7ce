"""Arguments against a tool's input schema."""

from collections.abc import Mapping

from pydantic import JsonValue

from skillbus.agent.domain.errors import ArgumentsInvalidError, SchemaUnusableError
from skillbus.common import json_schema


def check_arguments(schema: Mapping[str, JsonValue], arguments: Mapping[str, JsonValue]) -> None:
    """Whether they fit. It may take seconds: not for the event loop's thread.

    Raises:
        ArgumentsInvalidError: with the path of the first misfit.
        SchemaUnusableError: when the schema itself cannot be used.
    """
    try:
        json_schema.check_args(schema, arguments)
    except json_schema.MisfitError as error:
        raise ArgumentsInvalidError(error.problem, error.path) from error
    except json_schema.UnusableSchemaError as error:
        raise SchemaUnusableError(str(error)) from error
