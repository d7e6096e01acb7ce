"""Models as the embedder tells of them."""

from typing import Final

from skillbus.common.bus.caller import Caller
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Empty
from skillbus.contracts.registry import GET_DEFAULT_MODEL
from skillbus.indexer.domain.index_collections import DefaultModel

_NONE: Final = frozenset({ErrorCode.MODEL_UNAVAILABLE, ErrorCode.NOT_FOUND})


class BusModels:
    """Asks the embedder, and remembers the models that were the default while this process ran."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._known: dict[str, DefaultModel] = {}

    async def default(self) -> DefaultModel | None:
        try:
            model = await self._caller.call(GET_DEFAULT_MODEL, Empty())
        except RequestError as error:
            if error.code in _NONE:
                return None
            raise
        if model.fingerprint is None or model.dimensions is None or not model.enabled:
            return None
        default = DefaultModel(model.name, model.fingerprint, model.dimensions)
        self._known[default.fingerprint] = default
        return default

    def known(self, fingerprint: str) -> DefaultModel | None:
        return self._known.get(fingerprint)
