# SPDX-License-Identifier: GPL-3.0-or-later
"""Jacobians and errors for tests of inverses and step rules, on matrices rather than skeletons."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.core.builders import Array

ROUNDING = 1e-10

each_seed = pytest.mark.parametrize("seed", range(3))

CONFLICTS = ["none", "shared row", "rank deficient", "repeated", "more rows than channels"]

each_conflict = pytest.mark.parametrize("conflict", CONFLICTS)


def integers_of_any_rank() -> st.SearchStrategy[Array]:
    """Small integers (m, n), so that rank is exact: full, deficient or none."""

    def matrices(shape: tuple[int, int]) -> st.SearchStrategy[Array]:
        row = st.lists(st.integers(-2, 2), min_size=shape[1], max_size=shape[1])
        return st.lists(row, min_size=shape[0], max_size=shape[0]).map(
            lambda rows: np.array(rows, dtype=float)
        )

    return st.tuples(st.integers(1, 5), st.integers(1, 6)).flatmap(matrices)


def random_level(rng: np.random.Generator, m: int, nv: int, rank: int | None = None) -> tuple[Array, Array]:
    """A Jacobian of some rank and an error e (target − current)."""
    rank = min(m, nv) if rank is None else rank
    return rng.normal(size=(m, rank)) @ rng.normal(size=(rank, nv)), rng.normal(size=m)


def conflicting(rng: np.random.Generator, conflict: str) -> list[tuple[Array, Array]]:
    """Three levels on seven channels whose rows conflict in some way."""
    levels = [random_level(rng, m, 7) for m in (2, 2, 1)]
    if conflict == "shared row":
        levels[1] = np.array([levels[0][0][0], rng.normal(size=7)]), levels[1][1]
    elif conflict == "rank deficient":
        levels[0] = random_level(rng, 3, 7, rank=1)
        levels[1] = random_level(rng, 3, 7, rank=2)
    elif conflict == "repeated":
        levels[1] = rng.normal(size=(2, 2)) @ levels[0][0], levels[1][1]
    elif conflict == "more rows than channels":
        levels = [random_level(rng, m, 7) for m in (3, 6, 4)]
    return levels


def best_after(levels: Sequence[tuple[Array, Array]]) -> list[Array]:
    """J_k dq of each level when it is met as well as those before it allow, by equality constraints."""
    nv = levels[0][0].shape[1]
    dq, basis = np.zeros(nv), np.eye(nv)
    met: list[Array] = []
    for jacobian, e in levels:
        left = jacobian @ basis
        left = np.where(np.abs(left) < 1e-9, 0.0, left)
        dq = dq + basis @ np.linalg.pinv(left, rcond=1e-9) @ (e - jacobian @ dq)
        _, s, vt = np.linalg.svd(left)
        basis = basis @ vt[int((s > 1e-9).sum()) :].T
        met.append(jacobian @ dq)
    return met
