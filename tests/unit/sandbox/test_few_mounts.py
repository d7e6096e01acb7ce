"""Which mounts sandboxes are started without."""

from pathlib import Path

from skillbus.sandbox.adapters.bubblewrap.few_mounts import detachable

MOUNTINFO = rb"""22 27 0:21 / /proc rw - proc proc rw
23 22 0:22 / /proc/sys ro - proc proc rw
24 27 0:6 / /dev rw - devtmpfs devtmpfs rw
25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw
26 24 0:24 / /dev/null rw - tmpfs tmpfs rw
27 1 254:0 / / rw - ext4 /dev/vda rw
28 27 0:25 / /usr ro - ext4 /dev/vdb ro
29 28 0:26 / /usr/share/hidden ro - tmpfs tmpfs ro
30 27 0:27 / /tmp rw - tmpfs tmpfs rw
31 30 0:28 / /tmp/of\040another rw - tmpfs tmpfs rw
32 27 0:29 / /home rw - ext4 /dev/vdc rw
33 32 0:30 / /home/one rw - tmpfs tmpfs rw
34 27 0:31 / /usrlocal rw - tmpfs tmpfs rw
"""


def test_what_is_bound_stays_with_all_that_lies_on_it_and_of_what_is_passed_only_the_way() -> None:
    left = detachable(MOUNTINFO, bound=(Path("/usr"),), passed=(Path("/dev/null"), Path("/tmp")))
    assert left == [b"/usrlocal", b"/home/one", b"/home", b"/tmp/of another", b"/dev/shm"]


def test_no_mount_of_proc_is_let_go_of_since_it_may_hide_something() -> None:
    assert not [point for point in detachable(MOUNTINFO, (), ()) if point.startswith(b"/proc")]
