"""What is said, and documented, of texts that do not follow the contract."""

import pytest
from pydantic import ValidationError

from skillbus.contracts.indexer.tools import GetTool
from skillbus.contracts.retriever.tool_search import SearchTools


@pytest.mark.parametrize(
    ("tool_id", "said"),
    [
        ("", "String should have at least 1 character"),
        ("x" * 301, "String should have at most 300 characters"),
        (" x", "String should match pattern"),
        ("a\0b", "NUL"),
    ],
)
def test_a_text_is_measured_in_characters(tool_id: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        GetTool(id=tool_id)


def test_the_schema_of_a_text_has_all_its_bounds() -> None:
    of_id = GetTool.model_json_schema()["properties"]["id"]
    assert (of_id["minLength"], of_id["maxLength"], of_id["pattern"]) == (1, 300, r"^\S(.*\S)?$")
    assert SearchTools.model_json_schema()["properties"]["query"]["maxLength"] == 8_000
