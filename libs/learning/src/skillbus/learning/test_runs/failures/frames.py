"""Places in code that failures name, and whether they belong to the project, to its tests or to others."""

import re
from typing import Final

from skillbus.learning.test_runs.values import RunFrame

PROJECT: Final = "project"
TEST: Final = "test"
EXTERNAL: Final = "external"
_FOREIGN: Final = re.compile(
    r"site-packages|dist-packages|node_modules|[/\\]lib[/\\]python\d|[/\\]python\d[\d.]*[/\\]|^\.\.[/\\]|^<|^node:|^internal[/\\]"
    r"|[/\\]vendor[/\\]|[/\\]\.(?:venv|tox|nox|cargo|pyenv)[/\\]|^(?:native|webpack)\b"
)
_TEST_PATH: Final = re.compile(
    r"(?:^|[/\\])(?:tests?|__tests__|specs?|e2e|integration_tests?)[/\\]"
    r"|(?:^|[/\\])(?:test_[^/\\]*|[^/\\]*_tests?|conftest|tests?)\.py$"
    r"|[._-](?:test|spec)\.[cm]?[jt]sx?$"
)
_TEST_CLASS: Final = re.compile(r"(?:^|[.$])(?:Test[A-Z]\w*|\w+(?:Tests?|TestCase|Spec|IT))(?:$|\$)")
_JAVA_FOREIGN: Final = re.compile(
    r"(?:java|javax|jdk|sun|com\.sun|kotlin|kotlinx|scala|groovy|org\.(?:junit|testng|hamcrest|mockito|assertj|opentest4j|gradle|"
    r"apache\.maven|codehaus|spockframework|springframework|hibernate|jboss|slf4j|eclipse)|reactor|io\.netty|android|"
    r"com\.intellij|com\.google\.common|worker\.org|jenkins)\."
)
_DRIVE: Final = re.compile(r"^(?:[A-Za-z]:)?[/\\]")


def make_path_frame(path: str, line: int, function: str, root: str = "") -> RunFrame:
    """Return a frame of a source file. `root` is the folder of the project, if it is known."""
    if root and path.startswith(root.rstrip("/") + "/"):
        path = path[len(root.rstrip("/")) + 1 :]
    outside = bool(root) and _DRIVE.match(path) is not None
    place = EXTERNAL if outside or _FOREIGN.search(path) else TEST if _TEST_PATH.search(path) else PROJECT
    return RunFrame(module=name_module(path), function=function[:200], line=line, place=place)


def make_class_frame(name: str, function: str, line: int, test: str) -> RunFrame:
    """Return a frame of a Java class. `test` is the id of the failed test."""
    owner = test.partition("::")[0]
    if _JAVA_FOREIGN.match(name):
        place = EXTERNAL
    elif name.partition("$")[0] == owner or _TEST_CLASS.search(name):
        place = TEST
    else:
        place = PROJECT
    return RunFrame(module=name[:200], function=function[:200], line=line, place=place)


def name_module(path: str) -> str:
    """Return the name of a module: dotted for Python, else the path in the project."""
    path = re.split(r"(?:site|dist)-packages[/\\]|node_modules[/\\]", path)[-1]
    parts = [part for part in re.split(r"[/\\]", path) if part not in {"", ".", ".."}] or [path]
    if _DRIVE.match(path):
        parts = parts[-3:] if path.endswith(".py") else parts[-2:]
    if not path.endswith((".py", ".pyx")):
        return "/".join(parts)[-200:]
    if len(parts) > 1 and parts[0] in {"src", "lib"}:
        parts = parts[1:]
    parts[-1] = parts[-1].rpartition(".")[0]
    return ".".join(parts if parts[-1] != "__init__" or len(parts) == 1 else parts[:-1])[-200:]


def is_test_class(name: str) -> bool:
    """Return True if a name is that of a class of tests."""
    return name[:1].isupper() or name.startswith("Test")
