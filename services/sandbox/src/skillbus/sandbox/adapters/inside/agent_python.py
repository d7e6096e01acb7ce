"""How a Python script runs in a sandbox: in a fork of the agent, which has loaded this file, never imported.

As `python3 script` would, but that what was imported before the script is not taken apart at its end.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import TypedDict

    class Job(TypedDict):
        """What of a job is of use here."""

        script: str
        argv: list[str]
        path: list[str]
        packages: list[str]


SKILL = "/skill/"
REHEARSED = b"import json, sys\nfor word in json.loads('[\"a\"]'):\n    said = f'{json.dumps({word: 1})}\\n'\n"


def be_ready() -> None:
    """What is the same for every script."""
    import site  # noqa: PLC0415 - -S left it out; wanted only for the names that it puts into builtins

    site.setquit()
    site.setcopyright()
    site.sethelper()


def rehearse() -> None:
    """A script of no effect, before there is one: in a fork the first to write to a page has to copy it."""
    compile_script(REHEARSED, "<rehearsal>")({})


def run_python(job: Job, imported: set[str]) -> None:
    """With its folder first on the path, the skill's root second, then the standard library, then packages.

    `imported` are modules that were imported ahead.
    """
    forget_own(imported, job["path"])
    script = job["script"]
    sys.argv = [script, *job["argv"]]
    sys.path[:0] = job["path"]
    sys.path += job["packages"]  # as site-packages: behind the standard library, and no `.pth` in it is read
    main = type(sys)("__main__")
    loader = sys.modules["_frozen_importlib_external"].SourceFileLoader("__main__", script)
    main.__dict__.update(
        __file__=script, __builtins__=__builtins__, __loader__=loader, __cached__=None, __annotations__={}
    )
    sys.modules["__main__"] = main
    ahead = set(sys.modules) - {"__main__"}
    gc.enable()
    code = execute(compile_script(loader.get_data(script), script), main)
    del main
    finish(code, ahead)


def forget_own(imported: set[str], folders: list[str]) -> None:
    """Modules imported ahead of which the script has its own: the first on the path is the one that it gets."""
    here = {entry.partition(".")[0] for folder in folders for entry in os.listdir(folder)}  # noqa: PTH208
    for name in imported:
        if name.partition(".")[0] in here:
            sys.modules.pop(name, None)


def execute(script: Callable[[dict[str, object]], None], main: ModuleType) -> int:
    """Run it; its exit code. What ended it is reported as the interpreter does, without the frames of this file."""
    try:
        script(main.__dict__)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001 - see above
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == execute.__code__.co_filename:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def compile_script(source: bytes, script: str) -> Callable[[dict[str, object]], None]:
    """What it does, to be done in a module's namespace; what is wrong with it is raised when it is done."""

    def run(namespace: dict[str, object]) -> None:
        exec(compile(source, script, "exec", dont_inherit=True), namespace)  # noqa: S102 - its purpose

    return run


def finish(code: int, ahead: set[str]) -> None:
    """End as the interpreter does: threads are waited for, exit handlers run, and what the script holds is let go.

    `ahead` are modules that were there before it: to look at them makes a copy of each page that one is on.

    It does not take itself apart as well, with all that it imported: that took twice as long as a short script.
    """
    import atexit  # noqa: PLC0415 - built in

    try:
        if threading := sys.modules.get("threading"):
            threading._shutdown()  # noqa: SLF001 - what the interpreter calls
        atexit._run_exitfuncs()  # noqa: SLF001 - the same
        others = [name for name in sys.modules if name not in ahead]
        let_go([name for name in others if str(getattr(sys.modules[name], "__file__", "")).startswith(SKILL)])
    finally:
        os._exit(code if flush() else 120)


def let_go(names: list[str]) -> None:
    """Modules and what they hold, as long as nothing else holds it; then their content, as the interpreter does."""
    import _weakref  # noqa: PLC0415 - built in

    left = [_weakref.ref(sys.modules.pop(name)) for name in reversed(names)]
    gc.collect()
    held = [module for reference in left if (module := reference()) is not None]
    for module in held:
        module.__dict__.clear()
    if held:
        gc.collect()


def flush() -> bool:
    """Both streams; False, as the interpreter's 120 says, when what was printed could not be."""
    done = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:  # noqa: BLE001 - a full or broken pipe, or a stream of the script's own
            done = False
    return done
