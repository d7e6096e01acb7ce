"""Why search cannot be measured. What is wrong with a line of the files is told by `skillbus.calibration.errors`.

EvaluationError
├── RefusedToolError     the catalogue did not take a tool
├── RefusedItemError     the knowledge base did not take an item
└── NotIndexedError      search does not know all that was taken
"""


class EvaluationError(Exception):
    """Base of this package's errors."""


class RefusedToolError(EvaluationError):
    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"the catalogue refused the tool {tool!r}: {reason}; mend its line, or take it out")
        self.tool = tool


class RefusedItemError(EvaluationError):
    def __init__(self, item: str, reason: str) -> None:
        super().__init__(f"the knowledge base refused the item {item!r}: {reason}; mend its line, or take it out")
        self.item = item


class NotIndexedError(EvaluationError):
    def __init__(self) -> None:
        super().__init__("search does not know all of it: the embedding model gives no vectors; choose another --model")
