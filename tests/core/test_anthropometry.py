# SPDX-License-Identifier: GPL-3.0-or-later
"""What bones weigh: people by tables, others by volume; always one whole body."""

import numpy as np
import pytest

from blender_ik_addon.core import IKError, Skeleton
from blender_ik_addon.core.character.anthropometry import MIDDLE, SIDED, BodyMasses, body_masses
from blender_ik_addon.core.character.role_edits import RoleRow, rows_of
from blender_ik_addon.core.character.roles import Role, Side, recognise

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


@pytest.mark.parametrize("gone", [Role.HAND, Role.FOOT, Role.HEAD, Role.HIPS, Role.LOWER_ARM])
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


# [DeLeva1996, table 4] as the Laboratory of Biomechanics and Motor Control, Federal University of ABC, has it
# in its teaching notes (files BSPfemale_ZdeLeva and BSPmale_ZdeLeva): mass and centre of women, of men [1].
TRANSCRIBED = {
    "head": (0.0668, 0.4841, 0.0694, 0.5002),  # from the vertex to the seventh cervical vertebra
    "upper trunk": (0.1545, 0.2077, 0.1596, 0.2999),
    "middle trunk": (0.1465, 0.4512, 0.1633, 0.4502),
    "hips": (0.1247, 0.4920, 0.1117, 0.6115),
    "upper arm": (0.0255, 0.5754, 0.0271, 0.5772),
    "forearm": (0.0138, 0.4559, 0.0162, 0.4574),  # to the centre of the wrist
    "hand to knuckles": (0.0056, 0.7474, 0.0061, 0.7900),
    "hand to fingertips": (0.0056, 0.3427, 0.0061, 0.3624),
    "thigh": (0.1478, 0.3612, 0.1416, 0.4095),
    "shank": (0.0481, 0.4352, 0.0433, 0.4395),  # to the centre of the ankle
    "foot": (0.0129, 0.4014, 0.0137, 0.4415),
}


@pytest.mark.parametrize("name", ["upper arm", "forearm", "thigh", "shank", "foot"])
def test_limbs_are_those_of_another_transcription(name: str):
    women, centre_of_women, men, centre_of_men = TRANSCRIBED[name]
    assert SIDED[name].mass == pytest.approx((women + men) / 2.0)
    assert SIDED[name].centre == pytest.approx((centre_of_women + centre_of_men) / 2.0, abs=1e-3)


def test_trunk_head_and_hands_are_those_of_another_transcription():
    def mean(name: str, column: int) -> float:
        return (TRANSCRIBED[name][column] + TRANSCRIBED[name][column + 2]) / 2.0

    assert MIDDLE["head"].mass == pytest.approx(mean("head", 0))
    assert MIDDLE["head"].centre == pytest.approx(mean("head", 1), abs=0.01)
    assert MIDDLE["chest"].mass == pytest.approx(mean("upper trunk", 0) + mean("middle trunk", 0))
    assert MIDDLE["hips"].mass == pytest.approx(mean("hips", 0))
    hand = SIDED["hand"]
    assert hand.mass == pytest.approx(mean("hand to knuckles", 0))
    assert mean("hand to fingertips", 1) < hand.centre < mean("hand to knuckles", 1)


def test_the_segments_are_one_whole_body():
    whole = sum(segment.mass for segment in MIDDLE.values()) + 2.0 * sum(s.mass for s in SIDED.values())
    assert whole == pytest.approx(1.0, abs=1e-4)
