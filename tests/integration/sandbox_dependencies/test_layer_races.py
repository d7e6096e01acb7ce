"""A builder that outlives its build, or changes its tree while the service takes it over, gains nothing."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from skillbus.sandbox.adapters.packages.bounded_program import get_build_user
from skillbus.sandbox.adapters.packages.layer_tree import give_folder, seal_layer
from skillbus.sandbox.domain.errors import DependenciesUnavailable
from skillbus.sandbox.domain.run.limits import MIB

ROUNDS = 5
FILES = 3000
"""Entries of the layer: their sealing takes longer than the swap, wherever the swapped folder is among them."""
SWAP = """
import os, sys
os.chdir(sys.argv[1])
print("ready", flush=True)
while os.lstat("deps/b").st_mode & 0o777 != 0o755:
    pass
os.rename("deps/b", "deps/c")
os.symlink(sys.argv[2], "deps/b")
"""
"""Waits until a folder was judged and sealed, then puts a link in its place."""


@contextmanager
def swapping(root: Path, outside: Path) -> Iterator[None]:
    user = get_build_user() if os.geteuid() == 0 else None
    program = "/usr/bin/python3" if user is not None else sys.executable
    command = (program, "-I", "-S", "-c", SWAP, str(root), str(outside))
    with subprocess.Popen(command, user=user, group=user, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
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


def test_a_link_that_is_swapped_in_while_a_layer_is_sealed_leads_to_no_file_of_the_host(lab: Path) -> None:
    outside = lab / "outside"
    outside.mkdir()
    secret = outside / "file"
    secret.write_text("secret")
    secret.chmod(0o600)
    for number in range(ROUNDS):
        root = lab / str(number)
        tree = make_tree(root)
        with swapping(root, outside), suppress(DependenciesUnavailable, OSError):
            seal_layer(tree, MIB * 64, get_build_user())
        shutil.rmtree(root)
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600, f"in round {number}"


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
