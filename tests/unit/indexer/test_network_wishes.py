"""What a script would reach for, told without running it."""

import time

import pytest

from skillbus.indexer.domain.package.file_report import scan_javascript, scan_python, scan_shell

_LONGEST_S = 5.0


def python(source: str) -> list[str]:
    return [what for _, what in scan_python(source.encode())]


def node(source: str) -> list[str]:
    return [what for _, what in scan_javascript(source)]


def shell(source: str) -> list[str]:
    return [what for _, what in scan_shell(source)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import requests", ["requests"]),
        ("import os, httpx as h", ["httpx"]),
        ("from urllib.request import urlopen", ["urllib.request"]),
        ("from urllib import request, parse", ["urllib.request"]),
        ("import http.client", ["http.client"]),
        ("def later():\n    import aiohttp", ["aiohttp"]),
        ("import importlib\nimportlib.import_module('socket')", ["socket"]),
        ("__import__('requests')", ["requests"]),
        ("import subprocess\nsubprocess.run(['curl', '-s', url])", ["curl"]),
        ("import os\nos.system(f'curl {url}')", ["curl"]),
        ("import os\nos.system('cd x && wget ' + url)", ["wget"]),
        ("subprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])", ["pip install"]),
        ("subprocess.run(['python3', '-m', 'pip', 'install', 'x'])", ["pip install"]),
        ("subprocess.run(['bash', '-c', 'set -e; curl x'])", ["curl"]),
        ("import requests\nthis is not python", ["requests"]),
        ("print 'old'\nfrom httpx import get", ["httpx"]),
    ],
)
def test_python_that_reaches_for_the_network_is_told(source: str, found: list[str]) -> None:
    assert python(source) == found


@pytest.mark.parametrize(
    "source",
    [
        "from urllib.parse import quote",
        "import urllib.error",
        "from http import HTTPStatus",
        "from . import requests",
        "# import requests\ntext = 'import socket'",
        "subprocess.run(['git', 'status'])",
        "import json, argparse, pathlib",
    ],
)
def test_python_that_stays_where_it_is_has_no_wishes(source: str) -> None:
    assert python(source) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("const http = require('http')", ["http"]),
        ("import net from 'node:net'", ["net"]),
        ('import { a } from "undici"', ["undici"]),
        ("const ax = await import('axios')", ["axios"]),
        ("await fetch(url)", ["fetch"]),
        ("globalThis.fetch(url)", ["fetch"]),
        ("new WebSocket(url)", ["WebSocket"]),
        ("execSync('curl -s x')", ["curl"]),
        ("spawn('npm', ['install', 'x'])", ["npm install"]),
    ],
)
def test_javascript_that_reaches_for_the_network_is_told(source: str, found: list[str]) -> None:
    assert node(source) == found


@pytest.mark.parametrize(
    "source",
    [
        "const fs = require('node:fs')",
        "// await fetch(url)",
        "/* require('http')\n fetch(x) */",
        "const help = `run fetch(x) yourself, with require('http')`",
        "cache.fetch(key)",
        "const url = 'https://example.com'",
        "spawn('git', ['status'])",
    ],
)
def test_javascript_that_stays_where_it_is_has_no_wishes(source: str) -> None:
    assert node(source) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("curl -s https://example.com", ["curl"]),
        ('x="$(curl -s "$url")"', ["curl"]),
        ("cat x | sudo nc host 1", ["nc"]),
        ("if wget x; then echo; fi", ["wget"]),
        ("PIP=1 pip install x", ["pip install"]),
        ("python3 -m pip install x", ["pip install"]),
        ("npm ci", ["npm ci"]),
        ("git -C x pull", ["git pull"]),
        ("npx serve", ["npx"]),
        ("exec 3<>/dev/tcp/host/80", ["/dev/tcp"]),
        ("bash <<END\ncurl x\nEND", ["curl"]),
        ("/usr/bin/curl x", ["curl"]),
        ("echo \\\n  x && curl y", ["curl"]),
    ],
)
def test_a_command_line_that_reaches_for_the_network_is_told(source: str, found: list[str]) -> None:
    assert shell(source) == found


@pytest.mark.parametrize(
    "source",
    [
        "# curl x",
        "echo 'use curl x'",
        'echo "first\ncurl x"',
        "cat <<END\ncurl x\nEND",
        "cat <<-'END' > help\n\tcurl x\n\tEND",
        "git status; npm run build",
        "curl_options=1",
        "echo $# curl",
    ],
)
def test_a_command_line_that_only_speaks_of_the_network_has_no_wishes(source: str) -> None:
    assert shell(source) == []


def test_the_line_of_a_wish_is_told() -> None:
    assert list(scan_python(b"import os\n\nimport socket\n")) == [(3, "socket")]
    assert list(scan_javascript("// one\n/* two\n three */\nfetch(x)")) == [(4, "fetch")]
    assert list(scan_shell("cat <<E\nx\nE\necho 'a\nb'\ncurl y")) == [(6, "curl")]


@pytest.mark.parametrize(
    "piece", ["/*", "'\\'", "`\\`", '"\\"', "<<a\n", "'", '"', "fetch(", "$(", "\\", "spawn(", "`"]
)
def test_a_hostile_source_takes_no_longer_than_a_long_one(piece: str) -> None:
    source = "x" + piece * (256 * 1024 // len(piece))
    begun = time.process_time()
    node(source)
    shell(source)
    python(source)
    assert time.process_time() - begun < _LONGEST_S
