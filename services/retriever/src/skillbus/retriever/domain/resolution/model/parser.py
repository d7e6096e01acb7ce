"""Parser of sentences: the grammar first, and a chat model where it is not sure."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, Protocol

import structlog
from cachetools import LRUCache

from skillbus.common.chat.structured_answer import (
    AnswerMode,
    ModelSilentError,
    RawAnswer,
    StructuredChat,
)
from skillbus.contracts.agent.chat import AUTO_MODEL
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.retriever.command_resolution import Parser
from skillbus.queryir.home import Home
from skillbus.queryir.parser import parse_sentence
from skillbus.queryir.sentence import ParsedSentence
from skillbus.retriever.domain.errors import ModelMissingError
from skillbus.retriever.domain.resolution.model.answer import AnswerRefusedError, AnswerUnreadableError, read_answer
from skillbus.retriever.domain.resolution.model.question import ask_about_sentence
from skillbus.retriever.domain.resolution.ports import SentenceReading

_REMEMBERED_MODELS: Final = 64
_LONG_TEXT: Final = 500
"""Characters of a text that takes the grammar more than some 15 ms."""

Grammar = Callable[[str, Home | None], ParsedSentence]
"""Function such as `parse_sentence`."""

log = structlog.get_logger(__name__)


class ChatModelFinder(Protocol):
    async def find_model(self, reference: str) -> str:
        """Return `provider/name` of a chat model; of `auto` the default one.

        Raises:
            ModelMissingError: There is no such model. The message says how to add one.
            ModelSilentError: Nobody answers which models there are.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelParserSettings:
    """Settings of a `ModelParser`."""

    model: str
    """`auto`, `provider/name`, or empty for none."""
    threshold: float
    """Confidence of the grammar below which `auto` asks the model."""
    timeout_s: float
    """Time for all questions about one sentence."""
    cached_answers: int


class ModelParser:
    """A `SentenceParser` that asks a chat model where the grammar is not sure, or where the caller wants it.

    A model that gives no answer that can be used leaves the grammar's reading, with the reason.
    """

    def __init__(
        self,
        chat: StructuredChat,
        models: ChatModelFinder,
        settings: ModelParserSettings,
        grammar: Grammar = parse_sentence,
    ) -> None:
        """Make a parser. Only tests give it another grammar."""
        self._chat = chat
        self._models = models
        self._settings = settings
        self._grammar = grammar
        self._answers: LRUCache[str, RawAnswer] = LRUCache(settings.cached_answers)
        """Answers that could be used, by the models and the whole question."""
        self._modes: LRUCache[str, AnswerMode] = LRUCache(_REMEMBERED_MODELS)
        """Way in which a model answered last."""

    async def read_sentence(self, project: str, text: str, home: Home | None, parser: Parser) -> SentenceReading:
        """Return the commands of a sentence.

        Raises:
            ModelMissingError: The caller wants a model, and none is configured.
        """
        # A long text takes the grammar some tenths of a second, in which nothing else would be answered.
        is_long = len(text) > _LONG_TEXT
        parsed = await asyncio.to_thread(self._grammar, text, home) if is_long else self._grammar(text, home)
        reading = SentenceReading(parsed.queries, parsed.language, place=parsed.place)
        if parser == "rules" or (parser == "auto" and self._is_sure(parsed)):
            return reading
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._ask_model(text, home, reading)
        except ModelMissingError as error:
            if parser == "model":
                raise
            named = self._settings.model not in {"", AUTO_MODEL}
            return replace(reading, model_problem=str(error)) if named else reading
        except TimeoutError:
            problem = f"the model did not answer in {self._settings.timeout_s:g} s"
        except (ModelSilentError, AnswerRefusedError, AnswerUnreadableError) as error:
            problem = str(error)
        log.info("sentence_left_to_grammar", problem=problem)
        return replace(reading, model_problem=problem)

    def _is_sure(self, parsed: ParsedSentence) -> bool:
        """Return True if the grammar has read all. A sentence that is no command, such as 别关灯, is read, too."""
        lowest = min((query.confidence for query in parsed.queries), default=1.0)
        return lowest >= self._settings.threshold and not parsed.unread

    async def _ask_model(self, text: str, home: Home | None, grammar: SentenceReading) -> SentenceReading:
        if not self._settings.model:
            raise ModelMissingError(
                "No chat model reads sentences: set SKILLBUS_RETRIEVER_PARSER_MODEL to auto, or to the name of one."
            )
        model = await self._models.find_model(self._settings.model)
        question = await asyncio.to_thread(ask_about_sentence, text, home)
        key = sha256(json.dumps([model, question.system, question.content]).encode()).hexdigest()
        if (answer := self._answers.get(key)) is not None:
            queries = read_answer(answer.text, text, grammar.language, home)
            return replace(grammar, queries=queries, model=answer.model)
        problem: Exception = AnswerUnreadableError("the model was not asked")
        for mode in self._list_modes(model):
            try:
                answer = await self._chat.ask_model(self._settings.model, question, mode)
                queries = read_answer(answer.text, text, grammar.language, home)
            except AnswerUnreadableError as error:
                problem = error
            except ModelSilentError as error:
                problem = error
                if error.code is not ErrorCode.INVALID_REQUEST:
                    break
            else:
                self._modes[model], self._answers[key] = mode, answer
                return replace(grammar, queries=queries, model=answer.model)
        self._modes.pop(model, None)
        raise problem

    def _list_modes(self, model: str) -> tuple[AnswerMode, ...]:
        """Return the ways to ask: that of the last answer, or all."""
        known = self._modes.get(model)
        return tuple(AnswerMode) if known is None else (known,)
