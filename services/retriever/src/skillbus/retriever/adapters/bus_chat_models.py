"""Names of the registry's chat models, asked over the bus."""

from dataclasses import dataclass
from typing import Final

from skillbus.common.bus.caller import Caller
from skillbus.common.chat.structured_answer import ModelSilentError
from skillbus.contracts.agent.chat import AUTO_MODEL
from skillbus.contracts.embedder.chat_models import FIND_CHAT_MODELS, FindChatModels
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.retriever.domain.errors import ModelMissingError

_MISSING: Final = frozenset({ErrorCode.NOT_FOUND, ErrorCode.MODEL_UNAVAILABLE, ErrorCode.INVALID_REQUEST})


@dataclass(frozen=True, slots=True)
class BusChatModels:
    """A `ChatModelFinder`."""

    caller: Caller

    async def find_model(self, reference: str) -> str:
        request = FindChatModels(model=None if reference == AUTO_MODEL else reference)
        try:
            found = await self.caller.call(FIND_CHAT_MODELS, request, allow_local=True)
        except RequestError as error:
            if error.code in _MISSING:
                raise ModelMissingError(error.message) from error
            raise ModelSilentError(error.message, error.code) from error
        first = found.models[0]
        return f"{first.provider.name}/{first.model.name}"
