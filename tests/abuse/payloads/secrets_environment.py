"""The environment: that of the service is not there, nor anything else that was not given."""

import ctypes
import os

from tests.abuse.payloads.verdict import done, say, through

GIVEN = {"HOME", "LANG", "LC_CTYPE", "PATH", "PWD", "SKILLBUS_IN", "SKILLBUS_OUT", "TMPDIR"}
for name in sorted(set(os.environ) - GIVEN):
    through(f"{name} is set")
    say(os.environ[name])
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
place = 0
while environ and (entry := environ[place]):
    if entry.split(b"=")[0].decode(errors="replace") not in GIVEN:
        through("something is in the C library's environment")
    place += 1
done()
