"""The tool channel of a program that is hostile: what it forges, floods, keeps and leaves half sent."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from skillbus.contracts.sandbox.program_runs import CALLS_AT_ONCE, FRAME_BYTES
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import RunControl, RunOutcome, RunSpec
from skillbus.sandbox.domain.run.tool_calls import ToolAccess

from ...abuse.model import find_runtime
from .conftest import USER, processes_in_sandboxes

pytestmark = pytest.mark.asyncio(loop_scope="module")

Run = Callable[..., Coroutine[object, object, RunOutcome]]

CALLS, CALL_BYTES = 50, 4 * FRAME_BYTES
FRAMES = """
import os, socket, sys
channel = socket.socket(fileno=3)
def frame(number, body): return len(body).to_bytes(4, "big") + number.to_bytes(4, "big") + body
def send(number, body=b"{}"): channel.sendall(frame(number, body))
def receive():
    head = channel.recv(8, socket.MSG_WAITALL)
    return int.from_bytes(head[4:], "big"), channel.recv(int.from_bytes(head[:4], "big"), socket.MSG_WAITALL)
def wait(): os.read(os.pipe()[0], 1)  # until it is killed, also if the channel is closed before
"""
"""The beginning of a program that writes frames by itself."""


@dataclass(slots=True)
class FakeAgent:
    """Answers requests with themselves, or never."""

    silent: bool = False
    reply: bytes | None = None
    enough: int = 0
    """The run is cancelled with this request, after some turns of the loop in which others could come."""
    cancels_at_output: bool = False
    asked: list[bytes] = field(default_factory=list)
    now: int = 0
    most: int = 0
    """Most requests at once."""
    given_up: int = 0
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, body: bytes) -> bytes:
        self.asked.append(body)
        self.now += 1
        self.most = max(self.most, self.now)
        if len(self.asked) == self.enough:
            asyncio.get_running_loop().call_later(0.02, self.cancelled.set)
        try:
            await (asyncio.Event().wait() if self.silent else asyncio.sleep(0))
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        finally:
            self.now -= 1
        return self.reply or body

    def hear(self, *_: object) -> None:
        if self.cancels_at_output:
            self.cancelled.set()

    @property
    def control(self) -> RunControl:
        return RunControl(self.hear, self.cancelled, tools=ToolAccess(self.ask, CALLS, CALL_BYTES))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def isolations() -> AsyncGenerator[tuple[BubblewrapIsolation, BubblewrapIsolation]]:
    """One that starts a sandbox for each run, and one that has it waiting."""
    async with BubblewrapIsolation(user=USER) as cold, BubblewrapIsolation(user=USER, warm=1) as warm:
        try:
            await cold.probe()
            await warm.probe()
        except SandboxUnavailable as unavailable:
            pytest.skip(f"no sandbox on this machine: {unavailable}")
        yield cold, warm
    assert processes_in_sandboxes() == []


@pytest.fixture
def run(isolations: tuple[BubblewrapIsolation, BubblewrapIsolation], tmp_path: Path) -> Run:
    async def run_script(source: str, agent: FakeAgent, *, name: str = "main.py", cold: bool = False) -> RunOutcome:
        (tmp_path / name).write_text(source)
        spec = RunSpec(tmp_path, name, find_runtime(name), limits=Limits(wall_s=20))
        return await isolations[0 if cold else 1].run(spec, agent.control)

    return run_script


@pytest.mark.parametrize("cold", [True, False])
async def test_a_request_gets_the_reply_with_its_number(cold: bool, run: Run) -> None:
    agent = FakeAgent()
    program = FRAMES + "send(7, b'seven'); send(9, b'nine'); print(sorted([receive(), receive()]))"
    outcome = await run(program, agent, cold=cold)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (RunStatus.OK, b"[(7, b'seven'), (9, b'nine')]\n", b"")
    assert agent.asked == [b"seven", b"nine"]


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        (f"channel.sendall(({FRAME_BYTES} + 1).to_bytes(4, 'big') + bytes(4))", f"a frame of {FRAME_BYTES + 1} bytes"),
        ("channel.sendall(bytes(8))", "a frame of 0 bytes"),
        ("channel.sendall(b'\\xff' * 8)", f"a frame of {2**32 - 1} bytes"),
        (f"[send(n) or receive() for n in range({CALLS + 1})]", f"more than {CALLS} tool calls"),
        (f"[send(n, b'x' * {FRAME_BYTES}) for n in range(5)]", f"more than {CALL_BYTES} bytes"),
    ],
)
async def test_a_forged_frame_ends_the_program(forged: str, said: str, run: Run) -> None:
    agent = FakeAgent(reply=b"{}")
    outcome = await run(FRAMES + forged + "; wait(); print('went on')", agent)
    assert (outcome.status, outcome.stdout) == (RunStatus.KILLED, b"")
    assert said in outcome.detail
    assert len(agent.asked) <= CALLS


async def test_a_number_that_waits_for_its_reply_is_not_used_again(run: Run) -> None:
    agent = FakeAgent(silent=True)
    outcome = await run(FRAMES + "send(3); send(3); wait()", agent)
    assert (outcome.status, len(agent.asked), agent.given_up) == (RunStatus.KILLED, 1, 1)
    assert "number 3 twice" in outcome.detail


@pytest.mark.parametrize("silent", [True, False], ids=["no replies", "replies that nobody reads"])
async def test_a_flood_waits_in_the_sandbox(silent: bool, run: Run) -> None:
    """Nobody reads on behalf of a program while its requests wait for replies, or the replies for their reader."""
    agent = FakeAgent(silent, reply=b"x" * 150_000, enough=CALLS_AT_ONCE)
    flood = "number = 0\nwhile True:\n    number += 1\n    send(number, b'x' * 60_000)"
    outcome = await run(FRAMES + flood, agent)
    assert (outcome.status, agent.now) == (RunStatus.CANCELLED, 0)
    assert (
        CALLS_AT_ONCE <= len(agent.asked) <= CALLS_AT_ONCE + (0 if silent else 8)
    )  # a few replies fit into the buffer
    assert agent.given_up == (CALLS_AT_ONCE if silent else 0)


async def test_a_reply_beyond_the_bytes_of_all_calls_becomes_an_error(run: Run) -> None:
    agent = FakeAgent(reply=b"x" * FRAME_BYTES)
    program = FRAMES + "for n in range(5): send(n); print(len(receive()[1]))\nsend(9); print(receive()[1])"
    outcome = await run(program, agent)
    *sizes, last = outcome.stdout.splitlines()
    assert sizes[:3] == [b"%d" % FRAME_BYTES] * 3
    assert b"payload_too_large" in last


@pytest.mark.parametrize("half", ["channel.sendall(b'\\0\\0')", "channel.sendall(frame(1, b'x' * 1000)[:500])"])
async def test_half_a_frame_holds_nobody_but_its_program(half: str, run: Run) -> None:
    agent = FakeAgent(cancels_at_output=True)
    outcome = await run(FRAMES + half + "; print('half', flush=True); wait()", agent)
    assert (outcome.status, agent.asked) == (RunStatus.CANCELLED, [])
    ended = await run(FRAMES + half, FakeAgent())
    assert ended.status is RunStatus.OK


async def test_a_channel_that_is_kept_open_ends_with_the_program(run: Run) -> None:
    """A daemon that outlives its program would go on calling."""
    agent = FakeAgent(silent=True)
    daemon = """
send(1)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        number = 1
        while True:
            number += 1
            send(number)
    os._exit(0)
print("the program ends")
"""
    outcome = await run(FRAMES + daemon, agent)
    assert (outcome.status, outcome.stdout) == (RunStatus.OK, b"the program ends\n")
    assert agent.now == 0


async def test_forks_that_write_into_one_another_harm_their_program_only(run: Run) -> None:
    agent = FakeAgent()
    program = """
children = []
for child in range(8):
    children.append(os.fork())
    if not children[-1]:
        for _ in range(20):
            channel.send(frame(child, b"x" * 3000)[: 40 + child])
        os._exit(0)
[os.waitpid(child, 0) for child in children]
"""
    outcome = await run(FRAMES + program, agent)
    assert outcome.status in {RunStatus.OK, RunStatus.KILLED}
    again = await run(FRAMES + "send(1, b'again'); print(receive())", agent)
    assert again.stdout == b"(1, b'again')\n"


async def test_descriptors_that_are_sent_through_the_channel_reach_nobody(run: Run) -> None:
    agent = FakeAgent()
    before = len(list(Path("/proc/self/fd").iterdir()))
    program = """
file = os.open("/proc/self/status", os.O_RDONLY)
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, file.to_bytes(4, sys.byteorder) * 10)]
for number in range(40):
    channel.sendmsg([frame(number, b"{}")], rights)
    receive()
print("sent")
"""
    outcome = await run(FRAMES + program, agent)
    assert (outcome.stdout, len(agent.asked)) == (b"sent\n", 40)
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 40


async def test_the_channel_tells_nothing_of_the_host_and_reaches_no_process_of_it(run: Run) -> None:
    program = """
import signal, struct
kept = [fd for fd in range(200) if fd != channel.fileno() and os.path.exists(f"/proc/self/fd/{fd}")]
print(kept, channel.getpeername(), channel.getsockname())
pid, user, group = struct.unpack("iii", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
print(pid, user)
try:
    peer = channel.getsockopt(socket.SOL_SOCKET, 77)  # SO_PEERPIDFD
    signal.pidfd_send_signal(peer, 0)
    print("reached a process")
except OSError as error:
    print("refused")
try:
    os.open("/proc/self/fd/3", os.O_RDWR)
    print("opened again")
except OSError:
    print("not opened")
"""
    outcome = await run(FRAMES + program, FakeAgent())
    assert outcome.stdout.decode().splitlines() == ["[0, 1, 2]  ", "0 65534", "refused", "not opened"], outcome.stderr


@pytest.mark.parametrize("name", ["main.js", "main.sh"])
@pytest.mark.parametrize("cold", [True, False])
async def test_other_languages_inherit_the_channel_too(name: str, cold: bool, run: Run) -> None:
    programs = {
        "main.js": "const s = new (require('net').Socket)({fd: 3, readable: true, writable: true});"
        "s.write(Buffer.from([0,0,0,2,0,0,0,5,123,125]));"
        "s.on('data', d => { console.log(d.toString('hex')); s.destroy(); });",
        "main.sh": r"printf '\0\0\0\2\0\0\0\5{}' >&3; head -c 10 <&3 | od -An -tx1 | tr -d ' '",
    }
    outcome = await run(programs[name], FakeAgent(), name=name, cold=cold)
    assert (outcome.stdout, outcome.stderr) == (b"00000002000000057b7d\n", b"")
