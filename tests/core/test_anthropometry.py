# SPDX-License-Identifier: GPL-3.0-or-later
"""What bones weigh: people by tables, others by volume; always one whole body."""

import numpy as np
import pytest

from blender_ik_addon.core import IKError, Skeleton
from blender_ik_addon.core.anthropometry import BodyMasses, body_masses
from blender_ik_addon.core.revision import RoleRow, rows_of
from blender_ik_addon.core.roles import Role, Side, recognise
from tests.core.in_turn import in_turn

from .test_human import figure


def masses_of(skeleton: Skeleton, rows: list[RoleRow]) -> dict[str, float]:
    n = len(skeleton)
    made = body_masses(skeleton.names, np.full(n, 0.2), np.ones(n, dtype=np.bool_), rows)
    assert made.shares.sum() == pytest.approx(1.0)
    return dict(zip(skeleton.names, made.shares.tolist(), strict=True))


def table() -> tuple[Skeleton, list[RoleRow]]:
    skeleton = figure()
    return skeleton, list(rows_of(recognise(skeleton)))


def test_people_weigh_what_the_table_of_segments_says():
    masses = masses_of(*table())
    whole = 99.995  # the means of women and men, of which the tables round each [%]
    assert masses["thigh.L"] == pytest.approx(14.47 / whole, rel=1e-3)
    assert masses["shin.R"] == pytest.approx(4.57 / whole, rel=1e-3)
    assert masses["forearm.L"] == pytest.approx(1.50 / whole, rel=1e-3)
    assert masses["head"] + masses["neck"] == pytest.approx(6.81 / whole, rel=1e-3)
    assert masses["hips"] + masses["spine"] + masses["chest"] == pytest.approx(43.015 / whole, rel=1e-3)
    assert masses["foot.L"] + masses["toe.L"] == pytest.approx(1.33 / whole, rel=1e-3)
    assert masses["shoulder.L"] == 0.0


def test_both_sides_weigh_alike_and_centres_are_where_the_table_has_them():
    skeleton, rows = table()
    n = len(skeleton)
    lengths = np.linspace(0.1, 0.3, n)
    made: BodyMasses = body_masses(skeleton.names, lengths, np.ones(n, dtype=np.bool_), rows)
    for name in ("thigh", "shin", "upper_arm", "forearm", "hand"):
        left, right = skeleton.index(f"{name}.L"), skeleton.index(f"{name}.R")
        assert made.shares[left] == pytest.approx(made.shares[right])
    assert made.centres[skeleton.index("thigh.L")] == pytest.approx(0.385)
    assert made.centres[skeleton.index("upper_arm.R")] == pytest.approx(0.576)


@in_turn("gone", [Role.HAND, Role.FOOT, Role.HEAD, Role.HIPS, Role.LOWER_ARM])
def test_what_has_no_bone_leaves_its_mass_to_its_neighbour(gone: Role):
    skeleton, rows = table()
    before = masses_of(skeleton, rows)
    kept = [row for row in rows if row.role is not gone]
    heirs = {
        Role.HAND: ("hand.L", ["forearm.L"]),
        Role.FOOT: ("foot.L", ["toe.L"]),
        Role.HEAD: ("head", ["neck"]),
        Role.HIPS: ("hips", ["spine", "chest"]),
        Role.LOWER_ARM: ("forearm.L", ["upper_arm.L"]),
    }
    gone_bone, heirs_of = heirs[gone]
    after = masses_of(skeleton, kept)
    assert after[gone_bone] == 0.0
    wanted = before[gone_bone] + sum(before[name] for name in heirs_of)
    assert sum(after[name] for name in heirs_of) == pytest.approx(wanted)


def test_others_and_those_without_a_table_weigh_by_volume():
    skeleton, rows = table()
    lengths = np.linspace(0.1, 0.3, len(skeleton))
    counted = np.arange(len(skeleton)) % 2 == 0
    beast = [*rows, RoleRow("", "head", Role.TAIL, Side.CENTRE)]
    for given in ([], beast):
        made = body_masses(skeleton.names, lengths, counted, given)
        wanted = np.where(counted, lengths**3, 0.0)
        np.testing.assert_allclose(made.shares, wanted / wanted.sum(), atol=1e-15)
        assert not made.by_segments.any()
    none = np.zeros(len(skeleton), dtype=np.bool_)
    assert (body_masses(skeleton.names, lengths, none).shares > 0.0).all()


def test_two_people_weigh_twice_one():
    skeleton, rows = table()
    names = (*skeleton.names, *(f"{name}_2" for name in skeleton.names))
    second = [RoleRow("", f"{row.joint}_2", row.role, row.side, 1) for row in rows]
    n = len(names)
    made = body_masses(names, np.full(n, 0.2), np.ones(n, dtype=np.bool_), [*rows, *second])
    np.testing.assert_allclose(made.shares[: n // 2], made.shares[n // 2 :])
    np.testing.assert_allclose(2.0 * made.shares[: n // 2], list(masses_of(skeleton, rows).values()))


def test_lengths_that_are_none_are_refused():
    with pytest.raises(IKError, match=r"need \(2,\)"):
        body_masses(("a", "b"), np.ones(3), np.ones(2, dtype=np.bool_))
    with pytest.raises(IKError, match="finite"):
        body_masses(("a",), np.array([-1.0]), np.ones(1, dtype=np.bool_))
