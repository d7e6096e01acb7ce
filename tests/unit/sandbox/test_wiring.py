"""What the settings switch on."""

import pytest

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import create_builders


@pytest.mark.parametrize(
    ("settings", "had"),
    [
        ({}, set()),
        ({"index_url": "http://127.0.0.1:1/simple"}, {Runtime.PYTHON}),
        ({"npm_registry": "http://127.0.0.1:1/"}, {Runtime.NODE}),
        ({"dependencies": True}, {Runtime.PYTHON, Runtime.NODE}),
        ({"dependencies": False, "index_url": "http://127.0.0.1:1/simple"}, set()),
        ({"dependencies": True, "engine": "runsc"}, {Runtime.PYTHON, Runtime.NODE}),
    ],
)
def test_packages_are_had_from_where_an_operator_has_named_an_index(
    settings: dict[str, object], had: set[Runtime]
) -> None:
    assert set(create_builders(SandboxSettings.model_validate(settings))) == had
