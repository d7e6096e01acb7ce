"""Findings of the validation of a package, and the error that carries them."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from skillbus.common.archive import ArchiveError
from skillbus.contracts.indexer.skill_record import SkillFinding
from skillbus.indexer.domain.errors import SkillPinnedError


class FindingCode(StrEnum):
    """Kind of a finding. Findings on the archive carry a code of `ArchiveCode`, in the same lower case."""

    BAD_UPLOAD_NAME = "bad_upload_name"
    PINNED = "pinned"
    NO_SKILL_MD = "no_skill_md"
    SEVERAL_SKILL_MD = "several_skill_md"
    TOO_LARGE = "too_large"
    ENCODING = "encoding"
    BAD_FRONTMATTER = "bad_frontmatter"
    FRONTMATTER_TOO_LARGE = "frontmatter_too_large"
    BAD_NAME = "bad_name"
    BAD_DESCRIPTION = "bad_description"
    BAD_ENTRY_POINT = "bad_entry_point"

    SKILL_MD_LOWER_CASE = "skill_md_lower_case"
    NESTED = "nested"
    FILES_OUTSIDE = "files_outside"
    RESERVED_FILE = "reserved_file"
    NAME_MISMATCH = "name_mismatch"
    NAME_NORMALISED = "name_normalised"
    YAML_REPAIRED = "yaml_repaired"
    DUPLICATE_KEY = "duplicate_key"
    DESCRIPTION_TOO_LONG = "description_too_long"
    DESCRIPTION_CUT = "description_cut"
    UNKNOWN_KEY = "unknown_key"
    HIDDEN_CHARACTERS = "hidden_characters"
    NOT_A_STRING = "not_a_string"
    FIELD_IGNORED = "field_ignored"
    UNKNOWN_FIELD = "unknown_field"
    COMPATIBILITY_TOO_LONG = "compatibility_too_long"
    ACTION_SKIPPED = "action_skipped"
    ARGUMENTS_UNREAD = "arguments_unread"
    BAD_LIMIT = "bad_limit"
    BAD_NETWORK_PLACE = "bad_network_place"


_REFUSED_BY_SKILLS_REF: Final = frozenset(
    {
        FindingCode.NAME_MISMATCH,
        FindingCode.YAML_REPAIRED,
        FindingCode.DUPLICATE_KEY,
        FindingCode.DESCRIPTION_TOO_LONG,
        FindingCode.COMPATIBILITY_TOO_LONG,
        FindingCode.FIELD_IGNORED,
        FindingCode.UNKNOWN_FIELD,
    }
)
"""Warnings for which skills-ref, the validator of the Agent Skills format, refuses a skill."""


def select_breaches(errors: Sequence[SkillFinding], warnings: Sequence[SkillFinding]) -> tuple[SkillFinding, ...]:
    """Return the findings for which a strict reader of the format refuses a package."""
    return (*errors, *(warning for warning in warnings if warning.code in _REFUSED_BY_SKILLS_REF))


def finding(code: FindingCode, message: str, where: str = "") -> SkillFinding:
    """Build a finding. Its code crosses the bus as a plain string."""
    return SkillFinding(code=code.value, message=message, where=where)


class PackageError(Exception):
    """The package is not a skill that can be installed. It carries all findings so far; `errors` is never empty."""

    def __init__(self, errors: tuple[SkillFinding, ...], warnings: tuple[SkillFinding, ...] = ()) -> None:
        super().__init__("; ".join(f"{item.code}: {item.message}" for item in errors))
        self.errors = errors
        self.warnings = warnings

    @property
    def code(self) -> str:
        """Code of the first error."""
        return self.errors[0].code


@contextmanager
def translate_archive_errors(warnings: tuple[SkillFinding, ...] = ()) -> Generator[None]:
    """Raise an ArchiveError as a PackageError that also carries `warnings`."""
    try:
        yield
    except ArchiveError as error:
        found = SkillFinding(code=error.code.value, message=error.message, where=error.entry)
        raise PackageError((found,), warnings) from error


def findings_from_refusal(error: PackageError | SkillPinnedError) -> tuple[SkillFinding, ...]:
    """Return the reasons for which a package was not installed."""
    if isinstance(error, PackageError):
        return error.errors
    return (finding(FindingCode.PINNED, str(error)),)
