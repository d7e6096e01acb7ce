"""Digests of descriptions: what tells one that changed from one that did not, now and in later versions."""

from skillbus.contracts.indexer.tools import ToolDescription, ToolType
from skillbus.indexer.domain.catalogue.tool import digest_of


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
    assert digest_of(tool) == "5ddb044207f0b37e9634e852f1205ed16679a7c0ae44d4c73b84371b79f6c8d0"
    bare = ToolDescription(id="a", name="b")
    assert digest_of(bare) == "927aa110fbe690f12835f02e024d5def1105f53afbfc981e506967a1a6fdc3f8"


def test_the_order_of_keys_makes_no_other_description() -> None:
    one = ToolDescription(id="a", name="b", metadata={"x": 1, "y": {"p": 1, "q": 2}})
    other = ToolDescription(id="a", name="b", metadata={"y": {"q": 2, "p": 1}, "x": 1})
    changed = ToolDescription(id="a", name="b", metadata={"x": 1, "y": {"p": 2, "q": 2}})
    assert digest_of(one) == digest_of(other) != digest_of(changed)
