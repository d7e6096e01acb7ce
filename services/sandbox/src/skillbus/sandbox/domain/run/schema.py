"""Arguments against an input schema that a skill's author wrote."""

from collections.abc import Mapping

from skillbus.common import json_schema
from skillbus.sandbox.domain.errors import ArgumentsInvalid, SchemaInvalid
from skillbus.sandbox.domain.run.arguments import Json


def check_args(schema: Mapping[str, Json], args: Mapping[str, Json]) -> None:
    """Whether `args` fit `schema`. It may take seconds: not for the event loop's thread.

    Raises:
        ArgumentsInvalid: with the path of the first misfit.
        SchemaInvalid: when the schema itself cannot be used.
    """
    try:
        json_schema.check_args(schema, args)
    except json_schema.MisfitError as error:
        raise ArgumentsInvalid(error.problem, error.path) from error
    except json_schema.UnusableSchemaError as error:
        raise SchemaInvalid(error.problem, error.path) from error
