"""Descriptors that were left open, and the way up from a folder among them."""

import os
import stat

from tests.abuse.payloads.verdict import attempt, canaries, done, say, through


def read_from(folder: int, path: str) -> None:
    say(os.read(os.open(path, os.O_RDONLY, dir_fd=folder), 99).decode())


secret = canaries()["secret"].lstrip("/")
for descriptor in range(3, 1024):
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        continue
    through("a descriptor was left open")
    if stat.S_ISDIR(mode):
        attempt("listed a folder of the host", os.listdir, descriptor)
        attempt("read the host's file", read_from, descriptor, secret)
        attempt("read the host's file from above", read_from, descriptor, "../" * 12 + secret)
for standard in (0, 1, 2):
    attempt("a standard stream is a folder", os.listdir, standard)
done()
