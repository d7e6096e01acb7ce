"""What can go wrong before, around and instead of a run.

    SandboxError
    ├── SandboxUnavailable      the machine cannot isolate; nothing runs
    ├── SandboxBroken           isolation was there, but this run's sandbox did not come up
    ├── RuntimeMissing          the machine lacks the language
    ├── RunRejected             the run names something that it must not
    ├── ArgumentsInvalid        the arguments do not fit the input schema, or cannot be passed on
    ├── SchemaInvalid           the skill's input schema cannot be used
    ├── SkillDisabled           an operator has disabled the skill
    ├── RunKnown                there is a run of the id that was chosen
    ├── RunUnknown              there is no run of that id
    ├── DependenciesInvalid     the skill declares dependencies in a way that is not taken
    ├── DependenciesUnavailable they are declared well, but cannot be had
    ├── NothingToRun            the skill is instructions only
    ├── ActionUnknown           it has no such action, or several and no default
    └── EgressRefused           the way out of a run does not lead there; said to the run itself

How a run that did start ended is never an error: it is a `RunOutcome`.
"""


class SandboxError(Exception):
    """Base of all errors of the sandbox."""


class SandboxUnavailable(SandboxError):  # noqa: N818  # read as a sentence: raise SandboxUnavailable
    """No isolation level works on this machine; the message has each level's reason and what to do."""


class SandboxBroken(SandboxError):  # noqa: N818
    """The sandbox of one run failed to start; the message carries bubblewrap's own words."""


class RuntimeMissing(SandboxError):  # noqa: N818
    """The interpreter that a script needs is not installed where the sandbox can see it."""


class RunRejected(SandboxError):  # noqa: N818
    """A script or file name that leaves its folder, does not exist, or is over a limit."""


class ArgumentsInvalid(SandboxError):  # noqa: N818
    """Arguments that do not fit; `path` is the place in them, like `$.rows[2].name`."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class SchemaInvalid(SandboxError):  # noqa: N818
    """An input schema that is not valid, refers elsewhere, or is too costly to check; `path` is the place in it."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"input schema at {path}: {message}")
        self.path = path


class SkillDisabled(SandboxError):  # noqa: N818
    """The skill must not be run until it is enabled again."""


class RunKnown(SandboxError):  # noqa: N818
    """A run of the id that a caller chose goes on, or is remembered."""


class RunUnknown(SandboxError):  # noqa: N818
    """No run of that id is remembered in the project."""


class DependenciesInvalid(SandboxError):  # noqa: N818
    """Declared dependencies that reach beyond the index, or cannot be read; the message names file, line and reason."""


class DependenciesUnavailable(SandboxError):  # noqa: N818
    """Dependencies that cannot be had; the message carries the resolver's words, `retryable` that time may help."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class NothingToRun(SandboxError):  # noqa: N818
    """The skill has no entry point."""


class ActionUnknown(SandboxError):  # noqa: N818
    """The skill has no such action; `known` are those that it has."""

    def __init__(self, message: str, known: tuple[str, ...]) -> None:
        super().__init__(message)
        self.known = known


class EgressRefused(SandboxError):  # noqa: N818
    """A proxy does not let its run there; `verdict` is for the log, `status` (of HTTP) and the message for the run."""

    def __init__(self, verdict: str, status: int, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.status = status
