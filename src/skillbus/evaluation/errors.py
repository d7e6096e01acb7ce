"""Errors of an evaluation. `skillbus.calibration.errors` has those of the files.

EvaluationError
├── RefusedToolError     the catalogue refused a tool
├── RefusedItemError     the knowledge base refused an item
└── NotIndexedError      not everything was indexed
"""


class EvaluationError(Exception):
    """Base of this package's errors."""


class RefusedToolError(EvaluationError):
    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"the catalogue refused the tool {tool!r}: {reason}; correct its line, or delete it")
        self.tool = tool


class RefusedItemError(EvaluationError):
    def __init__(self, item: str, reason: str) -> None:
        super().__init__(f"the knowledge base refused the item {item!r}: {reason}; correct its line, or delete it")
        self.item = item


class NotIndexedError(EvaluationError):
    def __init__(self) -> None:
        super().__init__("not everything was indexed: the embedding model gives no vectors; choose another --model")
