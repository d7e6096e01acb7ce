"""Errors of the sandbox, raised before or instead of a run.

    SandboxError
    ├── SandboxUnavailable      the machine cannot isolate; nothing runs
    ├── SandboxBroken           isolation works, but this run's sandbox did not start
    ├── RuntimeMissing          the machine lacks the interpreter
    ├── RunRejected             the run names a file or size that is not allowed
    ├── ArgumentsInvalid        the arguments do not fit the input schema, or cannot be passed
    ├── SchemaInvalid           the skill's input schema cannot be used
    ├── SkillDisabled           an operator has disabled the skill
    ├── RunKnown                a run with the chosen id exists
    ├── RunUnknown              no run has that id
    ├── DependenciesInvalid     the skill's declaration of dependencies is not supported
    ├── DependenciesUnavailable the declared dependencies could not be installed
    ├── NothingToRun            the skill consists of instructions only
    ├── ActionUnknown           the skill has no such action, or several and no default
    └── EgressRefused           the proxy of a run refuses a place; the run itself gets the message

The end of a run that has started is never an error: it is a `RunOutcome`.
"""


class SandboxError(Exception):
    """Base of all errors of the sandbox."""


class SandboxUnavailable(SandboxError):  # noqa: N818  # read as a sentence: raise SandboxUnavailable
    """No isolation level works on this machine; the message has the reason of each level and what to do."""


class SandboxBroken(SandboxError):  # noqa: N818
    """The sandbox of one run failed to start; the message quotes bubblewrap."""


class RuntimeMissing(SandboxError):  # noqa: N818
    """The interpreter of a script is not installed where the sandbox can see it."""


class RunRejected(SandboxError):  # noqa: N818
    """A script or file name leaves its folder, does not exist, or exceeds a limit."""


class ArgumentsInvalid(SandboxError):  # noqa: N818
    """Arguments that do not fit; `path` is the place of the misfit, like `$.rows[2].name`."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class SchemaInvalid(SandboxError):  # noqa: N818
    """An input schema that is invalid, refers to other documents, or costs too much to check; `path` is the place."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"input schema at {path}: {message}")
        self.path = path


class SkillDisabled(SandboxError):  # noqa: N818
    """The skill must not run until an operator enables it."""


class RunKnown(SandboxError):  # noqa: N818
    """A run with the id that a caller chose is running or recorded."""


class RunUnknown(SandboxError):  # noqa: N818
    """The project has no record of a run with that id."""


class DependenciesInvalid(SandboxError):  # noqa: N818
    """Declared dependencies reach beyond the index or cannot be parsed; the message names file, line and reason."""


class DependenciesUnavailable(SandboxError):  # noqa: N818
    """Dependencies could not be installed; the message quotes the resolver, `retryable` says that time may help."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class NothingToRun(SandboxError):  # noqa: N818
    """The skill has no entry point."""


class ActionUnknown(SandboxError):  # noqa: N818
    """The skill has no such action; `known` lists its actions."""

    def __init__(self, message: str, known: tuple[str, ...]) -> None:
        super().__init__(message)
        self.known = known


class EgressRefused(SandboxError):  # noqa: N818
    """The proxy refuses a connection; `verdict` is for the log, the HTTP `status` and the message are for the run."""

    def __init__(self, verdict: str, status: int, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.status = status
