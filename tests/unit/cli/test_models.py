import json
import signal

import pytest
from rich.console import Console

from skillbus.cli.client.connection import Remote, open_connection
from skillbus.cli.errors import SwitchNotBegunError
from skillbus.cli.models.switch_follower import follow_switch
from skillbus.cli.output import CommandOutput, open_output
from skillbus.contracts.errors import ErrorCode

from .conftest import CommandLine
from .fake_models import STILL, FakeModels, model_record, provider_record, step
from .fake_server import problem

SECRET = "sk-" + "a1b2c3d4" * 5
CHANGE = [STILL, step("building"), step("backfilling", 4), step("verifying", 10), step("kept", 10)]


@pytest.fixture
def server() -> FakeModels:
    return FakeModels()


def test_providers_are_a_table_that_shows_where_keys_are(skillbus: CommandLine, server: FakeModels) -> None:
    shown = skillbus("providers", "list", externals=server.externals()).stdout
    for cell in ("remote", "openai", "env:KEY", "10 s", "yes"):
        assert cell in shown


def test_a_provider_is_added_with_what_is_named_and_nothing_else(skillbus: CommandLine, server: FakeModels) -> None:
    words = ["--kind", "openai", "--base-url", "https://models.example/v1/", "--api-key", "env:KEY", "--timeout", "5"]
    result = skillbus("providers", "add", "mine", *words, externals=server.externals())
    assert result.exit_code == 0, result.output
    assert server.requests == [
        (
            "POST",
            "/api/embedding/providers",
            {
                "name": "mine",
                "kind": "openai",
                "base_url": "https://models.example/v1",
                "api_key": "env:KEY",
                "timeout_s": 5.0,
            },
        )
    ]


def test_a_provider_is_changed_by_what_is_named_and_an_empty_text_clears(
    skillbus: CommandLine, server: FakeModels
) -> None:
    result = skillbus("providers", "update", "remote", "--api-key", "", "--disable", externals=server.externals())
    assert result.exit_code == 0, result.output
    assert server.requests == [("PATCH", "/api/embedding/providers/remote", {"api_key": "", "enabled": False})]


@pytest.mark.parametrize("words", [["add", "mine", "--kind", "openai"], ["update", "mine"]])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_key_in_place_of_a_reference_is_never_sent_and_never_shown(
    skillbus: CommandLine, server: FakeModels, words: list[str], as_json: list[str]
) -> None:
    result = skillbus("providers", *words, "--api-key", SECRET, *as_json, externals=server.externals())
    assert result.exit_code == 2
    assert SECRET not in result.output
    assert "--api-key" in result.stderr
    assert "env:NAME" in result.stderr
    assert server.requests == []


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("NAME", ["providers", "add", "Upper", "--kind", "openai"]),
        ("--kind", ["providers", "add", "mine", "--kind", "telepathy"]),
        ("--base-url", ["providers", "update", "mine", "--base-url", "https://user:pw@models.example"]),
        ("--timeout", ["providers", "update", "mine", "--timeout", "0"]),
        ("--concurrency", ["providers", "update", "mine", "--concurrency", "65"]),
        ("--batch-texts", ["providers", "update", "mine", "--batch-texts", "0"]),
        ("PROVIDER", ["models", "add", "Upper", "m"]),
        ("NAME", ["models", "add", "local", "a b"]),
        ("--dimensions", ["models", "add", "local", "m", "--dimensions", "0"]),
        ("--priority", ["models", "update", "m", "--priority", "-1"]),
        ("--yes", ["models", "remove", "m"]),
        ("--yes", ["providers", "remove", "m"]),
    ],
)
def test_wrong_usage_names_the_option_and_asks_nobody(
    skillbus: CommandLine, server: FakeModels, option: str, words: list[str]
) -> None:
    result = skillbus(*words, externals=server.externals())
    assert result.exit_code == 2
    assert option in result.stderr
    assert "pw@" not in result.stderr
    assert server.requests == []


def test_a_provider_that_works_says_with_what(skillbus: CommandLine, server: FakeModels) -> None:
    result = skillbus("providers", "test", "remote", externals=server.externals())
    assert (result.exit_code, result.stdout) == (0, "remote works with m: 8 dimensions in 12 ms\n")


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_provider_that_does_not_work_is_exit_1_with_its_reason(
    skillbus: CommandLine, server: FakeModels, as_json: list[str]
) -> None:
    server.tested = {"ok": False, "model": None, "took_ms": 1, "error": "401: set KEY"}
    result = skillbus("providers", "test", "remote", "--model", "a/b", *as_json, externals=server.externals())
    assert result.exit_code == 1
    assert "401: set KEY" in result.stdout
    assert server.requests[0][2] == {"model": "a/b"}


def test_providers_and_models_are_removed_by_name(skillbus: CommandLine, server: FakeModels) -> None:
    provider = skillbus("providers", "remove", "remote", "--yes", externals=server.externals())
    model = skillbus("models", "remove", "local/BAAI/bge-m3", "-y", "--json", externals=server.externals())
    assert (provider.exit_code, provider.stdout) == (0, "remote: removed\n")
    assert json.loads(model.stdout) == {"name": "local/BAAI/bge-m3", "outcome": "removed"}
    assert [path for _, path, _ in server.requests] == [
        "/api/embedding/providers/remote",
        "/api/embedding/models/local/BAAI/bge-m3",
    ]


def test_models_are_a_table_or_the_reply(skillbus: CommandLine, server: FakeModels) -> None:
    server.models = [model_record("a/b", is_default=True), model_record("c", dimensions=None, fingerprint=None)]
    shown = skillbus("models", "list", externals=server.externals()).stdout
    listed = skillbus("models", "list", "--json", externals=server.externals()).stdout
    for cell in ("a/b", "local", "512", "f-a/b", "100"):
        assert cell in shown
    assert [model["name"] for model in json.loads(listed)["models"]] == ["a/b", "c"]


def test_a_model_is_added_and_changed_by_what_is_named(skillbus: CommandLine, server: FakeModels) -> None:
    added = skillbus(
        "models",
        "add",
        "local",
        "minilm",
        "--runtime",
        "onnx",
        "--path",
        "minilm",
        "--default",
        externals=server.externals(),
    )
    changed = skillbus(
        "models", "update", "local/new", "--query-prefix", "query: ", "--enable", externals=server.externals()
    )
    assert (added.exit_code, changed.exit_code) == (0, 0), added.output + changed.output
    assert [body for _, _, body in server.requests] == [
        {"provider": "local", "name": "minilm", "runtime": "onnx", "path": "minilm", "is_default": True},
        {"query_prefix": "query: ", "enabled": True},
    ]


CHAT_TESTED = {"ok": True, "provider": "ollama", "model": "qwen3:8b", "kind": "chat", "took_ms": 120.4}


def test_a_new_chat_model_is_asked_once_and_kept_if_it_does_not_answer(
    skillbus: CommandLine, server: FakeModels
) -> None:
    words = ["models", "add", "ollama", "qwen3:8b", "--chat"]
    server.tested = CHAT_TESTED
    added = skillbus(*words, externals=server.externals())
    assert added.exit_code == 0, added.output
    assert "qwen3:8b of ollama works: an answer in 120 ms" in added.stdout
    assert server.requests[-1][:2] == ("POST", f"/api/embedding/models/{'qwen3:8b'.ljust(32, '0')}/test")
    server.tested = CHAT_TESTED | {"ok": False, "error": "401: set the key"}
    failed = skillbus(*words, externals=server.externals())
    assert failed.exit_code == 1
    assert "401: set the key" in failed.stdout
    assert "models remove ollama/qwen3:8b" in failed.stderr
    document = json.loads(skillbus(*words, "--json", externals=server.externals()).stdout)
    assert (document["name"], document["test"]["ok"]) == ("qwen3:8b", False)


@pytest.mark.parametrize(("ok", "code", "says"), [(True, 0, "an answer in 120 ms"), (False, 1, "does not work: 401")])
def test_a_test_call_says_whether_the_model_works(
    skillbus: CommandLine, server: FakeModels, ok: bool, code: int, says: str
) -> None:
    server.tested = CHAT_TESTED | {"ok": ok, "error": None if ok else "401"}
    result = skillbus("models", "test", "ollama/qwen3:8b", externals=server.externals())
    assert result.exit_code == code
    assert says in result.stdout
    assert server.requests == [("POST", "/api/embedding/models/ollama/qwen3:8b/test", {})]


def test_a_chat_model_is_added_and_shown_with_its_kind(skillbus: CommandLine, server: FakeModels) -> None:
    words = ["models", "add", "ollama", "qwen3:8b", "--chat", "--default", "--no-test"]
    added = skillbus(*words, externals=server.externals())
    assert (added.exit_code, server.requests) == (
        0,
        [
            (
                "POST",
                "/api/embedding/models",
                {"provider": "ollama", "name": "qwen3:8b", "kind": "chat", "is_default": True},
            )
        ],
    ), added.output
    server.models = [model_record("old", is_default=True), model_record("gpt", kind="chat", fingerprint=None)]
    shown = skillbus("models", "list", externals=server.externals()).stdout
    for cell in ("kind", "embedding", "chat", "gpt"):
        assert cell in shown


def test_a_new_default_chat_model_switches_no_index(skillbus: CommandLine, server: FakeModels) -> None:
    server.models = [model_record("gpt", kind="chat", fingerprint=None, dimensions=None)]
    result = skillbus("models", "default", "gpt", externals=server.externals())
    assert result.exit_code == 0, result.output
    assert "gpt of local is the default chat model." in result.stdout
    assert server.requests == [("PATCH", "/api/embedding/models/gpt", {"is_default": True})]


@pytest.mark.parametrize("kind", ["anthropic", "gemini", "ollama", "openai", "dashscope"])
def test_every_kind_of_provider_can_be_added(skillbus: CommandLine, server: FakeModels, kind: str) -> None:
    result = skillbus("providers", "add", "mine", "--kind", kind, externals=server.externals())
    assert result.exit_code == 0, result.output
    assert server.requests[0][2] == {"name": "mine", "kind": kind}
    assert "--chat" in result.output


def test_a_model_that_is_not_there_is_said(skillbus: CommandLine, server: FakeModels) -> None:
    result = skillbus("models", "default", "nothing", externals=server.externals())
    assert result.exit_code == 1
    assert "no model 'nothing' is registered" in result.stderr


def test_the_default_model_is_shown(skillbus: CommandLine, server: FakeModels) -> None:
    result = skillbus("models", "default", "--json", externals=server.externals())
    assert json.loads(result.stdout)["name"] == "old"
    assert len(server.requests) == 1


def test_a_new_default_is_followed_until_it_is_searched(skillbus: CommandLine, server: FakeModels) -> None:
    server.steps = list(CHANGE)
    result = skillbus("models", "default", "new", externals=server.externals())
    assert result.exit_code == 0, result.output
    assert "new of local is the default model." in result.stdout
    assert "kept: old → new, 10 of 10" in result.stdout
    assert result.stderr.splitlines() == [
        "tools: building with new, 0 of 10",
        "tools: backfilling with new, 4 of 10",
        "tools: verifying with new, 10 of 10",
        "tools: kept with new, 10 of 10",
    ]


def test_an_index_that_was_never_made_is_not_waited_for(skillbus: CommandLine, server: FakeModels) -> None:
    server.steps, server.others = list(CHANGE), [{"alias": "knowledge", "live": None, "switch": None}]
    assert skillbus("models", "default", "new", externals=server.externals()).exit_code == 0


def test_a_new_default_in_json_is_one_document_at_the_end(skillbus: CommandLine, server: FakeModels) -> None:
    server.steps = list(CHANGE)
    result = skillbus("models", "default", "new", "--json", externals=server.externals())
    document = json.loads(result.stdout)
    assert (document["model"]["name"], document["indexes"][0]["switch"]["phase"]) == ("new", "kept")
    assert result.stderr == ""


def test_a_new_default_need_not_be_followed(skillbus: CommandLine, server: FakeModels) -> None:
    result = skillbus("models", "default", "new", "--no-follow", externals=server.externals())
    assert result.exit_code == 0
    assert "skillbus index list" in result.stdout
    assert server.requests == [("PATCH", "/api/embedding/models/new", {"is_default": True})]


def test_following_outlives_services_that_restart(skillbus: CommandLine, server: FakeModels) -> None:
    away = problem(ErrorCode.UNAVAILABLE, "No indexer is running to answer list_indexes.")
    server.steps = [step("backfilling", 4), away, step("kept", 10)]
    result = skillbus("models", "default", "new", externals=server.externals())
    assert result.exit_code == 0, result.output


def test_following_ends_when_the_server_refuses(skillbus: CommandLine, server: FakeModels) -> None:
    server.steps = [problem(ErrorCode.FORBIDDEN, "Not with this key.")]
    result = skillbus("models", "default", "new", externals=server.externals())
    assert result.exit_code == 1
    assert "Not with this key." in result.stderr


def test_a_change_that_is_rolled_back_meanwhile_is_exit_1(skillbus: CommandLine, server: FakeModels) -> None:
    server.steps = [step("backfilling", 4), step("rolled_back", 4)]
    result = skillbus("models", "default", "new", "--json", externals=server.externals())
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "switch_rolled_back"


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_ctrl_c_leaves_the_change_running_and_says_so(
    skillbus: CommandLine, server: FakeModels, as_json: list[str]
) -> None:
    server.steps = [step("backfilling", 4)]
    server.on_listing = lambda: signal.raise_signal(signal.SIGINT)
    result = skillbus("models", "default", "new", *as_json, externals=server.externals())
    said = result.stdout if as_json else result.stderr
    assert result.exit_code == 1
    assert "The switch continues" in said
    assert "Traceback" not in result.output
    assert [method for method, _, _ in server.requests] == ["PATCH", "GET"]


async def test_a_change_that_does_not_begin_is_not_waited_for_for_ever(server: FakeModels) -> None:
    transport = server.externals().transport
    async with open_connection(Remote("http://x"), transport) as connection:
        with pytest.raises(SwitchNotBegunError, match="tools"):
            await follow_switch(connection, open_output(as_json=True), "f-new", patience_s=0)


def test_an_index_is_switched_and_followed(skillbus: CommandLine, server: FakeModels) -> None:
    server.steps = [step("building"), step("backfilling", 4), step("done", 10)]
    result = skillbus("index", "switch", externals=server.externals())
    assert result.exit_code == 0, result.output
    assert "done: old → new" in result.stdout
    assert server.requests[0][:2] == ("POST", "/api/indexes/tools/switch")


def test_an_index_that_is_there_already_is_not_followed(skillbus: CommandLine, server: FakeModels) -> None:
    server.steps = [step("rolled_back", 4)]
    result = skillbus("index", "switch", externals=server.externals())
    assert result.exit_code == 0
    assert len(server.requests) == 1


def test_an_index_is_rolled_back(skillbus: CommandLine, server: FakeModels) -> None:
    server.steps = [step("rolled_back", 4, problem="[red]disk full[/red]\x1b[0m")]
    result = skillbus("index", "rollback", "tools", externals=server.externals())
    assert result.exit_code == 0
    assert "rolled_back: old → new, 4 of 10; it waits: [red]disk full[/red]" in result.stdout
    assert "\x1b" not in result.stdout
    assert server.requests[0][:2] == ("POST", "/api/indexes/tools/rollback")


def test_the_state_of_indexes_says_until_when_the_old_one_is_kept(skillbus: CommandLine, server: FakeModels) -> None:
    server.steps = [step("kept", 10, kept_until="2026-01-02T03:04:05Z")]
    shown = skillbus("index", "list", externals=server.externals()).stdout
    for cell in ("tools", "tools_new", "kept until 2026-01-02 03:04 UTC"):
        assert cell in shown


def test_on_a_terminal_there_is_a_bar_that_goes_away() -> None:
    console = Console(force_terminal=True, width=80, color_system=None)
    with console.capture() as captured, CommandOutput(as_json=False, out=console, err=console).show_steps() as show:
        show("tools", "backfilling", 4, 10)
        show("tools", "verifying", 10, 10)
    assert "tools" in captured.get()
    assert "10/10" in captured.get()


def test_models_belong_to_no_project(skillbus: CommandLine, server: FakeModels) -> None:
    assert skillbus("models", "list", "--project", "a", externals=server.externals()).exit_code == 2
    assert server.requests == []


def test_an_unknown_kind_in_an_answer_is_a_strange_reply(skillbus: CommandLine, server: FakeModels) -> None:
    server.providers = [provider_record("remote", kind="telepathy")]
    result = skillbus("providers", "list", externals=server.externals())
    assert result.exit_code == 1
    assert "kind" in result.stderr
