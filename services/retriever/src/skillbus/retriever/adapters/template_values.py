"""What templates get and use, in this process and in that of a caller's template: the standard library alone."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

CHINESE: Final = {
    "project_config": "项目配置",
    "business_rule": "业务规则",
    "module_context": "模块上下文",
    "test_experience": "测试经验",
}


class Item(Protocol):
    """An item as a template sees it: the fields of `ContextItem`."""

    @property
    def content(self) -> str: ...

    @property
    def cut(self) -> bool: ...


class Group(NamedTuple):
    """The items of a type. `group.items` is what it reads: a dict has a method of that name."""

    type: str
    items: Sequence[Item]


class Left(int):
    """How many items were left out; with what it is made of."""

    over_budget: int
    alike: int

    @classmethod
    def of(cls, over_budget: int, alike: int) -> "Left":
        left = cls(over_budget + alike)
        left.over_budget, left.alike = over_budget, alike
        return left


def quoted(item: Item) -> str:
    """The content with `>` before each line, whatever ends a line: none of them can pass for a mark or a heading."""
    lines = [f"> {line}" if line else ">" for line in item.content.splitlines()]
    return "\n".join(lines) + (" …" if item.cut else "")


def one_line(text: str) -> str:
    """The text with single blanks for any run of blanks and ends of lines."""
    return " ".join(text.split())


def in_chinese(kind: str) -> str:
    """The name of a type in Chinese."""
    return CHINESE.get(kind, kind)


FILTERS: Final = {"quoted": quoted, "one_line": one_line, "in_chinese": in_chinese}
