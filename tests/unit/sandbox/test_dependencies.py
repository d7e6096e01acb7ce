"""What a script declares that it needs, and what of it is not taken."""

import json
import time

import pytest

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.errors import DependenciesInvalid
from skillbus.sandbox.domain.packages.dependencies import FILE_BYTES_MAX, find_requirements
from skillbus.sandbox.domain.packages.python import is_python_supported
from skillbus.sandbox.domain.packages.requirements import Requirements

SHA = "0" * 64
INTEGRITY = "sha512-" + "A" * 86 + "=="


def needs(files: dict[str, str], script: str = "scripts/main.py", runtime: Runtime = Runtime.PYTHON) -> str | None:
    found = whole(files, script, runtime)
    return None if found is None else found.listed


def whole(files: dict[str, str], script: str, runtime: Runtime) -> Requirements | None:
    def read(path: str) -> bytes | None:
        return files[path].encode()[: FILE_BYTES_MAX + 1] if path in files else None

    return find_requirements(read, script, runtime)


def refusal(files: dict[str, str], script: str = "scripts/main.py", runtime: Runtime = Runtime.PYTHON) -> str:
    with pytest.raises(DependenciesInvalid) as caught:
        whole(files, script, runtime)
    return str(caught.value)


def block(*lines: str) -> str:
    return "\n".join(("# /// script", *(f"# {line}" if line else "#" for line in lines), "# ///", "print(1)"))


def test_a_script_that_declares_nothing_needs_nothing() -> None:
    assert needs({"scripts/main.py": "import json\n"}) is None
    assert needs({"requirements.txt": "# nothing yet\n\n"}) is None
    assert needs({"scripts/main.py": block("dependencies = []"), "requirements.txt": "numpy"}) is None
    assert needs({"package.json": '{"type": "module"}'}, "main.js", Runtime.NODE) is None
    assert needs({"requirements.txt": "numpy"}, "main.sh", Runtime.BASH) is None


def test_equal_requirements_are_the_same_text_however_they_are_written() -> None:
    one = needs({"requirements.txt": "Zope.Interface >= 5 , < 6\nrequests[socks, Security]==2.31.0 # pinned\n"})
    other = needs(
        {"requirements.txt": "requests [security,socks] (==2.31.0)\nzope-interface<6,>=5\n\nzope_interface<6,>=5"}
    )
    assert one == other == "requests[security,socks]==2.31.0\nzope-interface<6,>=5\n"


def test_what_the_script_itself_says_comes_before_files_and_the_nearest_file_before_others() -> None:
    files = {
        "requirements.txt": "root",
        "scripts/requirements.txt": "near",
        "scripts/main.py": block('dependencies = ["own>1"]'),
    }
    assert needs(files) == "own>1\n"
    assert needs({**files, "scripts/main.py": ""}) == "near\n"
    assert needs({"requirements.txt": "root", "scripts/main.py": ""}) == "root\n"
    assert needs({"other/requirements.txt": "not mine", "scripts/main.py": ""}) is None


def test_markers_and_hashes_are_kept() -> None:
    marker = 'python_version < "3.11" and (os_name == "nt" or extra == "x")'
    listed = needs({"requirements.txt": f"tomli>=1; {marker} \\\n --hash=sha256:{SHA} --hash sha512:{SHA}"})
    assert listed == f"tomli>=1 ; {marker} --hash=sha256:{SHA} --hash=sha512:{SHA}\n"
    assert needs({"requirements.txt": "tomli>=1;python_version<'3.11'"}) == 'tomli>=1 ; python_version < "3.11"\n'


@pytest.mark.parametrize(
    "line",
    [
        "-r other.txt", "--requirement=other.txt", "-c constraints.txt", "-e .", "--editable ./lib",
        "--index-url https://index.example/simple", "-i https://index.example", "--extra-index-url=https://x.example",
        "--find-links /srv/wheels", "--trusted-host x.example", "--pre", "-",
        "https://files.example/a-1.0.whl", "a @ https://files.example/a-1.0.whl", "a@file:///srv/a", "a @ ./a",
        "git+ssh://git@host.example/a.git", "./a-1.0-py3-none-any.whl", "a-1.0-py3-none-any.whl", "a.tar.gz", "../a",
        "/srv/a", "~/a", "C:\\a", ".", "a[b", "a==", "a>=1,,", "a b", "a=1", "a; import os", "a; x == '1'",
        "a==1 --config-settings=x", f"a --hash=md5:{SHA}", "a --hash=sha256:xyz", "$HOME", "${INDEX}", "ä",
        "a@b", "a @ b",
    ],
)  # fmt: skip
def test_what_reaches_elsewhere_or_is_no_requirement_is_refused_with_its_line(line: str) -> None:
    said = refusal({"requirements.txt": f"fine\n# a comment\n{line}\n"})
    assert said.startswith("requirements.txt, line 3: `")


def test_a_password_in_a_refused_line_is_not_told() -> None:
    said = refusal({"requirements.txt": "a @ https://user:sekret@files.example/" + "x" * 300})
    assert "sekret" not in said
    assert "files.example" in said
    assert "sekret" not in refusal({"requirements.txt": "git+https://" + "u" * 190 + ":sekret@files.example/a"})


def test_a_block_is_read_as_pep_723_says() -> None:
    assert (
        needs(
            {"scripts/main.py": block('requires-python = ">=3.11"', "dependencies = [", '  "a",', "", '  "b<2",', "]")}
        )
        == "a\nb<2\n"
    )
    other, own = "# /// pyproject\n# x = 1\n# ///\n\n", block('dependencies = ["a"]')
    assert needs({"scripts/main.py": f"#!/usr/bin/env python3\n{other}{own}"}) == "a\n"
    assert needs({"scripts/main.py": "# /// script\n# dependencies = ['a']\nprint(1)\n"}) is None
    assert "TOML" in refusal({"scripts/main.py": block("///", "the last line of the comment closes it")})
    windows = block('dependencies = ["a"]').replace("\n", "\r\n")
    assert needs({"scripts/main.py": windows}) == "a\n"


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (('dependencies = "a"',), "list"),
        (("dependencies = [1]",), "list"),
        (("dependencies = [",), "TOML"),
        (('dependencies = ["a @ https://x.example/a.whl"]',), "URL"),
        (('dependencies = ["-e ."]',), "options"),
        (('requires-python = "three"',), "requires-python"),
        (("requires-python = 3",), "requires-python"),
        (('requires-python = [">=3"]',), "requires-python"),
        (("[tool.uv]", 'index = [{url = "https://x.example"}]'), "operator"),
    ],
)
def test_a_block_that_cannot_be_used_is_refused_with_the_reason(lines: tuple[str, ...], word: str) -> None:
    assert word in refusal({"scripts/main.py": block(*lines)})


def test_a_script_with_two_blocks_is_refused() -> None:
    two = block('dependencies = ["a"]') + "\n" + block('dependencies = ["b"]')
    assert "2 blocks" in refusal({"scripts/main.py": two})


@pytest.mark.parametrize(
    ("version", "wanted", "fitting"),
    [
        ((3, 11, 2), ">=3.11", True), ((3, 11, 2), ">=3.12", False), ((3, 11, 2), ">=3.9,<3.12", True),
        ((3, 11, 2), "<3.11", False), ((3, 11, 2), "==3.11.*", True), ((3, 11, 2), "!=3.11.*", False),
        ((3, 11, 2), "~=3.10", True), ((3, 11, 2), "~=3.11.3", False), ((3, 11, 2), "~=3.11.1", True),
        ((3, 11, 0), "==3.11", True), ((3, 11, 2), "==3.11", False), ((3, 11, 2), ">3.11.2", False),
        ((3, 11, 2), "<=3.11.2", True), ((3, 11, 2), ">=3.12rc1", False), ((3, 11, 2), "", True),
    ],
)  # fmt: skip
def test_versions_of_python_are_compared(version: tuple[int, ...], wanted: str, fitting: bool) -> None:
    assert is_python_supported(version, wanted) is fitting


def test_large_and_numerous_declarations_are_refused_at_once() -> None:
    began = time.monotonic()
    assert "larger" in refusal({"requirements.txt": "a\n" * FILE_BYTES_MAX})
    assert "limit" in refusal({"requirements.txt": "\n".join(f"a{number}" for number in range(300))})
    refusal({"requirements.txt": "a" * 500_000 + "!"})
    refusal({"requirements.txt": "a[" + "b," * 200_000})
    refusal({"requirements.txt": "a; " + "(" * 200_000 + "?"})
    refusal({"requirements.txt": "a==" + "1,==1" * 100_000 + "?"})
    assert needs({"scripts/main.py": "# /// x\n" * 100_000}) is None
    assert time.monotonic() - began < 4


def node(manifest: object, lock: object = None) -> Requirements | None:
    files = {"package.json": json.dumps(manifest)}
    if lock is not None:
        files["package-lock.json"] = json.dumps(lock)
    return whole(files, "main.js", Runtime.NODE)


def locked(**entry: object) -> dict[str, object]:
    known = {"version": "1.0.0", "resolved": "https://registry.example/a/-/a-1.0.0.tgz", "integrity": INTEGRITY}
    packages = {"": {"dependencies": {"a": "^1"}}, "node_modules/a": {**known, **entry}}
    return {"lockfileVersion": 3, "packages": packages}


def test_packages_of_node_are_taken_by_name_and_range() -> None:
    found = node(
        {
            "name": "x",
            "scripts": {"postinstall": "evil"},
            "devDependencies": {"t": "git://x"},
            "dependencies": {"@s/b": ">=1 <2 || ^3", "a": "latest"},
        }
    )
    assert found is not None
    assert json.loads(found.listed) == {
        "name": "layer", "version": "0.0.0", "private": True, "dependencies": {"@s/b": ">=1 <2 || ^3", "a": "latest"},
    }  # fmt: skip
    assert found.lock == ""


@pytest.mark.parametrize(
    "wanted",
    [
        "git+https://host.example/a.git", "https://x.example/a.tgz", "file:../a", "link:../a", "user/repo", "npm:b@1",
        "github:user/repo", "workspace:*", "./a", "../a", "/srv/a", "a.tgz/../b", 1, None, {"version": "1"}, "^1\n",
    ],
)  # fmt: skip
def test_packages_of_node_from_elsewhere_are_refused(wanted: object) -> None:
    with pytest.raises(DependenciesInvalid, match="`a`"):
        node({"dependencies": {"a": wanted}})


@pytest.mark.parametrize(
    "name", ["../a", "A", "a/b", "@a", "", ".bin", "a b", "node_modules/../x", "@a/../b", "x" * 300]
)
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(DependenciesInvalid, match="name"):
        node({"dependencies": {name: "1"}})


@pytest.mark.parametrize("key", ["overrides", "workspaces"])
def test_what_changes_the_packages_of_others_is_refused(key: str) -> None:
    with pytest.raises(DependenciesInvalid, match=key):
        node({"dependencies": {"a": "1"}, key: {"a": "2"}})


def test_a_lock_is_kept_without_the_addresses_in_it() -> None:
    found = node({"dependencies": {"a": "^1"}}, locked(bin={"a": "cli.js"}, funding={"url": "https://x.example"}))
    assert found is not None
    lock = json.loads(found.lock)
    assert lock["packages"]["node_modules/a"] == {"version": "1.0.0", "integrity": INTEGRITY}
    assert lock["packages"][""]["dependencies"] == {"a": "^1"}
    assert "registry" not in found.lock


@pytest.mark.parametrize(
    "entry",
    [
        {"resolved": "git+ssh://git@host.example/a.git#0123"}, {"resolved": "file:../a"}, {"resolved": "../a"},
        {"link": True}, {"name": "b"}, {"integrity": "sha1-abc="}, {"integrity": None}, {"version": None},
        {"version": "git+https://x.example"}, {"resolved": 1},
    ],
)  # fmt: skip
def test_a_lock_that_leads_elsewhere_or_proves_nothing_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(DependenciesInvalid, match="node_modules/a"):
        node({"dependencies": {"a": "^1"}}, locked(**entry))


@pytest.mark.parametrize(
    "lock",
    [
        {"lockfileVersion": 1, "dependencies": {}}, {"lockfileVersion": 3}, [],
        {"lockfileVersion": 3, "packages": {"node_modules/../../x": {}}},
        {"lockfileVersion": 3, "packages": {"../x": {"version": "1"}}},
        {"lockfileVersion": 3, "packages": {"node_modules/a": "1"}},
    ],
)  # fmt: skip
def test_a_lock_of_another_shape_is_refused(lock: object) -> None:
    with pytest.raises(DependenciesInvalid, match=r"package-lock\.json"):
        node({"dependencies": {"a": "^1"}}, lock)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"dependencies": []}', "[" * 100_000, "\ud800"])
def test_a_package_json_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(DependenciesInvalid, match=r"package\.json"):
        find_requirements(
            lambda path: text.encode(errors="surrogatepass") if path == "package.json" else None, "m.js", Runtime.NODE
        )
