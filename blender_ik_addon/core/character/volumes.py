# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a body's volume goes with each of its bones, from the skin that is bound to them.

By the divergence theorem a volume is a flux through its surface, ∫ div F dV = ∫ F·n dA. The skin that goes
with one bone is a piece of the surface that is open where the next bones begin. So we take the field that
points straight away from the bone's axis, F = x⊥/2 with div F = 1: it does not flow through cuts square to
the bone, and a limb's piece has its volume without anything that closes it, as has a mesh with a hole there.
Tetrahedra from a point on the bone would give two thirds of a tube. In the same way ∫ s dV, s along the axis,
is the flux of s x⊥/2, and ∫ x⊥ dV, a component at a time, that of x⊥ u/3.

Weights of vertices share the surface: with weights w, linear on each triangle, bone j has the flux of
w_j F_j. All integrands are then products of up to three functions that are linear on a triangle, and
∫ λ_0^a λ_1^b λ_2^c dA = 2 A a! b! c! / (a + b + c + 2)! is exact.

Where cuts are not square to a bone, at hips and shoulders, the parts do not add up to the whole exactly: the
whole is known by tetrahedra, Σ a·(b×c)/6, and the parts are scaled to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray, IntArray, freeze, frozen
from ..errors import IKError

WELDED: Final = 1e-6
"""Distance, in sizes of the mesh [1], up to which vertices are one: files split them where textures end."""

SHORT: Final = 1e-6
"""Length, in sizes of the mesh [1], up to which a vector has no direction."""

HOLLOW: Final = 1e-9
"""Volume, in cubes of the mesh's size [1], up to which there is none."""

_CORNERS: Final = frozen(
    [[[6, 2, 2], [2, 2, 1], [2, 1, 2]], [[2, 2, 1], [2, 6, 2], [1, 2, 2]], [[2, 1, 2], [1, 2, 2], [2, 2, 6]]]
)
"""60 times ∫ λ_c λ_a λ_b dA over a triangle of area 1, (3, 3, 3) [1]."""


@dataclass(frozen=True)
class Skin:
    """Triangles, and which bones their vertices go with."""

    vertices: FloatArray
    """(v, 3) [m]."""
    triangles: IntArray
    """Rows of `vertices`, (t, 3); which way round does not matter, as long as it is one way in a piece."""
    vertex: IntArray
    """Of each weight, its vertex, (e,)."""
    joint: IntArray
    """Its joint, (e,)."""
    weight: FloatArray
    """How much the vertex goes with the joint, (e,), at least 0; those of a vertex need not add up to 1."""

    def __post_init__(self) -> None:
        freeze(self, "vertices", "weight")
        freeze(self, "triangles", "vertex", "joint", dtype=np.int64)
        v, count = len(self.vertices), len(self.weight)
        if self.vertices.shape != (v, 3) or self.triangles.shape != (len(self.triangles), 3):
            raise IKError(
                f"vertices {self.vertices.shape} and triangles {self.triangles.shape}: wanted (v, 3) "
                "and (t, 3)"
            )
        if not self.vertex.shape == self.joint.shape == self.weight.shape == (count,):
            raise IKError("weights need as many vertices and joints, one of each for every weight")
        for what, rows in (("triangles", self.triangles), ("weights", self.vertex)):
            if rows.size and not (rows.min() >= 0 and rows.max() < v):
                raise IKError(f"{what} name vertices that are not among the {v} there are")
        if not np.isfinite(self.vertices).all():
            raise IKError("vertices of the skin must be finite")
        if not (np.isfinite(self.weight) & (self.weight >= 0.0)).all():
            raise IKError("weights of the skin must be finite and at least 0")


@dataclass(frozen=True)
class BoneVolumes:
    """What of a body's volume goes with each bone, and where it is."""

    shares: FloatArray
    """Part of the whole, (n,) [1]; they add up to 1."""
    centres: FloatArray
    """Its centre in the joint's own axes, (n, 3) [m]; 0 where there is no share."""
    total: float
    """Volume of the whole skin [m³]; of one with holes that of the cone over it as well."""
    parts: float
    """What the parts come to before they are scaled, by `total` [1]: 1 if all cuts are square."""
    holes: int
    """Edges with a triangle on one side only."""
    unweighted: int
    """Vertices of triangles that go with no joint: what they cover is left out."""

    def __post_init__(self) -> None:
        freeze(self, "shares", "centres")


def bone_volumes(skin: Skin, armature_from_joint: FloatArray, parents: IntArray) -> BoneVolumes:
    """Share the volume of a skin among the joints that it goes with.

    Args:
        skin: In armature space.
        armature_from_joint: Where the joints are in the pose in which the skin is given, (n, 4, 4).
        parents: Of the joints, (n,); -1 for none.

    Raises:
        IKError: No vertex of a triangle has a weight, or the skin encloses nothing.
    """
    n = len(armature_from_joint)
    if skin.joint.size and not (skin.joint.min() >= 0 and skin.joint.max() < n):
        raise IKError(f"weights name joints that are not among the {n} there are")
    if not len(skin.triangles):
        raise IKError("the skin has no faces")
    size = float(np.ptp(skin.vertices[skin.triangles.ravel()], axis=0).max())
    sums = np.bincount(skin.vertex, skin.weight, len(skin.vertices))
    weight = skin.weight / np.where(sums > 0.0, sums, 1.0)[skin.vertex]  # 1 for each vertex together
    unweighted = int((sums[np.unique(skin.triangles)] <= 0.0).sum())
    if unweighted == len(np.unique(skin.triangles)):
        raise IKError("no vertex of the skin has a weight for a bone of the armature")
    triangles, total, holes = _outward(skin, size)
    if abs(total) <= HOLLOW * size**3:
        raise IKError("the skin encloses no volume: it is flat, or its faces point here and there")
    axes = _axes(skin, weight, armature_from_joint, parents, SHORT * size)
    volumes, moments = _fluxes(skin, triangles, weight, armature_from_joint[:, :3, 3], axes)
    volumes = np.maximum(volumes, 0.0)
    whole = float(volumes.sum())
    if whole <= HOLLOW * size**3:
        raise IKError("the skin that goes with bones encloses no volume")
    centres = _centres(skin, armature_from_joint, volumes, moments)
    return BoneVolumes(volumes / whole, centres, total, whole / total, holes, unweighted)


def _outward(skin: Skin, size: float) -> tuple[IntArray, float, int]:
    """Triangles with each connected piece turned outward, their volume, and the edges of holes."""
    step = max(WELDED * size, np.finfo(float).tiny)
    grid: FloatArray = np.rint((skin.vertices - skin.vertices.min(axis=0)) / step)
    welded = np.unique(grid, axis=0, return_inverse=True)[1].reshape(-1)[skin.triangles]  # (t, 3)
    label, before = np.arange(int(welded.max()) + 1), np.zeros(0)
    while not np.array_equal(label, before):
        before = label.copy()
        np.minimum.at(label, welded.ravel(), np.repeat(label[welded].min(axis=1), 3))
        label = label[label]
    piece = np.unique(label[welded[:, 0]], return_inverse=True)[1].reshape(-1)  # (t,)
    corners = skin.vertices[skin.triangles]  # (t, 3, 3)
    middles = _summed(piece, corners.mean(axis=1), int(piece.max()) + 1) / np.bincount(piece)[:, None]
    a, b, c = np.moveaxis(corners - middles[piece][:, None], 1, 0)
    volumes = np.bincount(piece, np.einsum("ti,ti->t", a, np.cross(b, c)) / 6.0)
    triangles = np.where((volumes < 0.0)[piece][:, None], skin.triangles[:, ::-1], skin.triangles)
    edges = np.sort(np.concatenate([welded[:, [0, 1]], welded[:, [1, 2]], welded[:, [2, 0]]]), axis=1)
    counts = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0, return_counts=True)[1]
    return triangles, float(np.abs(volumes).sum()), int((counts == 1).sum())


def _axes(
    skin: Skin, weight: FloatArray, armature_from_joint: FloatArray, parents: IntArray, short: float
) -> FloatArray:
    """Unit axes along the skin of each joint, (n, 3): to its children that have skin, else to its middle.

    The bones themselves may point anywhere, in many files away from their skin.
    """
    n, heads = len(armature_from_joint), armature_from_joint[:, :3, 3]
    sums = np.bincount(skin.joint, weight, n)
    middles = _summed(skin.joint, weight[:, None] * skin.vertices[skin.vertex], n)
    middles /= np.where(sums > 0.0, sums, 1.0)[:, None]
    children = np.flatnonzero((parents >= 0) & (sums > 0.0))
    below = np.bincount(parents[children], minlength=n)[:, None]
    ends = _summed(parents[children], heads[children], n) / np.maximum(below, 1)
    axes = armature_from_joint[:, :3, 1].copy()
    for way in (middles - heads, np.where(below > 0, ends, middles) - heads):  # what is found last counts
        lengths = np.linalg.norm(way, axis=1)
        shown = (sums > 0.0) & (lengths > short)
        axes[shown] = way[shown] / lengths[shown, None]
    return axes / np.linalg.norm(axes, axis=1, keepdims=True)


def _fluxes(
    skin: Skin, triangles: IntArray, weight: FloatArray, heads: FloatArray, axes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Volumes (n,) [m³] and first moments about the heads (n, 3) [m⁴]."""
    n = len(heads)
    # A row for each weight at each corner: the weights of a vertex stand together.
    order = np.argsort(skin.vertex, kind="stable")
    starts = np.searchsorted(skin.vertex[order], np.arange(len(skin.vertices) + 1))
    counts = np.diff(starts)[triangles.ravel()]  # (3t,)
    corner_of = np.repeat(np.arange(triangles.size), counts)
    within = np.arange(len(corner_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    entry = order[starts[triangles.ravel()][corner_of] + within]
    face, corner = np.divmod(corner_of, 3)
    joint, share = skin.joint[entry], weight[entry]
    points = skin.vertices[triangles]  # (t, 3, 3)
    area = 0.5 * np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])  # (t, 3): A n
    away = points[face] - heads[joint][:, None]  # (e, 3, 3)
    axis = axes[joint]
    along = np.einsum("eki,ei->ek", away, axis)  # s at the corners
    across = away - along[..., None] * axis[:, None]  # x⊥ at the corners
    flow = np.einsum("eki,ei->ek", across, area[face])  # A x⊥·n at the corners
    summed = flow.sum(axis=1) + np.take_along_axis(flow, corner[:, None], axis=1)[:, 0]
    # ∫ λ_c g dA = A (Σ g + g_c) / 12, and F = x⊥/2
    volumes = _summed(joint, (share * summed / 24.0)[:, None], n)[:, 0]
    products = np.einsum("ekl,el->ek", _CORNERS[corner], flow) / 60.0  # (e, 3)
    first = 0.5 * np.einsum("ek,ek->e", along, products)[:, None] * axis
    first += np.einsum("eki,ek->ei", across, products) / 3.0
    return volumes, _summed(joint, share[:, None] * first, n)


def _summed(rows: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Values (e, k) added up in their rows, (count, k)."""
    columns = [np.bincount(rows, column, count) for column in values.T]
    return np.asarray(np.stack(columns, axis=1), dtype=np.float64)


def _centres(
    skin: Skin, armature_from_joint: FloatArray, volumes: FloatArray, moments: FloatArray
) -> FloatArray:
    """Centres in the joints' own axes, (n, 3) [m], within the boxes round what goes with each."""
    heads, inverses = armature_from_joint[:, :3, 3], np.linalg.inv(armature_from_joint[:, :3, :3])
    counted = skin.weight > 0.0
    joint = skin.joint[counted]
    away = skin.vertices[skin.vertex[counted]] - heads[joint]
    own = np.einsum("eij,ej->ei", inverses[joint], away)
    low, high = np.full((len(heads), 3), np.inf), np.full((len(heads), 3), -np.inf)
    np.minimum.at(low, joint, own)
    np.maximum.at(high, joint, own)
    has = volumes > 0.0
    centres = np.zeros((len(heads), 3))
    middles = moments[has] / volumes[has, None]
    centres[has] = np.clip(np.einsum("nij,nj->ni", inverses[has], middles), low[has], high[has])
    return centres
