"""Check that a REST API follows its own OpenAPI document, with requests of schemathesis from a fixed seed.

report = await check_rest_contract(url, "^/api/knowledge", {"id": [an_id]}, folder=tmp_path)
assert report.kept, report.text
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "every_status_is_documented",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
SEED: Final = 20_261_122
WITHIN_S: Final = 300.0
"""Guard against a hang, far above the usual duration."""
_HOOKS: Final = "tests.rest_contract_hooks"
_ROOT: Final = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class ContractReport:
    """Result of a check."""

    kept: bool
    text: str
    """Output of schemathesis."""
    operations: frozenset[str]
    """Operations that were requested, such as `GET /api/knowledge`."""
    succeeded: frozenset[str]
    """Operations that also replied with 2xx."""
    requests: int


async def check_rest_contract(
    url: str,
    paths: str,
    known: Mapping[str, Sequence[str]],
    *,
    folder: Path,
    refused: Sequence[str],
    key: str | None = None,
) -> ContractReport:
    """Check all operations whose path matches the expression `paths`, in a separate process.

    The requests are the examples of the document and every bound of its schemas. Those that break the schemas, which
    are as many again, are sent only to the operations `refused`: one for each way in which requests are read. `known`
    holds existing names by path parameter, and `folder` receives the report of schemathesis.

    Raises:
        TimeoutError: The check did not end within `WITHIN_S`.
    """
    events, config = folder / "events.ndjson", folder / "schemathesis.toml"
    config.write_text(f'[[operations]]\nexclude-name = {json.dumps(list(refused))}\ngeneration.mode = "positive"\n')
    arguments = [
        *(
            "--config-file",
            str(config),
            "run",
            f"{url}/openapi.json",
            "--include-path-regex",
            paths,
            "--checks",
            ",".join(CHECKS),
        ),
        *("--phases", "examples,coverage", "--seed", str(SEED)),
        *("--continue-on-failure", "--no-shrink", "--suppress-health-check", "all", "--warnings", "off"),
        *("--request-timeout", "10", "--report", "ndjson", "--report-ndjson-path", str(events), "--no-color"),
        *(() if key is None else ("--header", f"Authorization:Bearer {key}")),
    ]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": _HOOKS, "REST_CONTRACT_KNOWN": json.dumps(dict(known))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", *arguments),
        cwd=_ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _report(process.returncode == 0, said.decode("utf-8", "replace"), events)


def _report(kept: bool, text: str, events: Path) -> ContractReport:
    asked, succeeded, requests = set[str](), set[str](), 0
    for line in events.read_text("utf-8").splitlines() if events.exists() else ():
        event = json.loads(line).get("ScenarioFinished")
        if event is None:
            continue
        operation, asked_with = event["recorder"]["label"], event["recorder"].get("interactions", {})
        statuses = [it["response"]["status_code"] for it in asked_with.values() if it.get("response")]
        requests += len(statuses)
        asked.add(operation)
        succeeded |= {operation for status in statuses if status // 100 == 2}
    return ContractReport(kept, text, frozenset(asked), frozenset(succeeded), requests)
