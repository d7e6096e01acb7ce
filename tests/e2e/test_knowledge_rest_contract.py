"""The REST API of knowledge follows its own OpenAPI document, with a whole skillbus behind it."""

from pathlib import Path

import pytest
from tests.rest_contract import check_rest_contract

from skillbus.contracts.catalogue import ENDPOINTS

from .conftest import System

pytestmark = pytest.mark.asyncio(loop_scope="module")

_CREATE = next(endpoint for endpoint in ENDPOINTS if endpoint.name == "create_knowledge")
_REFUSED = ("GET /api/knowledge", "PUT /api/knowledge/{id}", "POST /api/knowledge/import")
"""Operations that get requests to refuse: by a query, by a path, a header and a JSON body, and by lines."""


async def _created(system: System, **more: str) -> str:
    body = _CREATE.request.model_validate({**_CREATE.example, **more})
    answer = await system.http.post("/api/knowledge", json=body.model_dump(mode="json", exclude_unset=True))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["item"]["id"])


@pytest.mark.timeout(400)
async def test_the_rest_api_of_knowledge_keeps_its_contract_on_a_whole_skillbus(system: System, tmp_path: Path) -> None:
    known = {
        "id": [await _created(system), await _created(system, status="pending")],
        "project": ["default", "team-a", "team-b"],
    }
    url = system.standalone.http_url
    report = await check_rest_contract(
        url, "^/api/knowledge", known, folder=tmp_path, refused=_REFUSED, key=system.standalone.api_key
    )
    assert report.kept, report.text
    assert len(report.operations) == 22
    assert report.operations - report.succeeded == {"GET /api/knowledge/{id}/proposal"}  # no item was learned
    assert report.requests > 1_000
    assert (await system.http.get("/readyz")).status_code == 200
