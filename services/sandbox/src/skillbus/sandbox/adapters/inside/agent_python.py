"""Runs a Python script in a fork of the agent, which has loaded this file. Never imported by the service.

The script runs as with `python3 script`, except that modules imported before it are not torn down at its end.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from skillbus.sandbox.adapters.inside.agent_sandbox import SandboxJob

SKILL = "/skill/"
REHEARSED = b"import json, sys\nfor word in json.loads('[\"a\"]'):\n    said = f'{json.dumps({word: 1})}\\n'\n"


def add_builtins() -> None:
    """Add the builtins that every script expects, such as `exit`."""
    import site  # noqa: PLC0415 - not imported because of -S; needed only for the names that it adds to builtins

    site.setquit()
    site.setcopyright()
    site.sethelper()


def rehearse_script() -> None:
    """Run a script without effects ahead of time, since the first write to a page of a fork has to copy the page."""
    compile_script(REHEARSED, "<rehearsal>")({})


def run_python(job: SandboxJob, imported: set[str]) -> None:
    """Run a script. The path has its folder, the skill's root, the standard library, then packages.

    `imported` are the modules imported ahead of the script.
    """
    forget_shadowed(imported, job["path"])
    script = job["script"]
    sys.argv = [script, *job["argv"]]
    sys.path[:0] = job["path"]
    sys.path += job["packages"]  # like site-packages: behind the standard library; `.pth` files are not read
    main = type(sys)("__main__")
    loader = sys.modules["_frozen_importlib_external"].SourceFileLoader("__main__", script)
    main.__dict__.update(
        __file__=script, __builtins__=__builtins__, __loader__=loader, __cached__=None, __annotations__={}
    )
    sys.modules["__main__"] = main
    ahead = set(sys.modules) - {"__main__"}
    gc.enable()
    code = execute_script(compile_script(loader.get_data(script), script), main)
    del main
    finish_script(code, ahead)


def forget_shadowed(imported: set[str], folders: list[str]) -> None:
    """Forget modules imported ahead that the script has itself: its own come first on the path."""
    here = {entry.partition(".")[0] for folder in folders for entry in os.listdir(folder)}  # noqa: PTH208
    for name in imported:
        if name.partition(".")[0] in here:
            sys.modules.pop(name, None)


def execute_script(script: Callable[[dict[str, object]], None], main: ModuleType) -> int:
    """Run the script and return its exit code. Tracebacks look as the interpreter's, without frames of this file."""
    try:
        script(main.__dict__)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001 - see above
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == execute_script.__code__.co_filename:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def compile_script(source: bytes, script: str) -> Callable[[dict[str, object]], None]:
    """Return a function that runs the script in a namespace. Syntax errors are raised by that function."""

    def run(namespace: dict[str, object]) -> None:
        exec(compile(source, script, "exec", dont_inherit=True), namespace)  # noqa: S102 - the purpose of this program

    return run


def finish_script(code: int, ahead: set[str]) -> None:
    """End as the interpreter does: wait for threads, run exit handlers, release the objects of the script's modules.

    `ahead` are the modules imported before the script. They are not touched: that would copy each page that one is on.
    A full interpreter teardown is left out, since it took twice as long as a short script.
    """
    import atexit  # noqa: PLC0415 - built in

    try:
        if threading := sys.modules.get("threading"):
            threading._shutdown()  # noqa: SLF001 - the interpreter calls it too
        atexit._run_exitfuncs()  # noqa: SLF001 - the same
        others = [name for name in sys.modules if name not in ahead]
        release_modules([name for name in others if str(getattr(sys.modules[name], "__file__", "")).startswith(SKILL)])
    finally:
        os._exit(code if flush_streams() else 120)


def release_modules(names: list[str]) -> None:
    """Release modules, then clear those that something else still holds, as the interpreter does."""
    import _weakref  # noqa: PLC0415 - built in

    left = [_weakref.ref(sys.modules.pop(name)) for name in reversed(names)]
    gc.collect()
    held = [module for reference in left if (module := reference()) is not None]
    for module in held:
        module.__dict__.clear()
    if held:
        gc.collect()


def flush_streams() -> bool:
    """Flush both streams. Return False if that fails; the exit code is then 120, as the interpreter's."""
    done = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:  # noqa: BLE001 - a full or broken pipe, or a stream that the script replaced
            done = False
    return done
