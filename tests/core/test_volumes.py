# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of bones from skins whose volumes are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blender_ik_addon.core import IKError
from blender_ik_addon.core.arrays import FloatArray, IntArray
from blender_ik_addon.core.character.volumes import BoneVolumes, Skin, bone_volumes
from blender_ik_addon.core.model.rotation import matrix_from_rotvec

SIDES = 16
HEIGHTS = np.array([0.0, 0.4, 0.5, 0.6, 1.1, 1.3, 1.5, 2.0])
"""Rings of a tube [m]: the first bone ends at 0.5, the second at 1.3."""
JOINTS = np.array([0.0, 0.5, 1.3])


def tube(radii: FloatArray | None = None, *, caps: bool = True) -> tuple[FloatArray, IntArray]:
    """A tube of rings along z, with or without caps at its ends."""
    radii = np.full(len(HEIGHTS), 0.3) if radii is None else radii
    turn = 2.0 * np.pi * np.arange(SIDES) / SIDES
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    vertices = np.concatenate(
        [np.column_stack([r * ring, np.full(SIDES, z)]) for r, z in zip(radii, HEIGHTS, strict=True)]
    )
    faces: list[tuple[int, int, int]] = []
    for row in range(len(HEIGHTS) - 1):
        for k in range(SIDES):
            a, b = row * SIDES + k, row * SIDES + (k + 1) % SIDES
            faces += [(a, b, b + SIDES), (a, b + SIDES, a + SIDES)]
    top = (len(HEIGHTS) - 1) * SIDES
    if caps:
        faces += [(0, k + 1, k) for k in range(1, SIDES - 1)]
        faces += [(top, top + k, top + k + 1) for k in range(1, SIDES - 1)]
    return vertices, np.array(faces)


def frames(places: FloatArray) -> FloatArray:
    """Joints whose y is along z."""
    made = np.tile(np.eye(4), (len(places), 1, 1))
    made[:, :3, :3] = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    made[:, 2, 3] = places
    return made


PARENTS = np.array([-1, 0, 1])
AREA = 0.5 * SIDES * np.sin(2.0 * np.pi / SIDES) * 0.3**2
"""Of a ring [m²]."""


def bound(vertices: FloatArray, faces: IntArray) -> Skin:
    """Vertices go with the joint below them; a ring at the joint half and half, so that the cut is there."""
    rows = np.arange(len(vertices))
    z = vertices[:, 2]
    at = (np.abs(z - 0.5) < 1e-9) | (np.abs(z - 1.3) < 1e-9)
    below = np.clip(np.searchsorted(JOINTS, z - 1e-9) - 1, 0, 2)
    vertex = np.concatenate([rows, rows[at]])
    joint = np.concatenate([below, below[at] + 1])
    weight = np.concatenate([np.where(at, 0.5, 1.0), np.full(at.sum(), 0.5)])
    return Skin(vertices, faces, vertex, joint, weight)


def of_tube(*, caps: bool = True) -> BoneVolumes:
    return bone_volumes(bound(*tube(caps=caps)), frames(JOINTS), PARENTS)


@pytest.mark.parametrize("caps", [True, False])
def test_parts_of_a_tube_have_their_volumes_and_holes_across_it_do_not_matter(caps: bool):
    made = of_tube(caps=caps)
    # Weights go over from one bone to the next between the rings beside the joint, half of it on each side.
    np.testing.assert_allclose(2.0 * made.shares, [0.5, 0.8, 0.7], atol=1e-12)
    assert made.holes == (0 if caps else 2 * SIDES)
    assert made.unweighted == 0
    if caps:
        assert made.total == pytest.approx(2.0 * AREA)
        assert made.parts == pytest.approx(1.0)


def test_centres_are_in_the_middle_of_what_goes_with_a_bone():
    made = of_tube()
    vertices, faces = tube()
    one = Skin(
        vertices, faces, np.arange(len(vertices)), np.zeros(len(vertices), int), np.ones(len(vertices))
    )
    alone = bone_volumes(one, frames(np.array([0.2])), np.array([-1]))
    np.testing.assert_allclose(alone.centres[0], [0.0, 0.8, 0.0], atol=1e-12)
    # The whole's centre is the mean of the parts'.
    places = JOINTS + made.centres[:, 1]
    assert made.shares @ places == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(made.centres[:, [0, 2]], 0.0, atol=1e-12)


def test_the_centre_beside_the_bone_is_found():
    vertices, faces = tube()
    moved = vertices + np.array([0.1, -0.05, 0.0])
    one = Skin(moved, faces, np.arange(len(moved)), np.zeros(len(moved), int), np.ones(len(moved)))
    made = bone_volumes(one, frames(np.array([0.0])), np.array([-1]))
    np.testing.assert_allclose(made.centres[0], [0.1, 1.0, 0.05], atol=1e-12)


@given(st.integers(0, 2**31))
def test_a_closed_skin_on_one_bone_has_its_volume_and_centre_wherever_the_bone_is(seed: int):
    generator = np.random.default_rng(seed)
    vertices, faces = tube(generator.uniform(0.1, 0.5, len(HEIGHTS)))
    vertices = vertices @ matrix_from_rotvec(generator.normal(size=3)).T + generator.normal(size=3)
    if generator.random() < 0.5:
        faces = faces[:, ::-1]
    frame = np.tile(np.eye(4), (1, 1, 1))
    frame[0, :3, :3] = matrix_from_rotvec(generator.normal(size=3))
    frame[0, :3, 3] = generator.normal(size=3)
    rows = np.arange(len(vertices))
    made = bone_volumes(
        Skin(vertices, faces, rows, np.zeros(len(rows), int), np.ones(len(rows))), frame, np.array([-1])
    )
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    signed = np.einsum("ti,ti->t", a, np.cross(b, c)) / 6.0
    assert made.total == pytest.approx(abs(signed.sum()))
    assert made.parts == pytest.approx(1.0)
    middle = ((a + b + c) / 4.0 * signed[:, None]).sum(axis=0) / signed.sum()
    np.testing.assert_allclose(frame[0, :3, :3] @ made.centres[0] + frame[0, :3, 3], middle, atol=1e-9)


def test_a_bone_in_the_very_middle_of_its_flesh_keeps_its_own_axis():
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.array([each for a, b, c, d in sides for each in ((a, b, c), (a, c, d))])
    cube = Skin(corners, faces, np.arange(8), np.zeros(8, int), np.ones(8))
    made = bone_volumes(cube, frames(np.zeros(1)), np.array([-1]))
    np.testing.assert_allclose(made.centres[0], 0.0, atol=1e-12)
    assert made.total == pytest.approx(1.0) and made.parts == pytest.approx(1.0)


def test_bones_that_carry_nothing_say_nothing_of_where_flesh_goes():
    places = np.concatenate([frames(JOINTS), frames(np.zeros(1))])
    places[3, 0, 3] = 5.0  # a control far aside
    made = bone_volumes(bound(*tube()), places, np.array([-1, 0, 1, 0]))
    np.testing.assert_allclose(2.0 * made.shares, [0.5, 0.8, 0.7, 0.0], atol=1e-12)


@given(st.integers(0, 2**31))
def test_what_goes_with_a_bone_has_its_centre_among_it_however_it_is_weighted(seed: int):
    generator = np.random.default_rng(seed)
    vertices, faces = tube()
    rows = np.arange(len(vertices))
    joint = generator.integers(0, 40, len(rows))  # in patches: fluxes of such say little of volumes
    joint = np.where(joint < 2, joint, 2)
    made = bone_volumes(Skin(vertices, faces, rows, joint, np.ones(len(rows))), frames(JOINTS), PARENTS)
    for number in np.flatnonzero(made.shares):
        centre = frames(JOINTS)[number, :3, :3] @ made.centres[number] + [0.0, 0.0, JOINTS[number]]
        own = vertices[joint == number]
        assert (own.min(axis=0) - 1e-9 <= centre).all() and (centre <= own.max(axis=0) + 1e-9).all()


def test_triangles_without_an_area_are_no_holes():
    vertices, faces = tube()
    again = np.concatenate([vertices, vertices[:1]])
    skin = bound(again, np.concatenate([faces, [[0, len(vertices), 1]]]))
    made = bone_volumes(skin, frames(JOINTS), PARENTS)
    assert made.holes == 0 and made.total == pytest.approx(2.0 * AREA)


def test_split_vertices_and_pieces_inside_out_are_put_right():
    vertices, faces = tube()
    split = vertices[faces.ravel()]  # as in a file whose every face has corners of its own, rounded
    split = split + 1e-9 * np.random.default_rng(1).normal(size=split.shape)
    rows = np.arange(len(split)).reshape(-1, 3)
    second = split + np.array([5.0, 0.0, 0.0])
    both, triangles = np.concatenate([split, second]), np.concatenate([rows, rows[:, ::-1] + len(split)])
    joint = np.repeat([0, 1], len(split))
    places = frames(np.zeros(2))
    places[1, 0, 3] = 5.0
    made = bone_volumes(
        Skin(both, triangles, np.arange(len(both)), joint, np.ones(len(both))), places, np.array([-1, -1])
    )
    assert made.holes == 0
    np.testing.assert_allclose(made.shares, 0.5, atol=1e-8)
    assert made.total == pytest.approx(4.0 * AREA)


def test_the_way_to_its_children_counts_not_where_a_bone_points_or_what_hangs_on_it():
    skin = bound(*tube())
    bag, sides = tube(np.full(len(HEIGHTS), 0.1))  # closed, so it has its volume about any axis
    rows = np.arange(len(bag)) + len(skin.vertices)
    whole = Skin(
        np.concatenate([skin.vertices, bag + np.array([2.0, 0.0, -1.0])]),
        np.concatenate([skin.triangles, sides + len(skin.vertices)]),
        np.concatenate([skin.vertex, rows]),
        np.concatenate([skin.joint, 0 * rows]),
        np.concatenate([skin.weight, np.ones(len(rows))]),
    )
    turned = frames(JOINTS)
    turned[:, :3, :3] = np.eye(3)
    made = bone_volumes(whole, turned, PARENTS)
    np.testing.assert_allclose(made.shares * (2.0 + 2.0 / 9.0), [0.5 + 2.0 / 9.0, 0.8, 0.7], atol=1e-12)


def test_a_patch_whose_bone_is_outside_weighs_nothing():
    skin = bound(*tube())
    right = (np.abs(skin.vertices[:, 2] - 0.4) < 1e-9) & (skin.vertices[:, 0] > 0.25)
    other = (np.abs(skin.vertices[:, 2] - 1.5) < 1e-9) & (skin.vertices[:, 0] < -0.25)
    joint = np.where(right[skin.vertex], 3, np.where(other[skin.vertex], 4, skin.joint))
    places = np.concatenate([frames(JOINTS), frames(np.array([-9.0, 9.0]))])
    places[3:, 0, 3] = 2.0  # its child is above it, so that its axis passes the tube by
    given = Skin(skin.vertices, skin.triangles, skin.vertex, joint, skin.weight)
    made = bone_volumes(given, places, np.array([-1, 0, 1, 0, 3]))
    assert made.shares[3] == 0.0 and made.shares.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(made.centres[3], 0.0)


def test_what_has_no_weight_is_left_out_and_counted():
    skin = bound(*tube())
    kept = skin.joint != 2
    made = bone_volumes(
        Skin(skin.vertices, skin.triangles, skin.vertex[kept], skin.joint[kept], skin.weight[kept]),
        frames(JOINTS),
        PARENTS,
    )
    assert made.shares[2] == 0.0 and made.shares.sum() == pytest.approx(1.0)
    # The ring at the joint goes with what is left of its weights, which fade until the next ring.
    assert made.parts == pytest.approx((0.5 + 0.9) / 2.0)
    assert made.unweighted == 2 * SIDES
    np.testing.assert_array_equal(made.centres[2], 0.0)


def test_skins_that_are_none_are_refused_in_words():
    vertices, faces = tube()
    rows = np.arange(len(vertices))
    empty = np.zeros(0, int)
    with pytest.raises(IKError, match="no vertex of the skin has a weight"):
        bone_volumes(Skin(vertices, faces, empty, empty, np.zeros(0)), frames(JOINTS), PARENTS)
    flat = vertices * [1.0, 1.0, 0.0]
    with pytest.raises(IKError, match="encloses no volume: it is flat"):
        bone_volumes(Skin(flat, faces, rows, rows * 0, np.ones(len(rows))), frames(JOINTS), PARENTS)
    right = np.flatnonzero((np.abs(vertices[:, 2] - 0.4) < 1e-9) & (vertices[:, 0] > 0.25))
    left = np.flatnonzero((np.abs(vertices[:, 2] - 1.5) < 1e-9) & (vertices[:, 0] < -0.25))
    patches = np.concatenate([right, left])
    aside = frames(np.array([-9.0, 0.7]))  # both patches turn their outer side to their bones
    aside[:, 0, 3] = 0.6
    with pytest.raises(IKError, match="goes with bones encloses no volume"):
        joint = np.repeat([0, 1], [len(right), len(left)])
        bone_volumes(Skin(vertices, faces, patches, joint, np.ones(len(joint))), aside, np.array([-1, 0]))
    with pytest.raises(IKError, match="no faces"):
        none = Skin(vertices, np.zeros((0, 3), int), rows, rows * 0, np.ones(len(rows)))
        bone_volumes(none, frames(JOINTS), PARENTS)
    with pytest.raises(IKError, match="not among the 3"):
        bone_volumes(Skin(vertices, faces, rows, rows * 0 + 3, np.ones(len(rows))), frames(JOINTS), PARENTS)
    with pytest.raises(IKError, match="triangles name vertices"):
        Skin(vertices, faces + len(rows), rows, rows, np.ones(len(rows)))
    with pytest.raises(IKError, match="at least 0"):
        Skin(vertices, faces, rows, rows * 0, -np.ones(len(rows)))
    with pytest.raises(IKError, match=r"wanted \(v, 3\)"):
        Skin(vertices[:, :2], faces, rows, rows * 0, np.ones(len(rows)))
    with pytest.raises(IKError, match="finite"):
        Skin(np.full_like(vertices, np.nan), faces, rows, rows * 0, np.ones(len(rows)))
