"""A builder that outlives its build, or changes its tree while the service takes it over, gains nothing."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from skillbus.sandbox.adapters.packages import layer_tree
from skillbus.sandbox.adapters.packages.bounded_program import get_build_user
from skillbus.sandbox.adapters.packages.layer_tree import give_folder, seal_layer
from skillbus.sandbox.domain.errors import DependenciesUnavailable
from skillbus.sandbox.domain.run.limits import MIB

FILES = 50
SWAP = """
import os, sys
os.chdir(sys.argv[1])
sys.stdin.read()
os.rename("deps/b", "deps/c")
os.symlink(sys.argv[2], "deps/b")
"""
"""Waits for the end of its standard input, then puts a link in the place of a folder."""


@contextmanager
def swapping(root: Path, outside: Path) -> Iterator[subprocess.Popen[bytes]]:
    user = get_build_user() if os.geteuid() == 0 else None
    program = "/usr/bin/python3" if user is not None else sys.executable
    command = (program, "-I", "-S", "-c", SWAP, str(root), str(outside))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, user=user, group=user, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def make_tree(root: Path) -> Path:
    tree = root / "deps"
    (tree / "b").mkdir(parents=True, mode=0o700)
    (tree / "b" / "file").write_text("theirs")
    for number in range(FILES):
        (tree / f"f{number}").touch()
    give_folder(tree, get_build_user())
    return tree


@pytest.fixture
def lab() -> Iterator[Path]:
    with TemporaryDirectory(prefix="skillbus-test-race-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def test_a_link_that_is_swapped_in_while_a_layer_is_sealed_leads_to_no_file_of_the_host(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = lab / "outside"
    outside.mkdir()
    secret = outside / "file"
    secret.write_text("secret")
    secret.chmod(0o600)
    root = lab / "root"
    tree = make_tree(root)
    folder, own, said = tree.joinpath("b").stat(), layer_tree._own, list[bytes]()
    with swapping(root, outside) as swapper:

        def own_and_swap(descriptor: int, mode: int) -> None:
            """Let the builder try it at the worst moment: the folder was judged, and its files were not."""
            own(descriptor, mode)
            if os.path.samestat(os.fstat(descriptor), folder):
                said.append(swapper.communicate(timeout=5)[1])

        monkeypatch.setattr(layer_tree, "_own", own_and_swap)
        seal_layer(tree, MIB * 64, get_build_user())
    is_root = os.geteuid() == 0
    assert [b"PermissionError" in text for text in said] == [is_root], said
    assert ((tree / "b").is_symlink(), (tree / "c").exists()) == (not is_root, not is_root)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_layer_belongs_to_the_service_and_nobody_can_write_to_its_files(lab: Path) -> None:
    tree = make_tree(lab)
    (tree / "f0").chmod(0o700)
    assert seal_layer(tree, MIB * 64, get_build_user()) == 2 * 4096
    found = {path.relative_to(tree).as_posix(): path.stat() for path in (tree, *tree.rglob("*"))}
    assert {entry.st_uid for entry in found.values()} == {os.geteuid()}
    assert [stat.S_IMODE(found[name].st_mode) for name in (".", "b", "f0", "b/file")] == [0o755, 0o755, 0o555, 0o444]


@pytest.mark.parametrize("made", ["hard link", "deep"])
def test_a_file_with_another_name_and_folders_without_end_make_no_layer(lab: Path, made: str) -> None:
    tree = lab / "deps"
    tree.mkdir()
    if made == "hard link":
        (lab / "secret").write_text("secret")
        os.link(lab / "secret", tree / "file")
    else:
        tree.joinpath(*["d"] * 200).mkdir(parents=True)
    give_folder(tree, get_build_user())
    with pytest.raises(DependenciesUnavailable, match="another name" if made == "hard link" else "more than 128"):
        seal_layer(tree, MIB, get_build_user())


@pytest.mark.skipif(os.geteuid() != 0, reason="only a service that is root has users to tell apart")
def test_a_file_of_another_user_makes_no_layer(lab: Path) -> None:
    tree = lab / "deps"
    tree.mkdir()
    give_folder(tree, get_build_user())
    (tree / "file").write_text("root's")
    with pytest.raises(DependenciesUnavailable, match="another user"):
        seal_layer(tree, MIB, get_build_user())
