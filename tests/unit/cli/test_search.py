import io
import json

import pytest
from rich.cells import cell_len
from rich.console import Console

from skillbus.cli.tools.view import render_hits
from skillbus.contracts.retriever.tool_search import ToolsFound

from .conftest import CommandLine
from .fake_server import FakeServer, Json, hit


def test_hits_come_as_a_table(skillbus: CommandLine, server: FakeServer) -> None:
    server.hits = [hit("git-commit")]

    result = skillbus("search", "帮我提交代码")

    assert result.exit_code == 0
    for cell in ("git-commit", "skill", "0.87", "自动分析", "use-multilingual"):
        assert cell in result.stdout


def test_tools_of_one_name_are_told_apart_by_the_id_that_they_are_called_by(
    skillbus: CommandLine, server: FakeServer
) -> None:
    server.hits = [hit("search", id=f"mcp:{of}/search", tool_type="mcp") for of in ("files", "web")]

    shown = skillbus("search", "查找").stdout

    assert "mcp:files/search" in shown
    assert "mcp:web/search" in shown


def test_what_is_asked_reaches_the_server(skillbus: CommandLine, server: FakeServer) -> None:
    words = ["--limit", "3", "--threshold", "0.4", "--type", "skill", "--type", "mcp", "--tag", "git", "--project", "a"]

    assert skillbus("search", "提交", *words, "--source", "mcp:git", "--explain").exit_code == 0

    assert server.body() == {
        "query": "提交",
        "limit": 3,
        "threshold": 0.4,
        "tool_types": ["skill", "mcp"],
        "tags": ["git"],
        "sources": ["mcp:git"],
        "explain": True,
        "project": "a",
    }


def test_what_is_not_said_is_left_to_the_server(skillbus: CommandLine, server: FakeServer) -> None:
    assert skillbus("search", "提交").exit_code == 0
    assert server.body() == {"query": "提交", "limit": 5}


def test_explain_shows_the_reasons(skillbus: CommandLine, server: FakeServer) -> None:
    server.hits = [hit("git-commit")]

    assert "BM25 3.50" not in skillbus("search", "提交").stdout
    explained = skillbus("search", "提交", "--explain").stdout
    assert "BM25 3.50" in explained
    assert "cosine 0.620" in explained


def test_explain_shows_what_the_search_did_also_when_nothing_fits() -> None:
    stages = [{"name": "embed", "took_ms": 1.26, "candidates": 0}, {"name": "rank", "took_ms": 0.5, "candidates": 64}]
    how: Json = {
        "stages": stages,
        "threshold": 0.35,
        "below_threshold": 7,
        "best_score": 0.21,
        "terms": ["吉他", "guitar"],
    }
    found: Json = {"results": [], "took_ms": 3.2, "split": ["弹吉他", "查天气"], "explanation": how}
    stream = io.StringIO()
    shown = render_hits(ToolsFound.model_validate_json(json.dumps(found)), explain=True)
    Console(file=stream, width=200, color_system=None).print(shown)
    for said in (
        "Nothing fits",
        "0.35, 7 candidates below it; best score 0.21",
        "embed 1.3 ms, rank 0.5 ms (64 tools)",
    ):
        assert said in stream.getvalue()
    for said in ("弹吉他 | 查天气", "吉他, guitar"):
        assert said in stream.getvalue()


def test_the_cosine_is_told_once(skillbus: CommandLine, server: FakeServer) -> None:
    server.hits = [hit("git-commit", reasons=[{"side": "dense", "rank": 2, "score": 0.62}])]
    shown = skillbus("search", "提交", "--explain").stdout
    assert "dense #2, cosine 0.620" in shown
    assert shown.count("cosine") == 1


def test_a_reason_says_which_parts_hold_the_words(skillbus: CommandLine, server: FakeServer) -> None:
    reason = {"side": "lexical", "rank": 1, "score": 3.5, "terms": ["提交"], "parts": ["name", "examples"]}
    server.hits = [hit("git-commit", reasons=[reason])]
    assert "BM25 3.50: 提交 in name, examples" in skillbus("search", "提交", "--explain").stdout


def test_json_is_the_reply_and_nothing_else(skillbus: CommandLine, server: FakeServer) -> None:
    server.hits = [hit("git-commit")]

    result = skillbus("search", "提交", "--json")

    assert json.loads(result.stdout)["results"][0]["description"] == "自动分析 Git 改动并生成提交信息"
    assert "自动分析" in result.stdout
    assert result.stderr == ""


def test_nothing_found_is_an_answer(skillbus: CommandLine) -> None:
    result = skillbus("search", "弹吉他")

    assert result.exit_code == 0
    assert "Nothing fits" in result.stdout


@pytest.mark.parametrize(
    "words", [["--limit", "0"], ["--limit", "101"], ["--threshold", "1.5"], ["--type", "robot"], ["--url", "nowhere"]]
)
def test_wrong_usage_exits_with_2_and_asks_nobody(skillbus: CommandLine, server: FakeServer, words: list[str]) -> None:
    result = skillbus("search", "提交", *words)

    assert result.exit_code == 2
    assert server.requests == []


def on_a_terminal(hits: list[Json], width: int) -> str:
    """The hits as they are printed where lines have so many cells."""
    found = {"results": hits, "degraded": None, "model": "m", "took_ms": 3.2}
    stream = io.StringIO()
    table = render_hits(ToolsFound.model_validate_json(json.dumps(found)), explain=False)
    Console(file=stream, width=width, color_system=None).print(table)
    return stream.getvalue()


def test_an_id_is_on_one_line_where_the_others_can_be_wrapped() -> None:
    name = "a-skill-with-a-long-name-" + "x" * 12
    lines = on_a_terminal([hit(name, description="生成提交信息 " * 20)], 80).splitlines()
    assert sum(f"skill:{name} " in line for line in lines) == 1
    assert max(map(cell_len, lines)) <= 80


def test_wide_characters_are_aligned_and_no_line_is_wider_than_the_terminal() -> None:
    hits = [hit("git-commit", description="提" * 60), hit("字数", description="counts 字数")]

    lines = on_a_terminal(hits, 100).splitlines()

    def cells_before(word: str) -> set[int]:
        return {cell_len(line[: line.index(word)]) for line in lines if word in line}

    assert len(cells_before("description") | cells_before("提") | cells_before("counts")) == 1
    assert max(map(cell_len, lines)) <= 100
    (cut,) = [line for line in lines if "提" in line]
    assert cut.rstrip().endswith("提…")


def test_a_description_is_cut_so_that_each_hit_is_one_line() -> None:
    lines = on_a_terminal([hit("one", description="long " * 40), hit("two", description="short")], 80).splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["skill:one", "skill:two"]
    assert lines[2].rstrip().endswith("…")


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ([0.9, 0.8], "2 hits by m"),
        ([0.9, 0.1], "2 hits, 1 likely to fit, by m"),
        ([0.3, 0.1], "No tool fits well: the best score is 0.30, under 0.5."),
    ],
)
def test_a_search_says_how_many_hits_are_likely_to_fit(scores: list[float], says: str) -> None:
    assert says in on_a_terminal([hit(f"tool-{score}", score=score) for score in scores], 100)


@pytest.mark.parametrize("width", [24, 33, 40, 41, 200])
def test_no_terminal_is_too_narrow_for_a_whole_description(width: int) -> None:
    shown = on_a_terminal([hit("excel", description="自动分析Git改动并生成提交信息")], width)

    assert max(map(cell_len, shown.splitlines())) <= width
    assert "".join(char for char in shown if "一" <= char <= "龥") == "自动分析改动并生成提交信息"


def test_a_table_in_a_pipe_has_no_blanks_at_line_ends_and_obeys_columns(
    skillbus: CommandLine, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.hits = [hit("git-commit", description="word " * 30), hit("other", description="短")]
    for columns in (None, "60"):
        if columns:
            monkeypatch.setenv("COLUMNS", columns)
        lines = skillbus("search", "提交").stdout.splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
        assert max(map(cell_len, lines)) <= int(columns or 130)


def test_a_hit_is_one_line_where_there_is_no_terminal(skillbus: CommandLine, server: FakeServer) -> None:
    server.hits = [hit("git-commit", description="word " * 30 + "end"), hit("other")]

    _heading, _rule, first, second, _how = skillbus("search", "提交", "--explain").stdout.splitlines()

    for said in ("git-commit", "word…", "cosine 0.620", "BM25 3.50: 提交"):
        assert said in first
    assert second.startswith("skill:other ")


def test_markup_and_escape_sequences_of_a_description_stay_text(skillbus: CommandLine, server: FakeServer) -> None:
    server.hits = [hit("git-commit", description="[red]x[/red] \x1b[31mred\x1b[0m \u202eevil")]

    result = skillbus("search", "提交")

    assert "[red]x[/red]" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
