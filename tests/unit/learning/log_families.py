"""Logs of invented systems in the styles of real ones, with the true template of each line by construction."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Draw = random.Random
_HEX: Final = "0123456789abcdef"
_USERS: Final = [
    "anna",
    "bela",
    "carl",
    "dora",
    "emil",
    "fritz",
    "gina",
    "hugo",
    "ines",
    "jan",
    "kira",
    "lars",
    "mona",
    "nils",
    "olga",
    "paul",
    "rita",
    "sven",
    "tina",
    "udo",
]
_WORDS: Final = [
    "alpha",
    "bravo",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "haven",
    "iris",
    "jade",
    "karst",
    "lumen",
    "maple",
    "north",
    "opal",
    "pearl",
]


def _hex(draw: Draw, length: int) -> str:
    return "".join(draw.choice(_HEX) for _ in range(length))


def _uuid(draw: Draw) -> str:
    return "-".join(_hex(draw, length) for length in (8, 4, 4, 4, 12))


def _host(draw: Draw) -> str:
    return f"{draw.choice(_WORDS)}.{draw.choice(_WORDS)}.example.{draw.choice(('com', 'net', 'org'))}"


def _size(draw: Draw) -> str:
    count = draw.choice((0, draw.randrange(1000), draw.randrange(1_000_000)))
    return f"{count} bytes" if count < 1000 else f"{count} bytes ({count / 1024:.2f} {draw.choice(('KB', 'MB'))})"


VALUES: Final[dict[str, Callable[[Draw], str]]] = {
    "n": lambda draw: str(draw.randrange(10 ** draw.randrange(1, 7))),
    "signed": lambda draw: str(draw.randrange(-1000, 1000)),
    "float": lambda draw: f"{draw.random() * 100:.{draw.randrange(1, 5)}f}",
    "ip": lambda draw: ".".join(str(draw.randrange(1, 255)) for _ in range(4)),
    "port": lambda draw: str(draw.randrange(1024, 65535)),
    "uuid": _uuid,
    "hex": lambda draw: "0x" + _hex(draw, 8),
    "req": lambda draw: draw.choice((f"req-{_uuid(draw)} {_hex(draw, 32)} {_hex(draw, 32)} - - -", "-")),
    "host": _host,
    "addr": lambda draw: f"{_host(draw)}:{draw.randrange(1, 65535)}",
    "name": lambda draw: draw.choice(_WORDS) + str(draw.randrange(1, 40)),
    "user": lambda draw: draw.choice(_USERS),
    "path": lambda draw: "/" + "/".join(draw.choice(_WORDS) for _ in range(draw.randrange(1, 5))),
    "paths": lambda draw: " ".join(f"/var/{draw.choice(_WORDS)}/{_hex(draw, 12)}" for _ in range(draw.randrange(1, 5))),
    "url": lambda draw: f"http://{_host(draw)}/{draw.choice(_WORDS)}?q={draw.randrange(99)}",
    "class": lambda draw: f"org.example.{draw.choice(_WORDS)}.{draw.choice(_WORDS).title()}Handler",
    "size": _size,
    "kb": lambda draw: f"{draw.random() * 900:.1f} {draw.choice(('B', 'KB', 'MB', 'GB'))}",
    "life": lambda draw: draw.choice(("<1 sec", f"00:{draw.randrange(10, 60)}", f"01:{draw.randrange(10, 60)}:07")),
    "ms": lambda draw: f"{draw.randrange(1, 9000)}{draw.choice((' ms', 'ms', ' s'))}",
    "bool": lambda draw: draw.choice(("true", "false")),
    "quoted": lambda draw: f"'{draw.choice(_WORDS)}'",
    "blk": lambda draw: f"blk_{draw.randrange(-(10**18), 10**18)}",
    "job": lambda draw: f"job_{draw.randrange(10**12)}_{draw.randrange(9999):04}",
    "query": lambda draw: f"/v2/{_hex(draw, 32)}/{draw.choice(_WORDS)}?limit={draw.randrange(99)}",
    "list": lambda draw: ", ".join(str(draw.randrange(99)) for _ in range(draw.randrange(1, 6))),
    "email": lambda draw: f"{draw.choice(_USERS)}@{_host(draw)}",
    "loose": lambda draw: f"{draw.randrange(24)}:{draw.randrange(60)}:{draw.randrange(60)}:{draw.randrange(1000)}",
    "day": lambda draw: f"{draw.choice(('Mon', 'Sat'))} {draw.choice(('Jan', 'Oct'))} {draw.randrange(10, 29)}",
    "coredata": lambda draw: draw.choice((_host(draw), f"{_host(draw)}.x-data://{_uuid(draw)}/p{draw.randrange(9)}")),
    "source": lambda draw: draw.choice((f"10.1.2.{draw.randrange(99)}",) * 9 + (f"LOCAL({draw.randrange(9)})",)),
    "racks": lambda draw: f"rack-[{draw.randrange(9)}{', ' + str(draw.randrange(99)) if draw.random() < 0.5 else ''}]",
    "votes": lambda draw: " ".join(f"unit-{draw.randrange(99)} <yes>" for _ in range(draw.randrange(1, 6))),
    "steps": lambda draw: "##".join(str(draw.randrange(10**6)) for _ in range(draw.randrange(2, 7))),
    "epoch": lambda draw: str(1_930_000_000 + draw.randrange(10**6)),
    "letter": lambda draw: draw.choice("abcdef"),
    "clock": lambda draw: f"{draw.randrange(24):02}:{draw.randrange(60):02}:{draw.randrange(60):02}",
}
_FIELD: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class LogFamily:
    """Style of a log: its header, and its templates with names of values in braces."""

    name: str
    header: str
    templates: tuple[str, ...]
    components: tuple[str, ...] = ("core",)
    levels: tuple[str, ...] = ("INFO", "WARN", "ERROR")

    def write_lines(self, count: int, seed: int) -> tuple[list[str], list[int]]:
        """Return lines, and the number of the template of each."""
        draw = random.Random(f"{self.name}{seed}")  # noqa: S311
        weights = [1 / (1 + number) for number in range(len(self.templates))]
        lines, truth = [], []
        for number in range(count):
            template = number if number < len(self.templates) else draw.choices(range(len(self.templates)), weights)[0]
            message = self._fill(self.templates[template], draw)
            seconds = 36_000 + number
            clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            header = self.header.replace("{T}", clock).replace("{L}", draw.choice(self.levels))
            header = header.replace("{C}", self.components[template % len(self.components)])
            lines.append(self._fill(header, draw) + message)
            truth.append(template)
        return lines, truth

    @staticmethod
    def _fill(text: str, draw: Draw) -> str:
        return _FIELD.sub(lambda found: VALUES[found[1]](draw), text)


FAMILIES: Final = (
    LogFamily(
        "cloud",
        "node-api.log.2031-05-16_13:53:08 2031-05-16 {T}.008 {n} {L} {C} [{req}] ",
        (
            '{ip} "GET {query} HTTP/1.1" status: {n} len: {n} time: {float}',
            '{ip} "POST {query} HTTP/1.1" status: {n} len: {n} time: {float}',
            '{ip} "DELETE {query} HTTP/1.1" status: {n} len: {n} time: {float}',
            "[instance: {uuid}] VM Started (Lifecycle Event)",
            "[instance: {uuid}] VM Paused (Lifecycle Event)",
            "[instance: {uuid}] VM Stopped (Lifecycle Event)",
            "[instance: {uuid}] Took {float} seconds to build instance.",
            "[instance: {uuid}] Took {float} seconds to spawn the instance on the hypervisor.",
            "[instance: {uuid}] Creating image",
            "[instance: {uuid}] Deleting instance files {path}",
            "Active base files: {paths}",
            "image {uuid} at ({path}): checking",
            "image {uuid} at ({path}): in use: on this node {n} local, {n} on other nodes sharing this storage",
            "Total memory: {n} MB, used: {float} MB",
            "memory limit: {float} MB, free: {float} MB",
            "vcpu limit not specified, defaulting to unlimited",
            "disk limit not specified, defaulting to unlimited",
            "Final view: name={host} phys_ram={n}MB used_ram={n}MB pci_stats=[]",
            "Creating event network-plugged:{uuid} for instance {uuid}",
        ),
        ("nova.api.server", "nova.compute.manager", "nova.virt.imagecache"),
        ("INFO", "WARNING"),
    ),
    LogFamily(
        "batch",
        "2031-10-18 {T},978 {L} [IPC Server handler {n} on {n}] org.example.{C}.MRMaster: ",
        (
            "attempt_{n}_m_{n}_0 TaskAttempt Transitioned from NEW to UNASSIGNED",
            "attempt_{n}_m_{n}_0 TaskAttempt Transitioned from ASSIGNED to RUNNING",
            "attempt_{n}_m_{n}_0 TaskAttempt Transitioned from RUNNING to SUCCESS_CONTAINER_CLEANUP",
            "Created MRMaster for application app_{n}_{n}",
            "Default file system [hdfs://{name}:9000]",
            "Adding job token for {job} to secretManager",
            "Progress of TaskAttempt attempt_{n}_r_{n} is : {float}",
            "Recalculating schedule, headroom=<memory:{signed}, vCores:{signed}>",
            "Before Scheduling: PendingReds:{n} ScheduledMaps:{n} AssignedReds:{n}",
            "After Scheduling: PendingReds:{n} ScheduledMaps:{n} AssignedReds:{n}",
            "Registering class {class} for class {class}",
            "Failed to renew lease for [Client_{n}_1] for {n} seconds.  Will retry shortly ...",
            "Retrying connect to server: {name}/{ip}:{port}. Already tried {n} time(s); policy is fixed",
            "Address change detected. Old: {name}/{ip}:{port} New: {name}:{port}",
            "ERROR IN CONTACTING RM. ",
            "Processing the event EventType: CONTAINER_LAUNCH for container container_{n} taskAttempt attempt_{n}",
            "Processing the event EventType: CONTAINER_CLEANUP for container container_{n} taskAttempt attempt_{n}",
            "Http request log for {path} is not defined",
            "Upper limit on the thread pool size is {n}",
        ),
        ("main", "Allocator"),
    ),
    LogFamily(
        "executor",
        "31/06/09 {T} {L} {C}: ",
        (
            "Found block rdd_{n}_{n} locally",
            "Running task {float} in stage {float} (TID {n})",
            "Finished task {float} in stage {float} (TID {n}). {n} bytes result sent to driver",
            "Block broadcast_{n}_piece0 stored as bytes in memory (estimated size {kb}, free {kb})",
            "Block broadcast_{n} stored as values in memory (estimated size {kb}, free {kb})",
            "Started reading broadcast variable {n}",
            "Reading broadcast variable {n} took {n} ms",
            "Times: total = {n}, boot = {signed}, init = {n}, finish = {n}",
            "Changing view acls to: {user},{user}",
            "Changing modify acls to: {user},{user}",
            "Input split: hdfs://{ip}:9000/logs/{name}.log:{n}+{n}",
            "Successfully started service {quoted} on port {port}.",
            "MemoryStore started with capacity {kb}",
            "Registered signal handlers for [TERM, HUP, INT]",
            "Connecting to driver: spark://Scheduler@{ip}:{port}",
            "mapred.task.{name}.id is deprecated. Instead, use mapreduce.{name}.attempt.id",
        ),
        ("executor.Backend", "storage.MemoryStore", "Remoting"),
    ),
    LogFamily(
        "proxy",
        "[10.30 {T}] {C} - ",
        (
            "{addr} close, {size} sent, {size} received, lifetime {life}",
            "{addr} open through proxy {addr} HTTPS",
            "{addr} open through proxy {addr} SOCKS5",
            "{addr} open directly",
            "{addr} error : Could not connect through proxy {addr} - connection closed with status code {n}",
            "{addr} error : A connection request was canceled before the completion.",
        ),
        ("chrome.exe", "chrome.exe *64", "Sync.exe"),
    ),
    LogFamily(
        "syslog",
        "Jun 14 {T} combo {C}: ",
        (
            "authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost={host} ",
            "authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost={ip}  user={user}",
            "session opened for user {user} by (uid={n})",
            "session closed for user {user}",
            "connection from {ip} ({host}) at Sat Jun 18 {clock} 2031",
            "connection from {ip} () at Sat Jun 18 {clock} 2031",
            "check pass; user unknown",
            "ALERT exited abnormally with [{n}]",
            "Authentication failed from {host} ({ip}): Permission denied in replay cache code",
            "syslogd startup succeeded",
            "Memory: {n}k/{n}k available ({n}k kernel code, {n}k reserved, 0k highmem)",
            "CPU: Trace cache: {n}K uops, L1 D cache: {n}K",
            "Detected {float} MHz processor.",
            "{name}: no version magic, tainting kernel.",
            "ANONYMOUS FTP LOGIN FROM {ip},  (anonymous)",
            "Kernel command line: ro root=LABEL=/ rhgb quiet",
            "Mount-cache hash table entries: {n} (order: {n}, {n} bytes)",
            "Dentry cache hash table entries: {n} (order: {n}, {n} bytes)",
        ),
        ("sshd(pam_unix)[{n}]", "ftpd[{n}]", "kernel", "su(pam_unix)[{n}]"),
    ),
    LogFamily(
        "phone",
        "03-17 {T}.811  1702  {n} {L} {C}: ",
        (
            "acquire lock={n}, flags={hex}, tag=*alarm*, name=android, ws=null, uid={n}, pid={n}",
            "release lock={n}, flags={hex}, tag=*alarm*, name=android, total_time={n}ms",
            "Skipping AppWindowToken{{hex} token=Token{{hex} ActivityRecord{{hex} u0 com.example.{name}/.Main}}}",
            "setSystemUiVisibility vis={hex} mask={hex} oldVal={hex} newVal={hex}",
            "cancelAutohide",
            "userActivityNoUpdateLocked: eventTime={n}, event={n}, flags={hex}, uid={n}",
            "Battery level is {n} percent, charging: {bool}",
            "Start proc {n}:com.example.{name}/u0a{n} for service",
            "Killing {n}:com.example.{name}/u0a{n} (adj {n}): empty #{n}",
        ),
        ("WindowManager", "PowerManagerService", "ActivityManager"),
        ("D", "I", "V", "W"),
    ),
    LogFamily(
        "cluster",
        "- 11178385{n} 2031.06.03 R02-M1-N0-C:J12-U11 2031-06-03-{T}.363779 R02-M1-N0-C:J12-U11 RAS {C} {L} ",
        (
            "instruction cache parity error corrected",
            "generating core.{n}",
            "{n} double-hummer alignment exceptions",
            "CE sym {n}, at {hex}, mask {hex}",
            "ciod: failed to read message prefix on control stream (CioStream socket to {ip}:{port}",
            "ciod: Error loading {path}: invalid or missing program image, No such file or directory",
            "total of {n} ddr error(s) detected and corrected",
            "data TLB error interrupt",
            "iar {n} dear {n}",
            "machine check interrupt",
        ),
        ("KERNEL", "APP"),
        ("INFO", "FATAL"),
    ),
    LogFamily(
        "python",
        "2031-01-01 {T},123 - app.{C} - {L} - ",
        (
            "user {user} logged in from {ip}",
            "user {user} logged out",
            "sent mail to {email} in {ms}",
            "job {uuid} finished in {ms} with status {n}",
            "job {uuid} failed: timeout after {ms}",
            "cache miss for key {quoted}",
            "retry {n} of {n} for {url}",
            "items [{list}] were skipped",
            "worker {name} is ready",
            "config reloaded from {path}",
            "feature {quoted} enabled: {bool}",
        ),
        ("db", "mail", "web"),
        ("INFO", "WARNING", "ERROR"),
    ),
    LogFamily(
        "zoo",
        "2031-07-29 {T},747 - {L}  [QuorumPeer[myid=1]/0:0:0:0:0:0:0:0:2181:{C}@774] - ",
        (
            "Notification time out: {n}",
            "Notification: {n} (leader), {hex} (zxid), LOOKING (state), {n} (sid)",
            "Notification: {n} (leader), {hex} (zxid), FOLLOWING (state), {n} (sid)",
            "Accepted socket connection from /{ip}:{port}",
            "Expiring session {hex}, timeout of {n}ms exceeded",
            "tickTime set to {n}",
            "maxSessionTimeout set to {n}",
            "minSessionTimeout set to {n}",
            "LOOKING",
            "FOLLOWING",
            "Server environment:java.{user}.home={path}",
            "Deleting blocks {blk} {blk} {blk}",
        ),
        ("FastLeaderElection", "Listener"),
    ),
    LogFamily(
        "watch",
        "20310405-{loose}|{C}|30001|",
        (
            "onPulse:{n} {n} {n}",
            "storePulseOfDay={steps}",
            " loadPulseOfDay = {steps}",
            "countBeats sum={n}",
            "handle event:org.example.event.MINUTE_PASSED",
            "handle event:org.example.event.SCREEN_LOCKED",
            "handle event:org.example.event.SCREEN_OPENED",
            "handle event:org.example.event.POWER_LOST",
            "upload option = Upload{kind=1, way={n}, scope={n}},app = {n} who = {n}",
            "SUMMARY : {n} {n} {n}",
        ),
        ("Pulse", "Upload"),
    ),
    LogFamily(
        "racks",
        "{n} unit-{n} rack.{C} state {epoch} 1 ",
        (
            *(f"{word} (order {{n}})" for word in _WORDS),
            "moving domains:{racks} and units:{racks}",
            "units disagree {votes}",
            "cable check, unit {n}: ambient={n}",
            "link error",
        ),
        ("net", "power"),
    ),
    LogFamily(
        "desk",
        "Jul  5 {T} desk-10-0-0-7 {C}[{n}]: ",
        (
            "{coredata}: the scheduler started this job, but it is due in {n} seconds.  Skipping.",
            "clock follows {source}, level {n}",
            "chip status: v={n} state=M {day} {clock} PDT 2031",
            "driver {float} (built: {day} {clock} 2031)",
            "prefetch depth...........{n}",
            "prefetch threshold.......{n}",
            "read failure caused by dirty....{n}",
            "read failure caused by stale....{n}",
            "(root) RUN (/opt/tools/read {letter})",
            "cd(/home/{user}/x{n}) failed: no such folder",
            "mounted {path}",
        ),
        ("cron", "chip", "timed"),
    ),
)
