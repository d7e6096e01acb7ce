"""The end of what a failed process printed, as an operator sees it."""

import asyncio

from skillbus.agent.adapters.mcp.stdio import LastWords

NPM = """npm warn config production Use `--omit=dev` instead.
npm error code E404
npm error 404 Not Found - GET https://registry.example/no-such-server - Not found
npm error 404
npm error 404  'no-such-server@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm error A complete log of this run can be found in: ~/.npm/_logs/debug.log
"""
NODE = """node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/srv/server.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at Module._load (node:internal/modules/cjs/loader:1051:27)
    at Function.executeUserEntryPoint [as runMain] (node:internal/modules/run_main:174:12)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v22.11.0
"""


async def read(text: str) -> str:
    words, stream = LastWords(), asyncio.StreamReader()
    stream.feed_data(text.encode())
    stream.feed_eof()
    await words.read_stream(stream)
    return words.format_lines()


async def test_the_lines_that_matter_are_among_the_last_words() -> None:
    assert "'no-such-server@*' is not in this registry." in await read(NPM)
    assert (await read(NPM)).startswith("npm error code E404 / npm error 404 Not Found - GET")
    assert "Error: Cannot find module '/srv/server.js'" in await read(NODE)
    assert "    at " not in await read(NODE)
    assert await read("again\n" * 100 + "  indented\nfatal: no key\n") == "again / fatal: no key"
    assert await read("  all\n  indented\n") == "all / indented"
    assert await read("") == ""
    assert len(await read("".join(f"{number} {'x' * 1_000}\n" for number in range(20)))) < 1_000
