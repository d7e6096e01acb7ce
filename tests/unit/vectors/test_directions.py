"""Directions of dense vectors."""

import numpy as np
import pytest

from skillbus.vectors.mean_direction import compute_mean_direction


def test_the_mean_of_directions_has_length_1() -> None:
    assert list(compute_mean_direction(np.array([[1, 0], [0, 1]], np.float32))) == pytest.approx([0.5**0.5, 0.5**0.5])
    assert list(compute_mean_direction(np.array([[0.6, 0.8]], np.float32))) == pytest.approx([0.6, 0.8])


def test_directions_without_a_mean_are_that_of_the_first() -> None:
    assert list(compute_mean_direction(np.array([[1, 0], [-1, 0]], np.float32))) == [1, 0]
