"""What looks like a result and must not become one: no JSON, or JSON that breaks those who read it."""

import os
import sys

TEXTS = {
    "bytes": bytes(range(256)) * 64,
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "digits": b"9" * 100_000,
    "infinite": b"1e999",
    "not a number": b'{"a": NaN}',
    "surrogate": b'"\\ud800"',
    "twice": b"{} {}",
    "harmless": b'{"a": 1}',
}
os.write(1, TEXTS[sys.argv[1]])
