"""Ways to others, on this machine and beyond. Payloads reach for loopback addresses only."""

from typing import Final

from ..model import Abuse, Weakening
from ..weakening import SHOWN, UNFILTERED, without

_OPEN: Final = (without("--unshare-net"), *UNFILTERED)
_NO_NET: Final = "the host's network, without the filter"

ABUSES: Final = (
    Abuse(
        "network_loopback.py",
        "network_loopback.py",
        "no port of the host can be reached",
        Weakening(_NO_NET, ("connected to 127.0.0.1", "tcp was heard", "udp was heard"), _OPEN),
    ),
    Abuse(
        "network_loopback.sh",
        "network_loopback.sh",
        "nor by a shell",
        Weakening(_NO_NET, ("connected by the shell", "sent by the shell", "tcp was heard", "udp was heard"), _OPEN),
    ),
    Abuse(
        "network_loopback.js",
        "network_loopback.js",
        "nor by Node",
        Weakening(_NO_NET, ("connected by Node", "sent by Node", "tcp was heard", "udp was heard"), _OPEN),
    ),
    Abuse(
        "network_unix.py",
        "network_unix.py",
        "no socket of the host by its path",
        Weakening("the canaries' folder shown", ("connected to a socket of the host", "unix was heard"), (SHOWN,)),
    ),
    Abuse(
        "network_abstract.py",
        "network_abstract.py",
        "nor one that has no path",
        Weakening(
            "the host's network",
            ("connected to an abstract socket", "abstract was heard", "datagrams was heard"),
            (without("--unshare-net"),),
        ),
    ),
    Abuse(
        "network_families.py",
        "network_families.py",
        "no family but unix: vsock belongs to no network namespace",
        Weakening(
            "without the filter", ("a socket of inet", "a socket of netlink", "a family with a high bit"), UNFILTERED
        ),
        offline=True,
    ),
    Abuse(
        "network_sights.py",
        "network_sights.py",
        "no interface, port or abstract socket of the host is seen",
        Weakening(
            "the host's network",
            ("a listening port of the host", "an abstract socket of the host"),
            (without("--unshare-net"),),
        ),
    ),
)
