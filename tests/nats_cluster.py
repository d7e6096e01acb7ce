"""A NATS cluster of three servers on loopback, with JetStream."""

import json
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from nats.aio.client import Client
from nats.errors import Error as NatsError

from skillbus.common.testing import eventually
from skillbus.standalone.nats_server import find_nats_binary

SERVERS = 3


@dataclass(frozen=True)
class NatsCluster:
    """Addresses of the servers, and their processes."""

    addresses: tuple[str, ...]
    processes: tuple["subprocess.Popen[bytes]", ...]

    @property
    def url(self) -> str:
        """What SKILLBUS_NATS_URL names."""
        return ",".join(self.addresses)

    def kill(self, address: str) -> None:
        """Kill the server of this address."""
        process = self.processes[self.addresses.index(address)]
        process.kill()
        process.wait()


@asynccontextmanager
async def run_nats_cluster(folder: Path) -> AsyncGenerator[NatsCluster]:
    """Run the servers until the context is left. JetStream has a leader."""
    ports = find_free_ports(2 * SERVERS)
    clients, routes = ports[:SERVERS], ports[SERVERS:]
    with ExitStack() as stack:
        processes = []
        for number in range(SERVERS):
            config = {
                "server_name": f"n{number}",
                "listen": f"127.0.0.1:{clients[number]}",
                "jetstream": {"store_dir": str(folder / f"n{number}"), "max_file_store": 2**40},
                "cluster": {
                    "name": "test",
                    "listen": f"127.0.0.1:{routes[number]}",
                    "routes": [f"nats://127.0.0.1:{port}" for port in routes],
                },
            }
            file = folder / f"n{number}.conf"
            file.write_text(json.dumps(config))
            log = stack.enter_context((folder / f"n{number}.log").open("wb"))
            processes.append(_start_server(stack, file, log))
        cluster = NatsCluster(tuple(f"nats://127.0.0.1:{port}" for port in clients), tuple(processes))
        for address in cluster.addresses:
            await eventually(partial(_has_leader, address), bool, wait_s=30)
        yield cluster


def _start_server(stack: ExitStack, config: Path, log: BinaryIO) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([find_nats_binary(), "--config", str(config)], stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def find_free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


async def _ignore(_: Exception) -> None:
    pass


async def _has_leader(address: str) -> bool:
    client = Client()
    try:
        await client.connect(address, allow_reconnect=False, connect_timeout=1, error_cb=_ignore)
        await client.jetstream(timeout=1).account_info()
    except (NatsError, OSError, TimeoutError):
        return False
    else:
        return True
    finally:
        await client.close()
