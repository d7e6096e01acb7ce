"""Templates of callers, in processes of their own. What is hostile here is bounded by its own numbers too."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillbus.contracts.retriever.knowledge_search import BuildContext
from skillbus.retriever.adapters.template_built_in import JinjaTemplates
from skillbus.retriever.adapters.template_process import TemplateProgram
from skillbus.retriever.domain.context.builder import Written, write_context
from skillbus.retriever.domain.context.token_count import UpperBound
from skillbus.retriever.domain.errors import RetrieverError, TemplateRefusedError

from .context_items import RULE, distinct, hit, id_of

LISTED = (
    "{% for group in groups %}{% for item in group.items %}{{ item.id }} {{ item.content }}\n{% endfor %}{% endfor %}"
)


def written(template: str, budget: int = 100_000, count: int = 3, program: TemplateProgram | None = None) -> Written:
    request = BuildContext(query="which header?", scope="/api/*", budget_tokens=budget, template=template)
    templates = JinjaTemplates(program or TemplateProgram())
    return write_context(request, distinct(count), UpperBound(), templates)


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    before = children()
    yield
    assert children() == before


def children() -> list[str]:
    """Processes that this one started and that are still there."""
    return [thread.read_text() for thread in Path("/proc/self/task").glob("*/children") if thread.read_text()]


def test_a_template_gets_query_scope_groups_and_what_was_left_out() -> None:
    template = (
        "{{ query }} {{ scope }} {{ omitted }} {{ omitted.over_budget + omitted.alike }}\n"
        "{% for group in groups %}{{ group.type }} {{ group.type | in_chinese }}\n"
        "{% for item in group.items %}"
        "{{ item.id }} {{ item.version }} {{ item.title | one_line }} {{ item.priority }} {{ item.cut }}\n"
        "{{ item | quoted }}"
        "{% endfor %}{% endfor %}"
    )
    request = BuildContext(query="which header?", scope="/api/*", template=template)
    text = write_context(request, [hit(1), hit(2, score=0.4)], UpperBound(), JinjaTemplates()).text
    assert text == f"which header? /api/* 1 1\nbusiness_rule 业务规则\n{id_of(1)} 3 规则 1 5 False\n> {RULE}"


def test_filters_that_need_more_of_python_find_it_though_nothing_can_be_opened() -> None:
    template = (
        "{{ '<b>a &amp; b</b>' | striptags }}{{ {'a': 1} | tojson }}{{ 'a b' | urlencode }}{{ 'a b' | wordwrap(1) }}"
    )
    assert written(template, count=0).text == 'a & b{"a": 1}a%20ba\nb'


@pytest.mark.parametrize("budget", [300, 700, 2_000, 20_000])
def test_whatever_a_template_writes_its_text_is_within_the_budget(budget: int) -> None:
    context = written("{{ query * 3 }}\n" + 3 * LISTED, budget, 40)
    assert UpperBound().count(context.text) == context.tokens <= budget
    assert all(context.text.count(item.id) == 3 for item in context.packed.items)
    assert len(context.packed.items) + context.packed.omitted.over_budget == 40


def test_a_template_that_is_over_the_budget_by_itself_is_refused() -> None:
    with pytest.raises(TemplateRefusedError, match="over the budget of 100 tokens without any item"):
        written("x" * 101 + LISTED, 100)


def test_a_template_may_say_that_there_is_nothing() -> None:
    assert written("{% if not groups %}nothing{% endif %}", count=0).text == "nothing"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for %}", r"Expected .* \(line 1\)"),
        ("\n{{ nothing.here }}", r"'nothing' is undefined \(line 2\)"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ missing() }}", "'missing' is undefined"),
        ("{{ groups.append }}", "unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ ''.join }}", "is a function"),
        ("{{ ['a'] | map('upper') }}", r"add \| join or \| list"),
        ("{{ query | attr('__class__') }}", "unsafe"),
        ("{{ '{0.__class__}'.format(query) }}", "unsafe"),
        ("{{ cycler.__init__.__globals__ }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{% import 'os' as os %}", "no loader"),
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "RecursionError"),
        ("{{ range(10 ** 7) | list }}", "Range too big"),
        ("{{ 'a' * 10 ** 10 }}", "MemoryError"),
        ("{{ '%099999999999d' | format(1) }}", "MemoryError|OverflowError|ValueError"),
        ("{{ [1, 2] | random }}", "No filter named 'random'"),
        ("{{ lipsum() }}", "'lipsum' is undefined"),
        (r"{{ '\ud800' }}", "surrogates not allowed"),
        (r"{{ groups['\ud800'] }}", "has no attribute"),
    ],
)
def test_a_template_that_goes_wrong_is_refused_and_says_why(template: str, said: str) -> None:
    with pytest.raises(TemplateRefusedError, match=said) as refused:
        written(template)
    assert len(str(refused.value)) < 500
    assert sys.prefix not in str(refused.value)


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 9 ** (9 ** 9) }}",
        "{% set x = namespace(s='a') %}{% for a in range(99999) %}{% set x.s = (x.s ~ x.s)[:99999] %}{% endfor %}",
        # not in the text without items
        "{% if groups %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}",
    ],
)
def test_a_template_that_does_not_end_is_ended(template: str) -> None:
    begun = time.monotonic()
    with pytest.raises(TemplateRefusedError, match="longer than a second"):
        written(template)
    assert time.monotonic() - begun < 5


def test_a_template_that_writes_without_end_is_over_any_budget() -> None:
    with pytest.raises(TemplateRefusedError, match="over the budget"):
        written("{% for a in range(99999) %}{{ 'many characters' * 100 }}{% endfor %}", 1_000_000)


def test_a_process_that_dies_or_babbles_is_a_template_that_is_refused() -> None:
    ready = "import os, sys; os.write(1, b'\\2\\0\\0\\0{}'); sys.stdin.buffer.read(1); "
    for does in ("os.kill(os.getpid(), 9)", "os.write(1, b'\\xff\\xff\\xff\\x7f')", "os.write(1, b'\\9\\0\\0\\0{}')"):
        with pytest.raises(TemplateRefusedError, match="broke the process"):
            written(LISTED, program=TemplateProgram(("-c", ready + does)))


def test_a_process_that_does_not_start_is_no_fault_of_the_template() -> None:
    with pytest.raises(RetrieverError, match="did not start") as failed:
        written(LISTED, program=TemplateProgram(("-c", "raise SystemExit(3)")))
    assert not isinstance(failed.value, TemplateRefusedError)


def test_a_template_that_got_out_of_the_sandbox_would_find_nothing_and_could_open_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SKILLBUS_SECRET", "hunter2")
    probe = """
import os, socket, sys
from skillbus.retriever.adapters import template_child as child

def tried(work):
    try:
        return str(work())
    except OSError as error:
        return type(error).__name__

child._limit()
told = [*os.environ, os.getcwd(), tried(lambda: open("/etc/passwd")), tried(socket.socket), tried(os.pipe)]
for answer in ({}, {"error": "; ".join(told)}):
    child._send(sys.stdout.buffer, answer)
sys.stdin.buffer.read()
"""
    with pytest.raises(TemplateRefusedError, match=r"; /; OSError; OSError; OSError$") as refused:
        written(LISTED, program=TemplateProgram(("-c", probe)))
    assert "SKILLBUS" not in str(refused.value)
