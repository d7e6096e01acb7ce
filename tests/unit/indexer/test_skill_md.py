"""SKILL.md: what is read, forgiven and refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.common.front_matter import parse_front_matter, quote_scalar
from skillbus.contracts.indexer.skill_record import SkillLimits
from skillbus.indexer.domain.package.findings import PackageError
from skillbus.indexer.domain.package.skill_md import SkillMd, parse_skill_md, rewrite_description

GOOD = "---\nname: add\ndescription: Adds two numbers.\n---\n# Add\n"


def skill_of(text: str, folder: str | None = None) -> tuple[SkillMd, list[str]]:
    report = parse_skill_md(text.encode(), folder=folder)
    assert report.skill is not None, report.errors
    return report.skill, [warning.code for warning in report.warnings]


def errors_of(data: bytes | str) -> list[str]:
    report = parse_skill_md(data.encode() if isinstance(data, str) else data)
    assert (report.skill is None) == bool(report.errors)
    return [error.code for error in report.errors]


def with_fields(fields: str) -> str:
    return f"---\nname: add\ndescription: Adds.\n{fields}\n---\nbody"


def test_a_plain_skill_is_read_without_findings() -> None:
    skill, warnings = skill_of(GOOD, folder="add")

    assert (skill.name, skill.description, warnings) == ("add", "Adds two numbers.", [])


def test_the_same_skill_may_be_written_in_many_ways() -> None:
    for text in [
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD.replace("\n", "\r\n"),
        "\n\n" + GOOD,
        GOOD.replace("---\n", "---  \n"),
        "---\nname: add\ndescription: Adds two numbers.\n---",
        "---\nname: add\ndescription: >\n  Adds two\n  numbers.\n---\n# Add\n",
        "---\nname: add\ndescription: 'Adds two\n  numbers.'\n---\n# Add\n",
        '---\n"name": "add"\n"description": "Adds two numbers."\n---\n',
        "---\n{name: add, description: Adds two numbers.}\n---\n",
    ]:
        skill, warnings = skill_of(text)

        assert (skill.name, skill.description, warnings) == ("add", "Adds two numbers.", [])


def test_all_fields_of_the_format_are_kept() -> None:
    fields = (
        "license: MIT\ncompatibility: Python 3.11\nallowed-tools: Bash(git:*) Read\nmetadata:\n  version: 1.10\n  a: b"
    )

    skill, warnings = skill_of(with_fields(fields))

    assert (skill.license, skill.version, dict(skill.metadata)) == ("MIT", "1.10", {"version": "1.10", "a": "b"})
    assert warnings == ["not_a_string"]


def test_tags_are_read_from_a_list_or_a_text() -> None:
    for fields, tags in [
        ("tags: [git, 版本 控制]", ("git", "版本 控制")),
        ("tags: a, b c,,a", ("a", "b c")),
        ("tags: a b", ("a", "b")),
        ("tags: 数学，计算", ("数学", "计算")),
        ("metadata:\n  tags: x y\ntags: [z]", ("x", "y")),
        ("metadata:\n  tags: [x, 1]", ("x", "1")),
        ("tags:", ()),
        ("tags: {a: b}", ()),
    ]:
        assert skill_of(with_fields(fields))[0].tags == tags


def test_a_version_is_kept_as_it_is_written() -> None:
    for fields, version in [("version: 2", "2"), ("version: '1.0'", "1.0"), ("metadata: {}", None)]:
        assert skill_of(with_fields(fields))[0].version == version


def test_a_value_that_lacks_quotes_is_repaired_with_a_warning() -> None:
    for line, description in [
        ("description: Use when: asked about sums", "Use when: asked about sums"),
        ("description: Use when: asked\n  about sums: always", "Use when: asked about sums: always"),
        ("description: @everyone reads this", "@everyone reads this"),
        ("description: `code` first", "`code` first"),
        ("description: [draft] Adds: two", "[draft] Adds: two"),
        ("description: **Adds** numbers", "**Adds** numbers"),
        ('description: Says "hi": then adds \\ numbers', 'Says "hi": then adds \\ numbers'),
        ("description:\tAdds: two", "Adds: two"),
        ("description: 适用于: 求和", "适用于: 求和"),
    ]:
        skill, warnings = skill_of(f"---\nname: add\n{line}\n---\n")

        assert (skill.description, warnings) == (description, ["yaml_repaired"])


def test_repair_leaves_other_values_as_they_are() -> None:
    text = "---\nname: add\ndescription: Use: it\nlicense: |\n  a: b: c\nmetadata:\n  hint: x: y\n  plain: z\n---\n"

    skill, warnings = skill_of(text)

    assert skill.license == "a: b: c"
    assert dict(skill.metadata) == {"hint": "x: y", "plain": "z"}
    assert warnings == ["yaml_repaired", "yaml_repaired"]


def test_frontmatter_that_is_missing_or_not_usable_is_refused() -> None:
    for text in [
        "",
        "# Add\n",
        "name: add\ndescription: x\n",
        "text\n" + GOOD,
        "---\nname: add\ndescription: x\n",
        "---\n---\n",
        "---\njust text\n---\n",
        "---\n- name: add\n---\n",
        '---\nname: add\ndescription: "unclosed\nmetadata: [1, 2\n---\n',
        "---\nname: add\ndescription: x\nmetadata: [1, 2\n---\n",
        "---\nname: add\ndescription: x\n\tbad: y\n---\n",
        "---\nname: add\nname: sub\ndescription: x\n---\n",
        "---\nname: add\ndescription: x\ndescription: y\n---\n",
        "---\nname: add\ndescription: x\na: !!python/object/apply:os.system [id]\n---\n",
        "---\nname: add\ndescription: x\na: !custom y\n---\n",
        "---\nname: add\ndescription: x\na: !!binary aGk=\n---\n",
        "---\nname: add\ndescription: x\na: &a [1]\nb: *a\n---\n",
        "---\nname: add\ndescription: x\n? [a, b]\n: c\n---\n",
        "---\nname: add\ndescription: x\na: " + "[" * 5000 + "]" * 5000 + "\n---\n",
        "---\nname: add\ndescription: x\x07\n---\n",
        "---\nname: add\ndescription: x\n...\nname: other\n---\n",
    ]:
        assert errors_of(text) == ["bad_frontmatter"]


def test_an_alias_bomb_is_refused_at_once() -> None:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20))

    assert errors_of(f"---\nname: add\ndescription: x\na0: &a0 lol\n{levels}\n---\n") == ["bad_frontmatter"]


def test_text_that_is_not_utf8_is_refused() -> None:
    for data in [
        "---\nname: add\ndescription: 读取".encode("gbk"),
        GOOD.encode("utf-16"),
        GOOD.encode("utf-16-le"),
        GOOD.encode("utf-32"),
        b"\xff\xfe",
        GOOD.encode() + b"\xed\xa0\x80",
        GOOD.encode() + b"\0",
    ]:
        assert errors_of(data) == ["encoding"]


def test_text_over_its_size_is_refused_before_it_is_parsed() -> None:
    for text, code in [
        (f"---\nname: add\ndescription: {'x' * (2 << 20)}\n---\n", "frontmatter_too_large"),
        (f"---\nname: add\ndescription: {'x' * 65536}\n---\n", "frontmatter_too_large"),
        (f"---\nname: add\ndescription: {'字' * 30000}\n---\n", "frontmatter_too_large"),
        ("---\n" + "x" * (2 << 20), "frontmatter_too_large"),
        (GOOD + "x" * (1 << 20), "too_large"),
    ]:
        assert errors_of(text) == [code]


def test_a_name_that_breaks_the_rule_is_refused() -> None:
    for name in [
        "Add",
        "add_two",
        "add--two",
        "-add",
        "add-",
        "add two",
        "加法",
        "../add",
        "a/b",
        "add.two",
        "x" * 65,
        '""',
        "",
        "null",
        "~",
        "[add]",
        "{a: b}",
        '"add\\n"x',
        '"a\\0b"',
        "é",
    ]:
        assert errors_of(f"---\nname: {name}\ndescription: x\n---\n")[0] in {"bad_name", "bad_frontmatter"}


def test_a_name_within_the_rule_is_kept() -> None:
    for name in ["a", "1", "add-2-numbers", "x" * 64, "12345", "true"]:
        assert skill_of(f"---\nname: {name}\ndescription: x\n---\n")[0].name == name


def test_a_name_is_normalised_with_a_warning() -> None:
    skill, warnings = skill_of("---\nname: ａｄｄ\ndescription: x\n---\n")

    assert (skill.name, warnings) == ("add", ["name_normalised"])


def test_a_name_that_differs_from_its_folder_counts_with_a_warning() -> None:
    skill, warnings = skill_of(GOOD, folder="other")

    assert (skill.name, warnings) == ("add", ["name_mismatch"])


def test_a_description_is_required() -> None:
    for line in [
        "",
        "description:",
        'description: ""',
        "description: '  '",
        "description: null",
        "description: [a]",
        "description: {a: b}",
    ]:
        assert errors_of(f"---\nname: add\n{line}\n---\n") == ["bad_description"]


def test_every_error_is_told_at_once() -> None:
    assert errors_of("---\nname: Bad_Name\n---\n") == ["bad_name", "bad_description"]


def test_a_long_description_is_kept_up_to_a_hard_limit() -> None:
    for length, warnings, errors in [
        (1024, [], []),
        (1025, ["description_too_long"], []),
        (16_385, [], ["bad_description"]),
    ]:
        report = parse_skill_md(f"---\nname: add\ndescription: {'x' * length}\n---\n".encode())

        assert [item.code for item in report.warnings] == warnings
        assert [item.code for item in report.errors] == errors


def test_what_the_format_does_not_allow_is_told_and_forgiven() -> None:
    for fields, warning in [
        ("type: tool", "unknown_field"),
        ("metadata: [a]", "field_ignored"),
        ("metadata:\n  a: 1", "not_a_string"),
        ("metadata:\n  a: {b: c}", "not_a_string"),
        ("license: [MIT]", "field_ignored"),
        ("allowed-tools: [Bash, Read]", "not_a_string"),
        ("license: MIT\nlicense: BSD", "duplicate_key"),
    ]:
        assert skill_of(with_fields(fields))[1] == [warning]


def test_hidden_characters_in_a_description_are_told() -> None:
    assert skill_of('---\nname: add\ndescription: "Adds\\u202e\\U000E0041."\n---\n')[1] == ["hidden_characters"]


def test_a_new_description_changes_no_other_line() -> None:
    for before, after in [
        ("description: Old.  # why\nlicense: MIT", "license: MIT"),
        ("description: >\n  Old\n\n  text.\nlicense: MIT", "license: MIT"),
        ("description: Use when: old\n  goes on\nlicense: MIT", "license: MIT"),
        ("'description': 'Old\n  text'\n\n# note\nlicense: MIT", "\n# note\nlicense: MIT"),
    ]:
        for end in ["\n", "\r\n"]:
            """tool-system.md § 修改：仅允许修改SKILL.md描述"""
            body = "---\n# Body\ndescription: stays\n"
            old = f"\ufeff---\nname: add\n{before}\n{body}".replace("\n", end).encode()

            new = rewrite_description(old, '新: "描述" \\ #x')

            expected = f'\ufeff---\nname: add\ndescription: "新: \\"描述\\" \\\\ #x"\n{after}\n{body}'
            assert new.decode() == expected.replace("\n", end)
            assert skill_of(new.decode())[0].description == '新: "描述" \\ #x'


@given(st.text(min_size=1, max_size=200))
def test_any_description_that_is_written_is_read_back(description: str) -> None:
    try:
        new = rewrite_description(GOOD.encode(), description)
    except PackageError:
        assert not description.strip() or "\0" in description
        return
    skill, _ = skill_of(new.decode())
    assert (skill.description, skill.name) == (description.strip(), "add")
    assert new.endswith(b"---\n# Add\n")


def test_a_description_that_cannot_be_written_is_refused() -> None:
    for text, description in [
        (GOOD, " "),
        (GOOD, "x" * 1025),
        ("---\n{name: add, description: x}\n---\n", "new"),
        ("no frontmatter", "new"),
    ]:
        with pytest.raises(PackageError):
            rewrite_description(text.encode(), description)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_give_a_report(data: bytes) -> None:
    assert errors_of(data)


@given(st.text(alphabet=st.sampled_from("abc:-#&*!|>'\"{}[],?%@` \t\n\r\\\ufeff\x85\u2028名😀01~"), max_size=120))
def test_arbitrary_yaml_gives_a_report(fields: str) -> None:
    report = parse_skill_md(f"---\nname: add\ndescription: x\n{fields}\n---\nbody".encode())

    assert (report.skill is None) == bool(report.errors)


@given(st.text(max_size=60))
def test_quoting_keeps_a_text(text: str) -> None:
    (node,) = parse_front_matter(f"a: {quote_scalar(text)}").fields.values()

    assert node.text == text


def test_a_description_that_a_comment_cuts_short_is_told() -> None:
    cut = parse_skill_md(b"---\nname: a\ndescription: Reads # headings and more.\n---\n")
    kept = parse_skill_md(b'---\nname: a\ndescription: "Reads # headings and more."\nlicense: MIT # see LICENSE\n---\n')
    assert [warning.code for warning in cut.warnings] == ["description_cut"]
    assert cut.skill is not None
    assert cut.skill.description == "Reads"
    assert kept.warnings == ()
    assert kept.skill is not None
    assert kept.skill.description == "Reads # headings and more."


def test_limits_are_read_from_wherever_they_stand() -> None:
    for fields in [
        "limits: {wall_s: 2.5, memory_mib: 128}",
        "limits:\n  wall_s: 2.5\n  memory_mib: '128'",
        "metadata: {limits: {wall_s: 2.5, memory_mib: 128}}",
        """metadata:\n  skillbus-limits: '{"wall_s": 2.5, "memory_mib": 128}'""",
        """limits: {wall_s: 9}\nmetadata:\n  skillbus-limits: '{"wall_s": 2.5, "memory_mib": 128}'""",
    ]:
        skill, warnings = skill_of(with_fields(fields))
        assert skill.limits == SkillLimits(wall_s=2.5, memory_mib=128)
        assert "bad_limit" not in warnings


def test_limits_in_the_form_of_the_format_are_no_breach_of_it() -> None:
    assert skill_of(with_fields("""metadata:\n  skillbus-limits: '{"processes": 4}'"""))[1] == []


def test_a_limit_that_cannot_be_read_is_a_warning_and_no_failure() -> None:
    for fields in [
        "limits: lots",
        "limits: [1]",
        "limits: {wall_s: -1}",
        "limits: {wall_s: .nan}",
        "limits: {wall_s: true}",
        "limits: {cpu_s: 1.5}",
        "limits: {memory_mib: 99999999999999999999}",
        "limits: {megabytes: 1}",
        "limits: {artifacts: {}}",
        "metadata:\n  skillbus-limits: wall_s=3",
    ]:
        skill, warnings = skill_of(with_fields(fields))
        assert (skill.limits, "bad_limit" in warnings) == (None, True)


def test_limits_beside_a_bad_one_count() -> None:
    skill, warnings = skill_of(with_fields("limits: {wall_s: soon, processes: 4}"))
    assert (skill.limits, "bad_limit" in warnings) == (SkillLimits(processes=4), True)


def test_the_places_of_the_network_are_read_from_wherever_they_stand() -> None:
    for fields in [
        "network: [API.example.org:443, 'db:5432']",
        "network: api.example.org:443, db:5432",
        "metadata:\n  network:\n    - api.example.org:443\n    - db:5432\n    - api.example.org.:443",
        "metadata:\n  skillbus-network: api.example.org:443 db:5432",
        "network: [other:1]\nmetadata: {skillbus-network: 'api.example.org:443 db:5432'}",
    ]:
        skill, warnings = skill_of(with_fields(fields))
        assert skill.network == ("api.example.org:443", "db:5432")
        assert "bad_network_place" not in warnings


def test_what_is_no_place_is_warned_of_and_asks_for_nothing() -> None:
    for wanted in [
        *("'*:443'", "'*.example.org:443'", "example.org", "https://example.org", "example.org:443/path", "443"),
        *("[example.org, 443]", "{host: example.org}", "null", "127.1:80", "''", "0x7f.1:80"),
    ]:
        skill, warnings = skill_of(with_fields(f"network:\n  - {wanted}\n  - api.example.org:443"))
        assert skill.network == ("api.example.org:443",)
        assert warnings.count("bad_network_place") == 1


def test_a_network_that_is_no_list_asks_for_nothing() -> None:
    for fields in ("network: {api.example.org: 443}", "network: 443", "network: true", "metadata: {network: {a: b}}"):
        skill, warnings = skill_of(with_fields(fields))
        assert skill.network == ()
        assert "bad_network_place" in warnings


def test_a_skill_asks_for_no_more_than_so_many_places() -> None:
    places = [f"h{number}:443" for number in range(40)]
    skill, warnings = skill_of(with_fields(f"network: [{', '.join(places)}]"))
    assert skill.network == tuple(places[:32])
    assert warnings.count("bad_network_place") == 1
