"""The templates that come with skillbus, and what opens those of callers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from skillbus.contracts.learner.knowledge import KnowledgeType
from skillbus.contracts.retriever.knowledge_search import ContextItem
from skillbus.retriever.adapters.template_process import TemplateProgram
from skillbus.retriever.adapters.template_values import FILTERS, Group, Left
from skillbus.retriever.adapters.template_wire import Opening
from skillbus.retriever.domain.context.builder import ContextWriter
from skillbus.retriever.domain.context.packer import Packed

_FOLDER: Final = "adapters/templates"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skillbus.retriever", _FOLDER),
        autoescape=False,  # noqa: S701 - it writes text for a model; as HTML it is shown nowhere
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters.update(FILTERS)
    return environment


class BuiltInTemplate:
    """A template of the package: `templates/<use>.jinja`. It writes headings and items as the files of these names."""

    def __init__(self, environment: Environment, use: str) -> None:
        self._heading = environment.get_template("heading.jinja")
        self._item = environment.get_template("item.jinja")
        self._whole = environment.get_template(f"{use}.jinja")

    def heading(self, kind: KnowledgeType) -> str:
        return self._heading.render(group=Group(kind.value, ()))

    def block(self, item: ContextItem) -> str:
        return self._item.render(item=item)

    def write(self, packed: Packed) -> str:
        groups = [Group(group.type.value, group.items) for group in packed.groups]
        left = Left.of(packed.omitted.over_budget, packed.omitted.alike)
        return self._whole.render(groups=groups, omitted=left).rstrip("\n")


@dataclass(frozen=True, slots=True)
class JinjaTemplates:
    """Writes with Jinja: with templates of the package here, with those of callers in processes of their own."""

    program: TemplateProgram = field(default_factory=TemplateProgram)
    environment: Environment = field(default_factory=_environment)

    def built_in(self, use: str) -> BuiltInTemplate:
        return BuiltInTemplate(self.environment, use)

    @contextmanager
    def own(self, template: str, query: str, scope: str) -> Iterator[ContextWriter]:
        with self.program.opened(Opening(template=template, query=query, scope=scope)) as process:
            yield process
