"""Centring: what is taken from vectors that all lie in one cone."""

from pathlib import Path

import numpy as np
import pytest

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.embedder.adapters.local.e5.model import Centring, load_e5_centring

DIM = 16


def cone(seed: int, count: int = 400) -> np.ndarray:
    """Unit vectors around one axis, which differ most along a second one."""
    rows = np.random.default_rng(seed).normal(size=(count, DIM)) * ([1.0, 6.0] + [1.0] * (DIM - 2))
    rows[:, 0] += 20 + seed
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def centring() -> Centring:
    return Centring.build(cone(1).mean(axis=0), cone(2).mean(axis=0), np.eye(DIM, dtype=np.float32)[1])


def test_unrelated_vectors_are_no_longer_alike(centring: Centring) -> None:
    queries, documents = cone(3), cone(4)
    centred = centring.apply(queries, TextRole.QUERY), centring.apply(documents, TextRole.DOCUMENT)
    assert (queries @ documents.T).mean() > 0.8
    assert abs((centred[0] @ centred[1].T).mean()) < 0.05


def test_what_is_left_has_length_1_and_nothing_along_the_direction(centring: Centring) -> None:
    rows = centring.apply(cone(3), TextRole.QUERY)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.allclose(rows @ centring.direction, 0, atol=1e-5)


def test_each_role_has_its_own_mean(centring: Centring) -> None:
    rows = cone(3)
    assert not np.allclose(centring.apply(rows, TextRole.QUERY), centring.apply(rows, TextRole.DOCUMENT), atol=1e-3)


def test_the_digest_tells_other_numbers(centring: Centring, tmp_path: Path) -> None:
    query_mean, document_mean, direction = centring.query_mean, centring.document_mean, centring.direction
    np.savez(tmp_path / "a.npz", query_mean=query_mean, document_mean=document_mean, direction=direction)
    read = Centring.load(tmp_path / "a.npz")
    assert read.digest == centring.digest
    assert np.array_equal(read.apply(cone(3), TextRole.QUERY), centring.apply(cone(3), TextRole.QUERY))
    assert Centring.build(document_mean, query_mean, direction).digest != centring.digest


def test_the_numbers_of_e5_come_with_the_package() -> None:
    shipped = load_e5_centring()
    assert shipped.query_mean.shape == shipped.document_mean.shape == shipped.direction.shape == (384,)
    assert np.linalg.norm(shipped.direction) == pytest.approx(1, abs=1e-5)
