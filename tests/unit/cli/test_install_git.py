import io
import os
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import CommandLine
from .fake_server import FakeServer

SKILL = b"---\nname: greet\ndescription: says hello\n---\n"
ABSENT = "1" * 40
PERSON = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
PLAIN, EXECUTABLE, LINK, SUBMODULE = "100644", "100755", "120000", "160000"


@dataclass(frozen=True)
class Repository:
    """Git repository whose commits are made of any entries, also of those that `git add` refuses."""

    place: Path

    @property
    def url(self) -> str:
        return f"git+file://{self.place}"

    def git(self, *words: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.place, env=os.environ | PERSON, input=stdin, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def write_blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=content)

    def write_tree(self, entries: Sequence[tuple[str, str, str]]) -> str:
        """Write a tree of modes, digests and names."""
        kinds = {SUBMODULE: "commit", "040000": "tree"}
        lines = [f"{mode} {kinds.get(mode, 'blob')} {digest}\t{name}\0" for mode, digest, name in entries]
        return self.git("mktree", "-z", "--missing", stdin="".join(lines).encode())

    def commit(self, *files: tuple[str, bytes, str]) -> str:
        """Commit files by path, content and mode; the content of a submodule is a digest."""
        self.git("read-tree", "--empty")
        for path, content, mode in files:
            digest = content.decode() if mode == SUBMODULE else self.write_blob(content)
            self.git("update-index", "--add", "--cacheinfo", f"{mode},{digest},{path}")
        return self.commit_tree(self.git("write-tree"))

    def commit_tree(self, tree: str) -> str:
        return self.git("commit-tree", tree, "-m", "one")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    place = tmp_path / "skills.git"
    place.mkdir()
    made = Repository(place)
    made.git("init", "--quiet", "--bare", ".")
    return made


def test_the_skills_of_a_commit_are_installed_with_their_modes(
    skillbus: CommandLine, server: FakeServer, repository: Repository
) -> None:
    pinned = repository.commit(
        ("pack/greet/SKILL.md", SKILL, PLAIN),
        ("pack/greet/run.sh", b"#!/bin/sh\n", EXECUTABLE),
        ("pack/greet/inner/SKILL.md", SKILL, PLAIN),
        ("README.md", b"not a skill", PLAIN),
        ("wave/SKILL.md", SKILL, PLAIN),
    )
    repository.commit(("later/SKILL.md", SKILL, PLAIN))

    result = skillbus("install", f"{repository.url}@{pinned}")

    assert result.exit_code == 0, result.output
    assert set(server.skills) == {"greet", "wave"}
    sent = zipfile.ZipFile(io.BytesIO(server.requests[0].content))
    assert {it.filename: bool(it.external_attr >> 16 & 0o100) for it in sent.infolist()} == {
        "SKILL.md": False,
        "inner/SKILL.md": False,
        "run.sh": True,
    }
    assert "2 skills: 2 installed" in result.stdout


@pytest.mark.parametrize("fragment", ["pack/greet", "subdirectory=pack/greet", "pack"])
def test_a_folder_of_a_repository_can_be_named(
    skillbus: CommandLine, server: FakeServer, repository: Repository, fragment: str
) -> None:
    pinned = repository.commit(("pack/greet/SKILL.md", SKILL, PLAIN), ("other/SKILL.md", SKILL, PLAIN))
    assert skillbus("skills", "import", f"{repository.url}@{pinned}#{fragment}").exit_code == 0
    assert set(server.skills) == {"greet"}


@pytest.mark.parametrize("revision", ["", "@main", "@abc1234", "@v1.0"])
def test_an_address_without_a_whole_commit_is_refused_with_the_way_to_pin_one(
    skillbus: CommandLine, server: FakeServer, repository: Repository, revision: str
) -> None:
    result = skillbus("install", f"{repository.url}{revision}")
    assert result.exit_code == 2
    assert f"{repository.url}@COMMIT" in result.stderr
    assert f"git ls-remote file://{repository.place} HEAD" in result.stderr
    assert server.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "git+https://me:secret@example.com/skills.git",
        "git+https://secret@example.com/skills.git",
        "git+ext::sh -c id",
        "git+-u/x",
        "https://example.com/skills.git",
    ],
)
def test_an_address_with_a_key_or_of_another_kind_is_wrong_usage(skillbus: CommandLine, address: str) -> None:
    result = skillbus("install", f"{address}@{ABSENT}")
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("fragment", "message"), [("#absent", "folder"), ("#greet/SKILL.md", "folder"), ("", "commit")]
)
def test_what_the_repository_does_not_have_is_said(
    skillbus: CommandLine, server: FakeServer, repository: Repository, fragment: str, message: str
) -> None:
    pinned = repository.commit(("greet/SKILL.md", SKILL, PLAIN))
    result = skillbus("install", f"{repository.url}@{pinned if fragment else ABSENT}{fragment}")
    assert result.exit_code == 1
    assert f"does not have this {message}" in result.stderr
    assert server.requests == []


@pytest.mark.parametrize(
    ("content", "mode", "kind"),
    [
        (b"/etc/passwd", LINK, "symbolic link"),
        (ABSENT.encode(), SUBMODULE, "submodule"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", PLAIN, "Git LFS"),
    ],
)
def test_a_skill_with_what_is_not_fetched_fails_alone(
    skillbus: CommandLine, server: FakeServer, repository: Repository, content: bytes, mode: str, kind: str
) -> None:
    pinned = repository.commit(
        ("greet/SKILL.md", SKILL, PLAIN), ("lame/SKILL.md", SKILL, PLAIN), ("lame/data", content, mode)
    )
    result = skillbus("install", f"{repository.url}@{pinned}")
    assert result.exit_code == 1
    assert kind in result.stderr
    assert set(server.skills) == {"greet"}


def test_filters_and_hooks_of_the_user_do_nothing(
    skillbus: CommandLine, server: FakeServer, repository: Repository, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    hook = tmp_path / "hooks" / "reference-transaction"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {trace}\n")
    hook.chmod(0o755)
    settings = f'[core]\nhooksPath = {hook.parent}\n[filter "evil"]\nsmudge = touch {trace}\nrequired = true\n'
    pinned = repository.commit(("greet/SKILL.md", SKILL, PLAIN), (".gitattributes", b"* filter=evil\n", PLAIN))
    (tmp_path / ".gitconfig").write_text(settings)

    assert skillbus("install", f"{repository.url}@{pinned}").exit_code == 0
    assert set(server.skills) == {"greet"}
    assert not trace.exists()


def test_paths_out_of_the_folder_are_refused(
    skillbus: CommandLine, server: FakeServer, repository: Repository, tmp_path: Path
) -> None:
    skill, outside = repository.write_blob(SKILL), repository.write_blob(b"outside")
    above = repository.write_tree([(PLAIN, outside, "stolen")])
    tree = repository.write_tree([(PLAIN, skill, "SKILL.md"), ("040000", above, "..")])
    result = skillbus("install", f"{repository.url}@{repository.commit_tree(tree)}")
    assert result.exit_code == 1
    assert "../stolen" in result.stderr
    assert server.requests == []


def test_one_content_in_many_files_is_refused_before_it_is_written(
    skillbus: CommandLine, server: FakeServer, repository: Repository
) -> None:
    skill, large = repository.write_blob(SKILL), repository.write_blob(bytes(1024 * 1024))
    tree = repository.write_tree([(PLAIN, skill, "SKILL.md"), *((PLAIN, large, f"part{it}") for it in range(300))])
    result = skillbus("install", f"{repository.url}@{repository.commit_tree(tree)}")
    assert result.exit_code == 1
    assert "314.6 MB" in result.stderr
    assert server.requests == []


def test_the_repository_of_a_calling_hook_is_not_used(
    skillbus: CommandLine, server: FakeServer, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = repository.commit(("greet/SKILL.md", SKILL, PLAIN))
    before = sorted(repository.place.rglob("*"))
    monkeypatch.setenv("GIT_DIR", str(repository.place))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(repository.place / "objects"))
    assert skillbus("install", f"{repository.url}@{pinned}").exit_code == 0
    assert sorted(repository.place.rglob("*")) == before
    assert set(server.skills) == {"greet"}


def test_a_machine_without_git_is_told_what_to_install(
    skillbus: CommandLine, repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    result = skillbus("install", f"{repository.url}@{ABSENT}")
    assert result.exit_code == 1
    assert "git is not installed" in result.stderr
