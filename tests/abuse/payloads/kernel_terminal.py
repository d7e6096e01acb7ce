"""Keys typed for whoever reads the terminal of the service, by two requests and with bits that a filter may not see."""

import os

from tests.abuse.payloads.verdict import attempt, call, done, numbers, through

IOCTL = numbers({"ioctl": 16}, {"ioctl": 29})["ioctl"]
REQUESTS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}
for name, request in REQUESTS.items():
    for high in (0, 1 << 32, 1 << 63, 0xFFFFFFFF << 32):
        wanted = request | high
        signed = wanted - (1 << 64) if wanted >= 1 << 63 else wanted
        for descriptor in (0, 1, 2):
            if call(IOCTL, descriptor, signed, 0)[1] != 1:
                through(f"{name} came to the kernel")
attempt("there is a terminal", os.open, "/dev/tty", os.O_RDWR)
if os.getsid(0) != os.getpid() and os.getpgrp() != os.getpid():
    through("a session of the service's")
done()
