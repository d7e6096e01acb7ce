from datetime import UTC, datetime

from skillbus.contracts.gateway.api_keys import ApiKeyRecord, Role
from skillbus.gateway.domain.access.key_ring import KeyRing

NOW = datetime.now(UTC)
VALID = ApiKeyRecord(
    id="0" * 10,
    label="a test",
    role=Role.READER,
    projects=("default",),
    created_at=NOW,
    created_by="owner",
    secret_sha256="ab" * 32,
)
REVOKED = VALID.model_copy(update={"revoked_at": NOW})


def test_a_reading_or_a_message_from_before_the_revocation_makes_no_key_valid_again() -> None:
    ring = KeyRing()
    ring.put_record(VALID)
    known_before = ring.ids
    ring.put_record(REVOKED)
    ring.replace_records([VALID], known_before)
    assert ring.find_current(VALID.id) == REVOKED
    ring.put_record(VALID)
    assert ring.find_current(VALID.id) == REVOKED


def test_a_reading_drops_what_is_gone_and_keeps_what_was_made_meanwhile() -> None:
    ring = KeyRing()
    ring.put_record(VALID)
    known_before = ring.ids
    made_meanwhile = VALID.model_copy(update={"id": "1" * 10})
    ring.put_record(made_meanwhile)
    ring.replace_records([], known_before)
    assert ring.records == (made_meanwhile,)
