"""Errors of calibration.

CalibrationError
├── UnreadableFileError    a file of judged tools or requests cannot be read
├── BadLineError           a line of it is malformed
├── TooLittleError         there are too few tools or requests to fit anything
├── UnusableVectorsError   the model's vectors are misshapen, not finite or zero
└── NoSignalError          the model's vectors do not separate relevant tools from others
"""

from pathlib import Path


class CalibrationError(Exception):
    """Base of this package's errors."""


class UnreadableFileError(CalibrationError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


class BadLineError(CalibrationError):
    """Malformed line; `line` counts from 1."""

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
    """Vectors that cannot be used; the message says why."""


class NoSignalError(CalibrationError):
    """No signal in the cosines; the message says how that was measured."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; check that the requests name the right tools, and that the model reads their language"
        )
