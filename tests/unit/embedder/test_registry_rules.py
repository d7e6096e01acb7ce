"""What may be registered, and what may not."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from skillbus.contracts.embedder.registry import (
    Calibration,
    CreateModel,
    CreateProvider,
    ModelKind,
    ProviderKind,
    UpdateModel,
    UpdateProvider,
)
from skillbus.contracts.errors import ErrorCode
from skillbus.embedder.domain.errors import ModelUnknownError, RegistryError
from skillbus.embedder.domain.registry import rules
from skillbus.embedder.domain.registry.errors import (
    DefaultInUseError,
    FieldNotAllowedError,
    KeyNotGivenAgainError,
    NameTakenError,
    NotFitForDefaultError,
    ProviderInUseError,
    ProviderUnknownError,
)
from skillbus.embedder.domain.registry.ports import Records

NOW = datetime(2025, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def with_provider(records: Records, name: str, kind: ProviderKind = ProviderKind.OPENAI, **more: object) -> Records:
    request = CreateProvider.model_validate({"name": name, "kind": kind, **more})
    return rules.add_provider(records, request, rules.RecordIdentity("", NOW))


def with_model(records: Records, provider: str, name: str, **more: object) -> Records:
    request = CreateModel.model_validate({"provider": provider, "name": name, **more})
    return rules.add_model(records, request, rules.RecordIdentity(f"{provider}/{name}".encode().hex()[:32], NOW))


def change_model(records: Records, reference: str, **changes: object) -> Records:
    return rules.update_model(records, UpdateModel.model_validate({"id": reference, **changes}), LATER)


def change_provider(records: Records, name: str, **changes: object) -> Records:
    return rules.update_provider(records, UpdateProvider.model_validate({"name": name, **changes}), LATER)


def default_of(records: Records) -> list[str]:
    return [model.name for model in records.models if model.is_default]


@pytest.fixture
def records() -> Records:
    """The local default, and a model of a provider over HTTP."""
    local = rules.ensure_default(Records(1), rules.RecordIdentity("0" * 32, NOW))
    return with_model(with_provider(local, "openai"), "openai", "text-embedding-3-small", dimensions=1536)


@pytest.mark.spec("skill-vector-retrieval.md § Embedding模型配置不存在时的降级")
def test_where_nothing_is_registered_a_local_default_is_made() -> None:
    """skill-vector-retrieval.md § Embedding模型配置不存在时的降级"""
    records = rules.ensure_default(Records(0), rules.RecordIdentity("0" * 32, NOW))
    (provider,), (model,) = records.providers, records.models
    assert (provider.name, provider.kind, provider.enabled) == ("local", ProviderKind.LOCAL, True)
    assert (model.provider, model.name, model.is_default, model.enabled) == ("local", "use-multilingual-v3", True, True)


def test_a_default_that_is_there_stays(records: Records) -> None:
    assert rules.ensure_default(records, rules.RecordIdentity("1" * 32, LATER)) is records


def test_the_local_provider_that_is_there_gets_the_default_also_if_it_was_disabled() -> None:
    """skill-vector-retrieval.md § Embedding模型配置不存在时的降级"""
    before = with_provider(Records(0), "here", ProviderKind.LOCAL, enabled=False)
    records = rules.ensure_default(before, rules.RecordIdentity("0" * 32, NOW))
    assert [(one.name, one.enabled) for one in records.providers] == [("here", True)]
    assert records.models[0].provider == "here"


def test_a_default_is_made_although_another_kind_of_provider_is_called_local() -> None:
    records = rules.ensure_default(with_provider(Records(0), "local"), rules.RecordIdentity("0" * 32, NOW))
    assert [one.name for one in records.providers] == ["local", "local-2"]
    assert records.models[0].provider == "local-2"


def test_a_new_default_takes_the_place_of_the_old_one_which_stays_registered(records: Records) -> None:
    """skill-vector-retrieval.md § 运行时切换Embedding模型"""
    after = change_model(records, "text-embedding-3-small", is_default=True)
    assert default_of(after) == ["text-embedding-3-small"]
    old = rules.get_model(after, "use-multilingual-v3")
    assert (old.enabled, old.is_default, old.version, old.updated_at) == (True, False, 2, LATER)
    created = with_model(records, "openai", "another", is_default=True)
    assert default_of(created) == ["another"]


def test_a_change_raises_the_version_and_what_is_not_said_stays() -> None:
    records = with_provider(Records(0), "openai", base_url="https://one.example/v1/", api_key="env:KEY", timeout_s=3)
    changed = rules.get_provider(change_provider(records, "openai", timeout_s=5.0, api_key=None), "openai")
    assert (changed.version, changed.updated_at, changed.created_at) == (2, LATER, NOW)
    assert (changed.base_url, changed.api_key, changed.timeout_s) == ("https://one.example/v1", "env:KEY", 5.0)


@pytest.mark.parametrize("base_url", ["https://evil.example/v1", ""])
def test_a_key_does_not_move_to_another_address_unless_it_is_given_again(base_url: str) -> None:
    records = with_provider(Records(0), "openai", base_url="https://one.example/v1", api_key="env:KEY")
    for unsaid in ({}, {"api_key": None}):
        with pytest.raises(KeyNotGivenAgainError, match="api_key") as caught:
            change_provider(records, "openai", base_url=base_url, **unsaid)
        assert caught.value.code is ErrorCode.INVALID_REQUEST
    for key in ("env:KEY", "env:OTHER"):
        moved = rules.get_provider(change_provider(records, "openai", base_url=base_url, api_key=key), "openai")
        assert (moved.base_url, moved.api_key) == (base_url or None, key)
    without = rules.get_provider(change_provider(records, "openai", base_url=base_url, api_key=""), "openai")
    assert (without.base_url, without.api_key) == (base_url or None, None)
    same = change_provider(records, "openai", base_url="https://one.example/v1/", timeout_s=3)
    assert rules.get_provider(same, "openai").api_key == "env:KEY"


def test_a_change_to_what_is_so_already_is_none(records: Records) -> None:
    assert change_provider(records, "openai", enabled=True) is records
    assert change_model(records, "use-multilingual-v3", is_default=True, priority=100) is records


def test_an_empty_text_clears_what_may_be_absent(records: Records) -> None:
    full = with_provider(records, "vllm", base_url="http://gpu:8000/v1", api_key="file:/run/key")
    cleared = rules.get_provider(change_provider(full, "vllm", base_url="", api_key=""), "vllm")
    assert (cleared.base_url, cleared.api_key) == (None, None)
    model = with_model(full, "vllm", "bge-m3", api_path="/embed", query_prefix="query: ")
    kept = rules.get_model(change_model(model, "bge-m3", api_path="", query_prefix=""), "bge-m3")
    assert (kept.api_path, kept.query_prefix) == (None, "")


def test_names_are_given_once(records: Records) -> None:
    with pytest.raises(NameTakenError):
        with_provider(records, "openai", ProviderKind.OLLAMA)
    with pytest.raises(NameTakenError):
        with_model(records, "openai", "text-embedding-3-small")
    assert len(with_model(records, "local", "text-embedding-3-small").models) == 3


def test_what_is_not_there_cannot_be_changed_or_removed(records: Records) -> None:
    with pytest.raises(ProviderUnknownError) as provider:
        change_provider(records, "nobody", enabled=False)
    assert provider.value.code is ErrorCode.NOT_FOUND
    with pytest.raises(ProviderUnknownError):
        rules.delete_provider(records, "nobody")
    with pytest.raises(ProviderUnknownError):
        with_model(records, "nobody", "x")
    with pytest.raises(ModelUnknownError):
        change_model(records, "nothing", priority=1)
    with pytest.raises(ModelUnknownError):
        rules.delete_model(records, "nothing")


def test_a_provider_with_models_is_not_removed_and_the_error_names_them(records: Records) -> None:
    with pytest.raises(ProviderInUseError) as error:
        rules.delete_provider(records, "openai")
    assert "has models: text-embedding-3-small;" in str(error.value)
    assert error.value.code is ErrorCode.CONFLICT
    emptied = rules.delete_model(records, "openai/text-embedding-3-small")
    assert [one.name for one in rules.delete_provider(emptied, "openai").providers] == ["local"]


def test_the_default_and_its_provider_are_neither_removed_nor_disabled(records: Records) -> None:
    with pytest.raises(DefaultInUseError):
        rules.delete_model(records, "use-multilingual-v3")
    for changes in ({"enabled": False}, {"is_default": False}):
        with pytest.raises(DefaultInUseError):
            change_model(records, "use-multilingual-v3", **changes)
    with pytest.raises(DefaultInUseError):
        change_provider(records, "local", enabled=False)


def test_other_models_and_providers_can_be_disabled(records: Records) -> None:
    after = change_provider(change_model(records, "text-embedding-3-small", enabled=False), "openai", enabled=False)
    assert not rules.get_model(after, "text-embedding-3-small").enabled
    assert not rules.get_provider(after, "openai").enabled


def test_a_default_has_to_be_enabled_and_its_provider_too(records: Records) -> None:
    disabled = change_model(records, "text-embedding-3-small", enabled=False)
    with pytest.raises(NotFitForDefaultError):
        change_model(disabled, "text-embedding-3-small", is_default=True)
    assert default_of(change_model(disabled, "text-embedding-3-small", is_default=True, enabled=True)) == [
        "text-embedding-3-small"
    ]
    with pytest.raises(NotFitForDefaultError):
        change_model(change_provider(records, "openai", enabled=False), "text-embedding-3-small", is_default=True)


@pytest.mark.parametrize(
    ("kind", "model"), [(ProviderKind.ANTHROPIC, ModelKind.EMBEDDING), (ProviderKind.LOCAL, ModelKind.CHAT)]
)
def test_a_provider_takes_no_model_of_a_kind_that_it_does_not_offer(kind: ProviderKind, model: ModelKind) -> None:
    registered = with_provider(Records(0), "one", kind)
    with pytest.raises(FieldNotAllowedError, match="kind") as error:
        with_model(registered, "one", "m", kind=model)
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_an_embedding_model_of_anthropic_from_before_stays_and_is_never_the_default(records: Records) -> None:
    chat = with_model(with_provider(records, "anthropic", ProviderKind.ANTHROPIC), "anthropic", "claude", kind="chat")
    *others, claude = chat.models
    old = replace(chat, models=(*others, claude.model_copy(update={"kind": ModelKind.EMBEDDING, "is_default": False})))
    with pytest.raises(NotFitForDefaultError):
        change_model(old, "claude", is_default=True)
    assert not rules.get_model(change_model(old, "claude", enabled=False), "claude").enabled


def test_a_local_provider_has_no_address() -> None:
    with pytest.raises(FieldNotAllowedError) as error:
        with_provider(Records(0), "one", ProviderKind.LOCAL, base_url="https://one.example")
    assert error.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(FieldNotAllowedError):
        change_provider(with_provider(Records(0), "one", ProviderKind.LOCAL), "one", base_url="https://one.example")


@pytest.mark.parametrize("kind", [kind for kind in ProviderKind if kind is not ProviderKind.LOCAL])
def test_the_first_chat_model_is_the_default_of_its_kind_and_that_of_embeddings_stays(
    records: Records, kind: ProviderKind
) -> None:
    chats = with_provider(records, "chats", kind, base_url="https://one.example")
    first = with_model(chats, "chats", "first", kind="chat")
    assert default_of(first) == ["use-multilingual-v3", "first"]
    second = with_model(first, "chats", "second", kind="chat")
    assert default_of(second) == ["use-multilingual-v3", "first"]
    assert default_of(change_model(second, "second", is_default=True)) == ["use-multilingual-v3", "second"]
    third = with_model(second, "chats", "third", kind="chat", is_default=True)
    assert default_of(third) == ["use-multilingual-v3", "third"]
    embedding = change_model(second, "text-embedding-3-small", is_default=True)
    assert default_of(embedding) == ["text-embedding-3-small", "first"]


@pytest.mark.parametrize(
    "field",
    [
        {"dimensions": 8},
        {"request_dimensions": True},
        {"max_chars": 9},
        {"query_prefix": "query: "},
        {"document_prefix": "passage: "},
        {"calibration": {"slope": 1, "lexical": 0, "offset": 0}},
    ],
)
def test_a_chat_model_has_nothing_that_is_about_vectors(records: Records, field: dict[str, object]) -> None:
    with pytest.raises(FieldNotAllowedError, match=next(iter(field))) as error:
        with_model(records, "openai", "gpt", kind="chat", **field)
    assert error.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(FieldNotAllowedError, match=next(iter(field))):
        change_model(with_model(records, "openai", "gpt", kind="chat"), "gpt", **field)


def test_the_default_chat_model_may_be_disabled_and_is_removed_last(records: Records) -> None:
    both = with_model(with_model(records, "openai", "gpt", kind="chat"), "openai", "gpt-mini", kind="chat")
    disabled = change_provider(change_model(both, "gpt", enabled=False), "openai", enabled=False)
    assert rules.get_model(disabled, "gpt").is_default
    with pytest.raises(DefaultInUseError):
        rules.delete_model(both, "gpt")
    with pytest.raises(DefaultInUseError):
        change_model(both, "gpt", is_default=False)
    last = rules.delete_model(both, "gpt-mini")
    assert default_of(rules.delete_model(last, "gpt")) == ["use-multilingual-v3"]


def test_a_chat_model_that_becomes_the_default_has_to_be_enabled(records: Records) -> None:
    both = with_model(with_model(records, "openai", "gpt", kind="chat"), "openai", "off", kind="chat", enabled=False)
    with pytest.raises(NotFitForDefaultError):
        change_model(both, "off", is_default=True)
    with pytest.raises(NotFitForDefaultError):
        with_model(both, "openai", "other", kind="chat", is_default=True, enabled=False)


def test_only_local_models_have_a_runtime_and_a_path(records: Records) -> None:
    for field, value in (("runtime", "onnx"), ("path", "bge")):
        with pytest.raises(FieldNotAllowedError):
            with_model(records, "openai", "x", **{field: value})
    model = rules.get_model(with_model(records, "local", "x", runtime="onnx", path="zh/bge-small"), "x")
    assert model.path == "zh/bge-small"


@pytest.mark.parametrize("path", ["../outside", "/etc", "a/../../b", "..", "C:/models", "a\\..\\..\\b", "C:\\models"])
def test_a_path_stays_inside_the_model_folder(records: Records, path: str) -> None:
    with pytest.raises(FieldNotAllowedError):
        with_model(records, "local", "x", path=path)
    with pytest.raises(FieldNotAllowedError):
        change_model(with_model(records, "local", "x"), "x", path=path)


@pytest.mark.parametrize(
    "field",
    [
        {"api_key": "sk-abcdefghijklmnop"},
        {"base_url": "https://user:sk-abc@one.example"},
        {"base_url": "https://one.example?key=sk-abc"},
        {"base_url": "https://user:sk-abc\uff20one.example"},
        {"base_url": "https://[sk-abc"},
        {"base_url": "https://one.example:sk-abc"},
        {"base_url": "https://one.example:0"},
        {"base_url": "https://one.example:65536"},
        {"base_url": "https://one.example/v1 sk-abc"},
        {"base_url": "https://one.ex\nample/sk-abc"},
        {"base_url": "https://one.example/v1?"},
        {"base_url": "https://one.example/v1#"},
        {"api_key": "env:sk-abc-def"},
        {"name": "Not A Name"},
        {"timeout_s": 0},
    ],
)
def test_a_key_is_never_taken_itself(field: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as refused:
        CreateProvider.model_validate({"name": "openai", "kind": "openai", **field})
    assert "sk-abc" not in str([error["msg"] for error in refused.value.errors()])


@pytest.mark.parametrize("url", ["http://[::1]:11434/v1", "https://one.example/run/@cf/v1/", "http://名.example:8000"])
def test_an_address_without_a_key_is_taken(url: str) -> None:
    taken = CreateProvider.model_validate({"name": "openai", "kind": "openai", "base_url": url})
    assert taken.base_url == url.rstrip("/")


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 1e308, -1e308])
@pytest.mark.parametrize("field", ["slope", "lexical", "offset"])
def test_a_calibration_that_makes_no_score_is_refused(field: str, number: float) -> None:
    with pytest.raises(ValidationError):
        Calibration.model_validate({"slope": 1.0, "lexical": 0.0, "offset": 0.0, field: number})


def test_a_model_is_named_by_id_by_provider_and_name_or_by_name(records: Records) -> None:
    both = with_model(with_provider(records, "hf"), "hf", "BAAI/bge-m3")
    named = rules.get_model(both, "hf/BAAI/bge-m3")
    assert (named.provider, named.name) == ("hf", "BAAI/bge-m3")
    assert rules.get_model(both, "BAAI/bge-m3") == named
    assert rules.get_model(both, named.id) == named


def test_of_two_models_of_one_name_the_one_that_is_tried_first_is_meant(records: Records) -> None:
    both = with_model(with_provider(records, "azure"), "azure", "text-embedding-3-small", priority=1)
    assert rules.get_model(both, "text-embedding-3-small").provider == "azure"
    default = change_model(both, "openai/text-embedding-3-small", is_default=True)
    assert rules.get_model(default, "text-embedding-3-small").provider == "openai"


def test_every_refusal_has_a_code_of_the_contract() -> None:
    for error in (NameTakenError, ProviderInUseError, DefaultInUseError, NotFitForDefaultError, ProviderUnknownError):
        assert issubclass(error, RegistryError)
        assert isinstance(error.code, ErrorCode)


KINDS = st.sampled_from(ProviderKind)
NAMES = st.sampled_from(["local", "a", "b"])
MODELS = st.sampled_from(["m", "n", "a/m"])
MAYBE = st.none() | st.booleans()
STEPS = st.one_of(
    st.builds(
        lambda name, kind, enabled: lambda records: with_provider(records, name, kind, enabled=enabled),
        NAMES,
        KINDS,
        st.booleans(),
    ),
    st.builds(lambda name, enabled: lambda records: change_provider(records, name, enabled=enabled), NAMES, MAYBE),
    st.builds(lambda name: lambda records: rules.delete_provider(records, name), NAMES),
    st.builds(
        lambda name, model, kind, default, enabled: (
            lambda records: with_model(records, name, model, kind=kind, is_default=default, enabled=enabled)
        ),
        NAMES,
        MODELS,
        st.sampled_from(ModelKind),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(
        lambda model, default, enabled: (
            lambda records: change_model(records, model, is_default=default, enabled=enabled)
        ),
        MODELS,
        MAYBE,
        MAYBE,
    ),
    st.builds(lambda model: lambda records: rules.delete_model(records, model), MODELS),
)


@given(st.lists(STEPS, max_size=30))
def test_whatever_is_done_each_kind_has_one_default_and_that_of_embeddings_can_be_had(
    steps: list[Callable[[Records], Records]],
) -> None:
    records = rules.ensure_default(Records(0), rules.RecordIdentity("0" * 32, NOW))
    for step in steps:
        with suppress(RegistryError, ModelUnknownError):
            records = step(records)
        defaults = {model.kind: model for model in records.models if model.is_default}
        assert len(defaults) == sum(model.is_default for model in records.models)
        assert (ModelKind.CHAT in defaults) == any(model.kind is ModelKind.CHAT for model in records.models)
        default = defaults[ModelKind.EMBEDDING]
        providers = {provider.name: provider for provider in records.providers}
        assert default.enabled
        assert providers[default.provider].enabled
        assert providers[default.provider].kind is not ProviderKind.ANTHROPIC
        assert {model.provider for model in records.models} <= providers.keys()
        assert len(providers) == len(records.providers)
        assert len({(model.provider, model.name) for model in records.models}) == len(records.models)
