"""Sockets of every family: some, as vsock, belong to no network namespace."""

import ctypes
import socket

from tests.abuse.payloads.verdict import LIBC, call, done, numbers, through

FAMILIES = {
    "inet": 2, "ax25": 3, "ipx": 4, "inet6": 10, "key": 15, "netlink": 16, "packet": 17, "rds": 21, "pppox": 24,
    "can": 29, "tipc": 30, "bluetooth": 31, "rxrpc": 33, "phonet": 35, "alg": 38, "nfc": 39, "vsock": 40, "kcm": 41,
    "qipcrtr": 42, "smc": 43, "xdp": 44, "mctp": 45,
}  # fmt: skip
SOCKET = numbers({"socket": 41}, {"socket": 198})["socket"]
for name, family in FAMILIES.items():
    if any(LIBC.socket(family, kind, 0) >= 0 for kind in (1, 2, 3, 5)):
        through(f"a socket of {name}")
    if LIBC.socketpair(family, 1, 0, (ctypes.c_int * 2)()) == 0:
        through(f"a pair of sockets of {name}")
if call(SOCKET, socket.AF_INET | 1 << 32, socket.SOCK_DGRAM, 0)[0] >= 0:
    through("a family with a high bit")
done()
