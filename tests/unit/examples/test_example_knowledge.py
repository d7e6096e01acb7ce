"""The items of `examples/knowledge` are what they seem, before any server takes them."""

from pathlib import Path

import pytest

from skillbus.contracts.learner.knowledge import KnowledgeDraft
from skillbus.contracts.scope import ScopeMatch, match_scope
from skillbus.gateway.domain.knowledge_markdown import parse_markdown

from .runner import EXAMPLES

FILES = sorted((EXAMPLES / "knowledge").iterdir())


def item_of(path: Path) -> KnowledgeDraft:
    return KnowledgeDraft.model_validate(parse_markdown(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_an_item_that_is_called_like_its_file(path: Path) -> None:
    item = item_of(path)
    assert path.suffix == ".md"
    assert item.external_id == path.stem
    assert item.tags
    assert item.owner


def test_they_are_of_every_type_and_in_two_languages() -> None:
    items = [item_of(path) for path in FILES]
    assert len(items) == 7
    assert {item.type for item in items} == {"project_config", "business_rule", "module_context", "test_experience"}
    assert {item.lang for item in items} == {"zh", "en"}


def test_the_rule_of_the_specification_is_among_them() -> None:
    """knowledge-base.md § 语义检索相关知识: 包含game-id相关的业务规则知识"""
    rule = item_of(EXAMPLES / "knowledge" / "game-id-header.md")
    assert (rule.type, rule.scope) == ("business_rule", "/api/live/*")
    assert "game-id" in rule.content
    assert match_scope(rule.scope, "/api/live/rooms") is ScopeMatch.PATTERN
