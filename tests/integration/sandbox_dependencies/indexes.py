"""Package indexes on loopback, with packages made by hand: one for Python (PEP 503), one for npm."""

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pydantic import JsonValue


@dataclass(slots=True)
class Index:
    """What is served, by path; and what was asked for."""

    served: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)
    """`user:password` of the requests that had some."""
    hangs: bool = False
    port: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def simple(self) -> str:
        return f"http://127.0.0.1:{self.port}/simple"

    @property
    def npm(self) -> str:
        return f"http://127.0.0.1:{self.port}/npm/"

    def put_file(self, package: str, name: str, data: bytes) -> str:
        """A file of a Python package, listed on its page; returns its SHA-256."""
        self.served[f"/files/{name}"] = data
        page = self.served.get(f"/simple/{package}/", b"<!DOCTYPE html><html><body>")
        digest = hashlib.sha256(data).hexdigest()
        link = f'<a href="/files/{name}#sha256={digest}">{name}</a>'
        self.served[f"/simple/{package}/"] = page + link.encode()
        return digest

    def put_wheel(self, package: str, version: str, files: Mapping[str, str | bytes], requires: str = "") -> str:
        return self.put_file(package, f"{package}-{version}-py3-none-any.whl", wheel(package, version, files, requires))

    def put_npm(self, package: str, version: str, files: Mapping[str, str], **more: JsonValue) -> str:
        """An npm package; returns its integrity."""
        manifest = {"name": package, "version": version, "main": "index.js", **more}
        data = tarball({"package.json": json.dumps(manifest), **files})
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        path = f"/npm/{package}/-/{package.rpartition('/')[2]}-{version}.tgz"
        self.served[path] = data
        known = json.loads(self.served.get(f"/npm/{package}", b'{"versions": {}}'))
        dist = {"tarball": f"http://127.0.0.1:{self.port}{path}", "integrity": integrity}
        versions = {**known["versions"], version: {**manifest, "dist": dist}}
        document = {"name": package, "dist-tags": {"latest": version}, "versions": versions}
        self.served[f"/npm/{package}"] = json.dumps(document).encode()
        return integrity


def wheel(package: str, version: str, files: Mapping[str, str | bytes], requires: str = "") -> bytes:
    info = f"{package}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    whole = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": tags}
    record = "".join(f"{name},,\n" for name in (*whole, f"{info}/RECORD"))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**whole, f"{info}/RECORD": record}.items():
            archive.writestr(name, data)
    return stream.getvalue()


def sdist(package: str, version: str, setup: str) -> bytes:
    top = f"{package}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    return _packed({f"{top}/setup.py": setup, f"{top}/PKG-INFO": metadata})


def tarball(files: Mapping[str, str]) -> bytes:
    return _packed({f"package/{name}": text for name, text in files.items()})


def _packed(files: Mapping[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return stream.getvalue()


@contextmanager
def serving() -> Iterator[Index]:
    """An index that is served while the context is open."""
    index = Index()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.replace("%2f", "/").replace("%2F", "/")
            index.asked.append(path)
            if (given := self.headers.get("Authorization", "")).startswith("Basic "):
                index.credentials.append(base64.b64decode(given.removeprefix("Basic ")).decode())
            if index.hangs:
                index.stopped.wait(20)
            with suppress(ConnectionError):  # who asked may have been ended
                self.answer(index.served.get(path), path)

        def answer(self, data: bytes | None, path: str) -> None:
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Type", "application/json" if path.startswith("/npm/") else "text/html")
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data or b"")

        def do_HEAD(self) -> None:
            """uv asks for the size of a wheel first."""
            self.do_GET()

        def log_message(self, *args: object) -> None:
            """Nothing: what was asked is kept in the index."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        index.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
