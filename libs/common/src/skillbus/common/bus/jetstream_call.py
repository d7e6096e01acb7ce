"""A deadline and the contract's errors around calls of JetStream, its key-value and its object store."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from nats.errors import Error as NatsError
from nats.js.errors import BucketNotFoundError, ObjectNotFoundError

from skillbus.contracts.errors import ErrorCode, RequestError

_TIMEOUT_S: Final = 20.0


@asynccontextmanager
async def jetstream_call(what: str, timeout_s: float = _TIMEOUT_S) -> AsyncGenerator[None]:
    """Do what is inside, in time; `what` says it in the words of an error: "put a.zip into skills".

    Raises:
        RequestError: `not_found` for a bucket or object that is not there, `deadline_exceeded`, or `unavailable`.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (ObjectNotFoundError, BucketNotFoundError) as error:
        raise RequestError(ErrorCode.NOT_FOUND, f"Could not {what}: it is not there.") from error
    except TimeoutError as error:
        raise RequestError(ErrorCode.DEADLINE_EXCEEDED, f"Could not {what} in time.") from error
    except NatsError as error:
        raise RequestError(ErrorCode.UNAVAILABLE, f"Could not {what}: {error!r}") from error
