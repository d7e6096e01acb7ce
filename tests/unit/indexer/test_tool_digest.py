"""Digests of descriptions: what tells one that changed from one that did not, now and in later versions."""

from skillbus.contracts.indexer.tools import ToolDescription, ToolType
from skillbus.indexer.domain.catalogue.entry import make_tool_entry
from skillbus.indexer.domain.catalogue.tool import ToolRecord, hash_description


def test_a_description_has_the_digest_that_it_always_had() -> None:
    tool = ToolDescription(
        id="mcp:files/read",
        name="read 读",
        description='Reads "a" file.\n\t\u2028é',
        tool_type=ToolType.MCP,
        tags=("b", "a"),
        parameters={
            "z": 1,
            "properties": {
                "path": {"type": "string", "default": None},
                "at": {"minimum": -0.5, "maximum": 1e300, "x": [True, 2**63]},
            },
        },
        examples=("q?",),
        provider="p",
        source="mcp:files",
        metadata={"k": {"b": 1, "a": []}},
    )
    assert hash_description(tool) == "5ddb044207f0b37e9634e852f1205ed16679a7c0ae44d4c73b84371b79f6c8d0"
    bare = ToolDescription(id="a", name="b")
    assert hash_description(bare) == "8fd17b7dd1a093af8fff57977aecf2281ebc587c89bf76bcab0390f67d858256"


def test_the_order_of_keys_makes_no_other_description() -> None:
    one = ToolDescription(id="a", name="b", metadata={"x": 1, "y": {"p": 1, "q": 2}})
    other = ToolDescription(id="a", name="b", metadata={"y": {"q": 2, "p": 1}, "x": 1})
    changed = ToolDescription(id="a", name="b", metadata={"x": 1, "y": {"p": 2, "q": 2}})
    assert hash_description(one) == hash_description(other) != hash_description(changed)


def test_the_type_follows_from_the_source_whatever_a_description_says() -> None:
    types = {
        source: ToolDescription(id="a", name="b", source=source, tool_type=ToolType.SKILL).tool_type
        for source in ("lab", "import", "mcp:files", "builtin", "skills")
    }
    assert types == {
        "lab": ToolType.EXTERNAL,
        "import": ToolType.EXTERNAL,
        "mcp:files": ToolType.MCP,
        "builtin": ToolType.BUILTIN,
        "skills": ToolType.SKILL,
    }


def test_a_record_from_before_the_type_external_is_read_as_external_and_indexed_again() -> None:
    stored = {
        "project": "default",
        "tool": {"id": "a", "name": "b", "source": "lab", "tool_type": "mcp"},
        "digest": "0" * 64,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }
    entry = make_tool_entry(ToolRecord.model_validate(stored))
    assert entry is not None
    assert entry.tool_type is ToolType.EXTERNAL
    assert entry.digest != stored["digest"]
