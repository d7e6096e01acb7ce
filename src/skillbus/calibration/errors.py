"""Why a model cannot be calibrated.

CalibrationError
├── UnreadableFileError    a file of judged tools or requests cannot be read
├── BadLineError           a line of it is not what it should be
├── TooLittleError         there are too few tools or requests to fit anything
├── UnusableVectorsError   the model's vectors are misshapen, not finite or zero
└── NoSignalError          the model's vectors do not tell tools that fit from others
"""

from pathlib import Path


class CalibrationError(Exception):
    """Base of this package's errors."""


class UnreadableFileError(CalibrationError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


class BadLineError(CalibrationError):
    """`line` counts from 1."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        super().__init__(f"{path}, line {line}: {reason}")
        self.path = path
        self.line = line


class TooLittleError(CalibrationError):
    def __init__(self, what: str, found: int, needed: int) -> None:
        super().__init__(f"{found} {what}: at least {needed} are needed, and some hundreds give a map that lasts")
        self.found = found
        self.needed = needed


class UnusableVectorsError(CalibrationError):
    """The message says what is wrong with them."""


class NoSignalError(CalibrationError):
    """The message says how it was seen."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; check that the requests name the right tools, and that the model reads their language"
        )
