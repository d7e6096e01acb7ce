"""Parser of sentences by the grammars of the library, without a model."""

from skillbus.contracts.retriever.command_resolution import Parser
from skillbus.queryir.home import Home
from skillbus.queryir.parser import parse_sentence
from skillbus.retriever.domain.resolution.ports import SentenceReading


class GrammarParser:
    """A `SentenceParser`."""

    async def read_sentence(self, project: str, text: str, home: Home | None, parser: Parser) -> SentenceReading:
        parsed = parse_sentence(text, home)
        problem = "No chat model reads sentences here." if parser == "model" else None
        return SentenceReading(parsed.queries, parsed.language, model_problem=problem)
