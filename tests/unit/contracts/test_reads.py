"""Endpoints that only read."""

from skillbus.contracts.catalogue import ENDPOINTS


def test_what_changes_or_costs_something_is_no_read() -> None:
    reads = {endpoint.name for endpoint in ENDPOINTS if endpoint.is_read}
    assert not [
        endpoint.name
        for endpoint in ENDPOINTS
        if endpoint.is_read and (endpoint.act or endpoint.stores_data or not endpoint.idempotent)
    ]
    # They may ask a paid model, remember what a session mentioned, stop work, use up an upload or make a default.
    assert not reads & {"embed_texts", "parse_query", "resolve_command", "check_skill", "get_default_model"}
    assert not reads & {"cancel_run", "cancel_call", "cancel_turn", "follow_turn"}
    assert reads >= {"search_tools", "search_commands", "search_knowledge", "build_context", "health"}
