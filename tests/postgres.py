"""A PostgreSQL server for the tests, from Debian's package, or the one that `SKILLBUS_TEST_POSTGRES_URL` names.

The user of a named server must be a superuser: tests create and drop databases, and empty tables whose triggers refuse
it. The driver comes with `skillbus-sql[postgres]`.
"""

import asyncio
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

ResultT = TypeVar("ResultT")

SERVER_URL = os.environ.get("SKILLBUS_TEST_POSTGRES_URL")


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server; `url` is of its superuser and holds the password."""

    url: str
    programs: Path | None = None
    data: Path | None = None

    def start(self) -> None:
        # Only a socket in the data directory: no port that another process could take first.
        options = f"-c listen_addresses='' -k {self._ours} -c fsync=off -c full_page_writes=off"
        self._control("start", "-o", options, "-l", str(self._ours / "log"))

    def stop(self) -> None:
        self._control("stop", "-m", "fast")

    @property
    def _ours(self) -> Path:
        if self.data is None:
            pytest.skip("the server of SKILLBUS_TEST_POSTGRES_URL is not ours to stop")
        return self.data

    def _control(self, *arguments: str) -> None:
        assert self.programs is not None
        _run(self.programs / "pg_ctl", "-D", str(self._ours), "-w", "-t", "20", *arguments)


@contextmanager
def open_postgres() -> Iterator[Postgres]:
    """Skips where there is none."""
    if SERVER_URL is not None:
        yield Postgres(SERVER_URL)
        return
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        pytest.skip("no PostgreSQL: install the package `postgresql`, or name a server by SKILLBUS_TEST_POSTGRES_URL")
    folder = Path(tempfile.mkdtemp(prefix="skillbus-postgres-"))
    try:
        with _started(programs[-1].parent, folder) as server:
            yield server
    finally:
        shutil.rmtree(folder)


@contextmanager
def _started(programs: Path, folder: Path) -> Iterator[Postgres]:
    password = secrets.token_urlsafe(12)
    (folder / "password").write_text(password)
    if (user := _user()) is not None:
        for path in (folder, folder / "password"):
            shutil.chown(path, user)
    data, secret = str(folder / "data"), str(folder / "password")
    _run(programs / "initdb", "-D", data, "-U", "skillbus", "-A", "scram-sha-256", "--pwfile", secret, "-N")
    url = f"postgresql://skillbus:{password}@/postgres?host={data}"
    server = Postgres(url, programs, folder / "data")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _run(program: Path, *arguments: str) -> None:
    """Output goes to a file: a server that is started keeps what it is given open."""
    with tempfile.TemporaryFile() as output:
        done = subprocess.run([program, *arguments], user=_user(), cwd="/", stdout=output, stderr=output, check=False)
        output.seek(0)
        assert done.returncode == 0, output.read().decode()


def _user() -> str | None:
    """PostgreSQL does not run as root; whoever else we are, it runs as us."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@asynccontextmanager
async def database(server: Postgres) -> AsyncGenerator[str]:
    """Create a database, yield its URL and drop it."""
    url = await create_database(server)
    try:
        yield url
    finally:
        await drop_database(server, url)


async def create_database(server: Postgres) -> str:
    """Create an empty database and return its URL."""
    name = f"t{uuid4().hex}"
    await _as_superuser(server, f"CREATE DATABASE {name}")
    return make_url(server.url).set(database=name).render_as_string(hide_password=False)


async def drop_database(server: Postgres, url: str) -> None:
    await _as_superuser(server, f"DROP DATABASE {make_url(url).database} WITH (FORCE)")


async def empty_tables(url: str, tables: Iterable[str]) -> None:
    """Empty tables and restart their sequences, also those whose triggers refuse it. A new database takes longer."""
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    try:
        async with engine.begin() as connection:
            await connection.execute(text("SET LOCAL session_replication_role = replica"))
            await connection.execute(text(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE"))
    finally:
        await engine.dispose()


def run_apart(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine in an event loop of a thread: a fixture of a session has no loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _as_superuser(server: Postgres, statement: str) -> None:
    url = make_url(server.url).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            await connection.execute(text(statement))
    finally:
        await engine.dispose()
