"""Operations: one description of each route, bound to either transport.

An operation is an attribute of a class such as `ToolOperations`. On a `SyncConnection` it is a method that returns the
reply, on an `AsyncConnection` one that returns an awaitable. Its parameters are those of a request of the contracts, or
of a function; type checkers and editors follow them.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Generic, ParamSpec, Protocol, Self, TypeVar, overload

import httpx
from pydantic import BaseModel, ValidationError

from skillbus.client.call import Call, build_error, build_unexpected, parse_reply
from skillbus.client.connection import AsyncConnection, SyncConnection
from skillbus.client.errors import WrongArgumentError
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.message import Message
from skillbus.contracts.validation import describe_problems

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT", bound=BaseModel)
ResultT = TypeVar("ResultT")
PartT = TypeVar("PartT")
PartT_co = TypeVar("PartT_co", covariant=True)

Prepare = Callable[..., PreparedRequest]


class AnyOperation:
    """HttpRoute, parameters and name of an operation."""

    def __init__(self, route: HttpRoute, prepare: Prepare, signature: inspect.Signature) -> None:
        self.route: Final = route
        self.signature: Final = signature
        self.name = ""
        self._prepare = prepare

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def build_call(self, project: str | None, args: tuple[object, ...], kwargs: dict[str, object]) -> Call:
        """Return the call for the arguments of the method. `project` is the client's.

        Raises:
            TypeError: The operation has no such parameter, an argument is missing, or must be given by name.
            WrongArgumentError: An argument breaks the contract.
        """
        self._check_names(args, kwargs)
        try:
            prepared = self._prepare(*args, **kwargs)
        except ValidationError as error:
            raise WrongArgumentError(f"{self.name}(): {describe_problems(error)}") from None
        fields = dict(prepared.fields)
        if project is not None and "project" in self.signature.parameters and fields.get("project") is None:
            fields["project"] = project
        for name in self.route.path_names:
            fields.setdefault(name, self.signature.parameters[name].default)
        return self.route.build_call(replace(prepared, fields=fields))

    def _check_names(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        parameters = self.signature.parameters
        for name in kwargs.keys() - parameters.keys():
            near = "".join(f": do you mean {one!r}?" for one in get_close_matches(name, parameters, 1))
            raise TypeError(f"{self.name}() has no parameter {name!r}{near}")
        by_name = [name for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY]
        if len(args) > len(parameters) - len(by_name) and by_name:
            needed = [name for name in by_name if parameters[name].default is inspect.Parameter.empty] or by_name[:1]
            example = ", ".join(f"{name}=…" for name in needed)
            raise TypeError(f"{self.name}() takes {', '.join(map(repr, needed))} by name: {self.name}({example})")
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}") from None

    def _label(self, method: Callable[P, ResultT]) -> Callable[P, ResultT]:
        """Give a bound method the name and the parameters that `help` shows."""
        method.__name__ = method.__qualname__ = self.name
        method.__doc__ = f"{self.route.method} {self.route.path}"
        method.__dict__["__signature__"] = self.signature
        return method


class Operation(AnyOperation, Generic[P, ResultT]):
    """HttpRoute with one reply."""

    def __init__(
        self,
        route: HttpRoute,
        prepare: Prepare,
        signature: inspect.Signature,
        parse: Callable[[httpx.Response], ResultT],
    ) -> None:
        super().__init__(route, prepare, signature)
        self.parse = parse

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...

    @overload
    def __get__(self, client: SyncConnection, owner: type) -> Callable[P, ResultT]: ...

    @overload
    def __get__(self, client: AsyncConnection, owner: type) -> Callable[P, Awaitable[ResultT]]: ...

    def __get__(self, client: object, owner: type) -> object:
        if isinstance(client, SyncConnection):
            return self._label(self._bind_sync(client))
        return self._label(self._bind_async(client)) if isinstance(client, AsyncConnection) else self

    def _bind_sync(self, client: SyncConnection) -> Callable[P, ResultT]:
        def call_and_wait(*args: P.args, **kwargs: P.kwargs) -> ResultT:
            return self.parse(client.send(self.build_call(client.project, args, kwargs)))

        return call_and_wait

    def _bind_async(self, client: AsyncConnection) -> Callable[P, Awaitable[ResultT]]:
        async def call(*args: P.args, **kwargs: P.kwargs) -> ResultT:
            return self.parse(await client.send(self.build_call(client.project, args, kwargs)))

        return call


class LineParser(Protocol[PartT_co]):
    """Parser of a reply that arrives line by line."""

    def feed_line(self, line: str) -> PartT_co | None:
        """Return the part that a line completes, or None."""

    def finish(self) -> None:
        """Check that the reply is complete. Raises UnexpectedReplyError if it is not."""


class StateEventParser(LineParser[ReplyT]):
    """Parser of the Server-Sent Events `progress` and `ended`, each with a state of one thing."""

    def __init__(self, kind: type[ReplyT], response: httpx.Response) -> None:
        self._kind = kind
        self._response = response
        self._event = ""

    def feed_line(self, line: str) -> ReplyT | None:
        """Return the state that a line holds, or None. Raises ApiError if the service is away."""
        name, _, value = line.partition(": ")
        if name == "event":
            self._event = value
        if name != "data":
            return None
        if self._event == "error":
            raise build_error(value.encode(), self._response)
        return parse_reply(self._kind, value, self._response)

    def finish(self) -> None:
        """Raise UnexpectedReplyError if the stream ended before the last state."""
        if self._event != "ended":
            raise build_unexpected(self._response, "it ended before the last state")


@dataclass(frozen=True, slots=True)
class StateEvents(Generic[ReplyT]):
    """Opens the parser of events with states of a kind."""

    reply: type[ReplyT]

    def __call__(self, response: httpx.Response) -> LineParser[ReplyT]:
        """Return the parser of a reply."""
        return StateEventParser(self.reply, response)


class StreamOperation(AnyOperation, Generic[P, PartT]):
    """HttpRoute whose reply arrives in parts. Leaving its context before the end closes the connection."""

    def __init__(
        self,
        route: HttpRoute,
        prepare: Prepare,
        signature: inspect.Signature,
        open_parser: Callable[[httpx.Response], LineParser[PartT]],
    ) -> None:
        super().__init__(route, prepare, signature)
        self.open_parser = open_parser

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...

    @overload
    def __get__(self, client: SyncConnection, owner: type) -> Callable[P, AbstractContextManager[Iterator[PartT]]]: ...

    @overload
    def __get__(
        self, client: AsyncConnection, owner: type
    ) -> Callable[P, AbstractAsyncContextManager[AsyncIterator[PartT]]]: ...

    def __get__(self, client: object, owner: type) -> object:
        if isinstance(client, SyncConnection):
            return self._label(self._bind_sync(client))
        return self._label(self._bind_async(client)) if isinstance(client, AsyncConnection) else self

    def _bind_sync(self, client: SyncConnection) -> Callable[P, AbstractContextManager[Iterator[PartT]]]:
        def read_parts(response: httpx.Response) -> Iterator[PartT]:
            parser = self.open_parser(response)
            for line in response.iter_lines():
                if (part := parser.feed_line(line)) is not None:
                    yield part
            parser.finish()

        @contextmanager
        def open_stream(*args: P.args, **kwargs: P.kwargs) -> Iterator[Iterator[PartT]]:
            with client.stream(self.build_call(client.project, args, kwargs)) as response:
                yield read_parts(response)

        return open_stream

    def _bind_async(self, client: AsyncConnection) -> Callable[P, AbstractAsyncContextManager[AsyncIterator[PartT]]]:
        async def read_parts(response: httpx.Response) -> AsyncIterator[PartT]:
            parser = self.open_parser(response)
            async for line in response.aiter_lines():
                if (part := parser.feed_line(line)) is not None:
                    yield part
            parser.finish()

        @asynccontextmanager
        async def open_stream(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[AsyncIterator[PartT]]:
            async with client.stream(self.build_call(client.project, args, kwargs)) as response:
                yield read_parts(response)

        return open_stream


def json_operation(  # noqa: PLR0913 (each part of a route has a default)
    method: str,
    path: str,
    request: Callable[P, Message],
    reply: type[ReplyT],
    *,
    in_query: tuple[str, ...] = (),
    in_header: tuple[str, ...] = (),
    renamed: dict[str, str] | None = None,
    timeout_s: float | None = None,
    is_idempotent: bool | None = None,
    generated: Mapping[str, Callable[[], str]] | None = None,
) -> Operation[P, ReplyT]:
    """Return the operation with the fields of a request as its parameters. Fields that are not given are not sent.

    `generated` makes values of fields that are not given. `HttpRoute` explains the others.
    """

    route = HttpRoute(
        method, path, in_query, in_header, renamed or {}, timeout_s=timeout_s, is_idempotent=is_idempotent
    )
    return Operation(route, prepare_fields(request, generated), inspect.signature(request), ReplyParser(reply))


def custom_operation(
    route: HttpRoute, prepare: Callable[P, PreparedRequest], parse: Callable[[httpx.Response], ResultT]
) -> Operation[P, ResultT]:
    """Return the operation with the parameters of a function that prepares its request."""
    return Operation(route, prepare, inspect.signature(prepare), parse)


def prepare_fields(
    request: Callable[P, Message], generated: Mapping[str, Callable[[], str]] | None = None
) -> Callable[P, PreparedRequest]:
    """Return the function that prepares a request of the contracts. Fields that are not given are not sent."""

    def prepare(*args: P.args, **kwargs: P.kwargs) -> PreparedRequest:
        fields = request(*args, **kwargs).model_dump(mode="json", exclude_unset=True)
        made = {name: make() for name, make in (generated or {}).items() if fields.get(name) is None}
        return PreparedRequest({**fields, **made})

    prepare.__dict__["__signature__"] = inspect.signature(request)
    return prepare


def stream_operation(
    route: HttpRoute, prepare: Callable[P, PreparedRequest], open_parser: Callable[[httpx.Response], LineParser[PartT]]
) -> StreamOperation[P, PartT]:
    """Return the operation that yields the parts of its reply, with the parameters of a function."""
    return StreamOperation(route, prepare, inspect.signature(prepare), open_parser)


@dataclass(frozen=True, slots=True)
class ReplyParser(Generic[ReplyT]):
    """Parser of a reply in JSON."""

    reply: type[ReplyT]

    def __call__(self, response: httpx.Response) -> ReplyT:
        """Return the reply. Raises UnexpectedReplyError if it is another one."""
        return parse_reply(self.reply, response.content, response)


def ignore_reply(response: httpx.Response) -> None:
    """Accept a reply without a body."""
