"""The REST API of the knowledge base against its own OpenAPI document."""

from pathlib import Path

import pytest
from tests.rest_contract import check_rest_contract

from skillbus.gateway.wiring import Gateway

from .conftest import Serve
from .fake_learner import PENDING, SEEDED, FakeLearner


@pytest.mark.timeout(120)
async def test_the_rest_api_of_knowledge_keeps_its_contract(gateway: Gateway, serve: Serve, tmp_path: Path) -> None:
    await serve(*FakeLearner().routes())
    known = {"id": [SEEDED, PENDING], "project": ["default", "team-a", "team-b"]}
    report = await check_rest_contract(gateway.url, "^/api/knowledge", known, folder=tmp_path)
    assert report.kept, report.text
    assert len(report.operations) == 19
    assert report.succeeded == report.operations
    assert report.requests > 1_000
