"""Calls that a script never needs, each with arguments that lead to another error once they are let in."""

from tests.abuse.payloads.verdict import done, knock, numbers

CALLS = numbers(
    {
        "acct": 163, "add_key": 248, "bpf": 321, "clock_adjtime": 305, "delete_module": 176, "fanotify_init": 300,
        "finit_module": 313, "init_module": 175, "io_uring_enter": 426, "io_uring_register": 427, "io_uring_setup": 425,
        "ioperm": 173, "iopl": 172, "kcmp": 312, "kexec_file_load": 320, "kexec_load": 246, "keyctl": 250,
        "lookup_dcookie": 212, "mbind": 237, "migrate_pages": 256, "move_pages": 279, "mq_open": 240,
        "name_to_handle_at": 303, "open_by_handle_at": 304, "perf_event_open": 298, "pivot_root": 155, "quotactl": 179,
        "quotactl_fd": 443, "reboot": 169, "request_key": 249, "setdomainname": 171, "sethostname": 170, "swapoff": 168,
        "swapon": 167, "syslog": 103, "userfaultfd": 323, "vhangup": 153,
    },
    {
        "acct": 89, "add_key": 217, "bpf": 280, "clock_adjtime": 266, "delete_module": 106, "fanotify_init": 262,
        "finit_module": 273, "init_module": 105, "io_uring_enter": 426, "io_uring_register": 427, "io_uring_setup": 425,
        "kcmp": 272, "kexec_file_load": 294, "kexec_load": 104, "keyctl": 219, "lookup_dcookie": 18, "mbind": 235,
        "migrate_pages": 238, "move_pages": 239, "mq_open": 180, "name_to_handle_at": 264, "open_by_handle_at": 265,
        "perf_event_open": 241, "pivot_root": 41, "quotactl": 60, "quotactl_fd": 443, "reboot": 142, "request_key": 218,
        "setdomainname": 162, "sethostname": 161, "swapoff": 225, "swapon": 224, "syslog": 116, "userfaultfd": 282,
        "vhangup": 58,
    },
)  # fmt: skip
for name, number in CALLS.items():
    knock(name, number, -1, 0, -1, 0, -1, 0)
done()
