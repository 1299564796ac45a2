# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries of effectors as plain data, read and checked once. `kinds` makes tasks of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core import Explanation, IKError
from ...core.arrays import FloatArray
from ..animation.dependence import check_independence
from ..armature.armature import NO_SCALE
from ..properties.effector_properties import PINNABLE, PLACED, TURNED, POISE_PG_effector, POISE_PG_target
from ..properties.settings import settings_of

AXES: Final = MappingProxyType(
    {
        f"{sign}_{letter}": tuple(size * float(letter == other) for other in "XYZ")
        for sign, size in (("POS", 1.0), ("NEG", -1.0))
        for letter in "XYZ"
    }
)
"""Axes of a bone by their names in the panel."""

COPIED: Final = ("bone", "kind", "priority", "weight", "chain_depth", "is_support", "stay", "choice")
"""Fields of an entry that an effector takes as they are."""

Vector3 = tuple[float, float, float]


@dataclass(frozen=True)
class Effector:
    """One enabled effector, as plain data. What can be animated is read apart, by `targets.read_amounts`."""

    index: int
    """Place in the list of the armature object."""
    name: str
    """Its name in messages: its own, or that of its bone."""
    bone: str
    kind: str
    """One of `properties.KIND_ITEMS`."""
    target: str
    """Name of the target object, for messages; empty where none is followed."""
    target_bone: str
    """The bone of the target object that is followed; empty for the object itself."""
    priority: int
    weight: float
    point: Vector3
    """Point of the bone in its own axes [m], before the bone's scale."""
    position_axes: tuple[bool, bool, bool]
    """World axes; for STAY those along which bones are located."""
    orientation_axes: tuple[bool, bool, bool]
    """The target's axes; for STAY those about which bones turn."""
    axis: Vector3 = (0.0, 1.0, 0.0)
    """AIM: direction of the ray in the bone's own axes."""
    chain_depth: int = 0
    """How many bones up from its own may move for it; 0 for all."""
    other_bone: str = ""
    """DISTANCE: from which the distance is kept in place of a target; empty for the target."""
    other_point: Vector3 = (0.0, 0.0, 0.0)
    """Point of that bone in its own axes [m]."""
    root_bone: str = ""
    """POLE: with which the limb begins."""
    tip_bone: str = ""
    """POLE: at whose head it ends."""
    is_support: bool = False
    """Whether the body stands on it."""
    softness_position: float = 0.0
    """By about how much its place may be missed, in the world [m]; 0: exactly met."""
    softness_rotation: float = 0.0
    """By about how much its orientation or direction may be missed [rad]; 0: exactly met."""
    stay: str = 'REST'
    """STAY: near which pose, one of `properties.STAY_ITEMS`."""
    whole_body: bool = False
    """STAY: whether all bones stay, or only its own and those below."""
    stored: tuple[tuple[str, Vector3, tuple[float, ...]], ...] = ()
    """STAY: the stored pose: bones, their locations along their own axes [m] and their quaternions."""
    choice: str = 'POSITION'
    """ONE_OF: the kind of goal that each target gives, one of `effector_properties.CHOICE_ITEMS`."""
    others: tuple[str, ...] = ()
    """ONE_OF: names of the further targets, for messages, in their order."""
    pin: tuple[float, ...] | None = None
    """armature_from_bone of where the bone is held, row by row, (16,) [m]; None where it is not pinned."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of all targets, for messages; an empty one where none is followed."""
        return (self.target, *self.others)

    @property
    def position(self) -> bool:
        """Whether the bone's point goes to its target's place."""
        return self.kind in {'POSITION', 'BOTH'}

    @property
    def orientation(self) -> bool:
        """Whether the bone takes its target's orientation."""
        return self.kind in {'ORIENTATION', 'BOTH'}


def read_effectors(armature_object: Object, *, drawing: bool = False) -> tuple[Effector, ...]:
    """Read and check the enabled effectors of an armature object.

    Args:
        armature_object: The armature object.
        drawing: Whether incomplete ones are left out instead of refused.

    Raises:
        IKError: There is none, a bone or target is missing, or a target depends on the armature.
    """
    entries = settings_of(armature_object).effectors
    found: list[Effector] = []
    for index, entry in enumerate(entries):
        if entry.enabled:
            try:
                found.append(_read(armature_object, index, entry))
            except IKError:
                if not drawing:
                    raise
    effectors = tuple(found)
    if not any(entry.enabled for entry in entries):
        state = "all effectors are disabled: enable" if len(entries) else "there are no effectors: add"
        raise IKError(f"{armature_object.name!r}: {state} one in the sidebar, tab Poise")
    return effectors


def label_of(entry: POISE_PG_effector, index: int) -> str:
    """Return the name of an entry for messages."""
    return entry.name or entry.bone or f"number {index + 1}"


def target_use(entry: POISE_PG_effector) -> str:
    """Return whether an entry needs a target: 'NEEDED', 'OPTIONAL' or 'NONE'."""
    if entry.kind == 'STAY' or (entry.pinned and entry.kind in PINNABLE):
        return 'NONE'
    if entry.kind == 'DISTANCE' and entry.other_bone:
        return 'NONE'
    return 'OPTIONAL' if entry.kind == 'BALANCE' else 'NEEDED'


def what_of(entry: POISE_PG_effector) -> str:
    """Return the kind of an entry; for ONE_OF the kind of goal that each of its targets gives."""
    return entry.choice if entry.kind == 'ONE_OF' else entry.kind


def lacks_target(entry: POISE_PG_effector) -> bool:
    """Whether an entry needs a target and has none."""
    if entry.kind == 'ONE_OF' and any(target_of(other) is None for other in entry.others):
        return True
    return target_use(entry) == 'NEEDED' and target_of(entry) is None


def target_of(entry: "POISE_PG_effector | POISE_PG_target") -> Object | None:
    """The target of an entry; None where there is none, or it was deleted.

    An object that is deleted in the viewport leaves the scene, but stays in the file while an entry points to
    it. Then nobody can see or move it, and nothing evaluates it.
    """
    target = entry.target
    if target is None or target.is_missing:  # what is missing from its library can be relinked
        return target
    # By name first, which is quick: panels ask for every effector whenever they are drawn.
    if bpy.context.view_layer.objects.get(target.name) == target or target.users_scene:
        return target
    instanced = {user.instance_collection for user in bpy.data.objects}
    return target if any(target in each.all_objects.values() for each in instanced if each) else None


def all_targets(entry: POISE_PG_effector) -> list[Object]:
    """All targets of an entry, deleted ones included."""
    return [own.target for own in (entry, *entry.others) if own.target is not None]


def _read(armature_object: Object, index: int, entry: POISE_PG_effector) -> Effector:
    label = label_of(entry, index)
    data: Any = armature_object.data
    if entry.bone not in data.bones:
        missing = f"no bone {entry.bone!r} (renamed?)" if entry.bone else "no bone chosen"
        raise IKError(
            f"effector {label!r} has {missing} in {armature_object.name!r}: choose its bone, or disable it"
        )
    _check_numbers(label, entry)
    use = target_use(entry)
    target = None
    if use == 'NEEDED' or (use == 'OPTIONAL' and target_of(entry) is not None):
        target = present_target(label, entry)
        check_independence(label, target, armature_object)
    _check_axes(label, entry)
    root, tip = limb_bones(armature_object, label, entry) if entry.kind == 'POLE' else ("", "")
    if entry.kind == 'DISTANCE' and entry.other_bone:
        _check_other_bone(armature_object, label, entry)
    if entry.kind == 'STAY' and entry.stay == 'STORED' and not len(entry.stored):
        raise IKError(
            f"effector {label!r} has no stored pose: press Store Pose, or choose another pose for it"
        )
    return Effector(
        index=index,
        name=label,
        **{name: getattr(entry, name) for name in COPIED},
        target="" if target is None else target_label(entry) if entry.kind == 'ONE_OF' else target.name,
        target_bone=entry.target_bone if target is not None and target.type == 'ARMATURE' else "",
        softness_position=entry.softness_position if what_of(entry) in PLACED else 0.0,
        softness_rotation=entry.softness_rotation if what_of(entry) in TURNED else 0.0,
        point=_three(entry.point),
        position_axes=(entry.position_axes[0], entry.position_axes[1], entry.position_axes[2]),
        orientation_axes=(entry.orientation_axes[0], entry.orientation_axes[1], entry.orientation_axes[2]),
        axis=_three(AXES[entry.axis]),
        other_bone=entry.other_bone if entry.kind == 'DISTANCE' else "",
        other_point=_three(entry.other_point),
        root_bone=root,
        tip_bone=tip,
        whole_body=entry.stay_scope == 'BODY',
        stored=tuple(
            (bone.name, _three(bone.location), tuple(bone.rotation))
            for bone in (entry.stored if entry.kind == 'STAY' and entry.stay == 'STORED' else ())
        ),
        others=_checked_others(armature_object, label, entry) if entry.kind == 'ONE_OF' else (),
        pin=tuple(entry.pin_matrix) if entry.pinned and entry.kind in PINNABLE else None,
    )


def _three(values: Sequence[float]) -> Vector3:
    return values[0], values[1], values[2]


def _check_numbers(label: str, entry: POISE_PG_effector) -> None:
    """Refuse fields that are not numbers; scripts and drivers can write such values."""
    for field in ("weight", "softness_position", "softness_rotation", "point", "other_point", "pin_matrix"):
        if not np.isfinite(getattr(entry, field)).all():
            name = entry.bl_rna.properties[field].name
            remedy = "pin the bone again" if field == "pin_matrix" else "set it in the sidebar, tab Poise"
            raise IKError(f"effector {label!r}: its {name} is not a number: {remedy}")


def _check_axes(label: str, entry: POISE_PG_effector) -> None:
    """Refuse an effector all of whose axes are off."""
    kind = what_of(entry)
    position = kind in {'POSITION', 'BOTH'} and not any(entry.position_axes)
    orientation = kind in {'ORIENTATION', 'BOTH'} and not any(entry.orientation_axes)
    if position or orientation:
        kind = "position" if position else "orientation"
        raise IKError(f"effector {label!r}: all its {kind} axes are off. Switch one on, or change its kind")
    if entry.kind == 'BALANCE' and not any(entry.position_axes[:2]):
        raise IKError(f"effector {label!r}: its axes X and Y are both off. Switch one on, or disable it")
    if entry.kind == 'STAY' and not (any(entry.position_axes) or any(entry.orientation_axes)):
        raise IKError(f"effector {label!r}: all its axes are off. Switch one on, or disable it")


def limb_bones(armature_object: Object, label: str, entry: POISE_PG_effector) -> tuple[str, str]:
    """Return the bones with which the limb of a pole begins and at whose head it ends.

    Raises:
        IKError: One is missing, or the three do not follow one another.
    """
    data: Any = armature_object.data
    bones, middle = data.bones, data.bones[entry.bone]
    for what, name in (("limb root", entry.root_bone), ("limb tip", entry.tip_bone)):
        if name and name not in bones:
            raise IKError(
                f"effector {label!r}: its {what} {name!r} is no bone of {armature_object.name!r} (renamed?). "
                "Choose another, or none"
            )
    root = bones[entry.root_bone] if entry.root_bone else middle.parent
    if root is None:
        raise IKError(
            f"effector {label!r}: bone {middle.name!r} has no parent, so it is not the middle of a limb. "
            "Choose the bone below the one with which the limb begins: the forearm, the shin"
        )
    tip = bones[entry.tip_bone] if entry.tip_bone else _child_at_tail(armature_object, middle)
    if tip is None:
        raise IKError(
            f"effector {label!r}: bone {middle.name!r} has no child, so its limb has no end. Choose the bone "
            "above the last of the limb: the forearm, the shin"
        )
    if root not in middle.parent_recursive or middle not in tip.parent_recursive:
        raise IKError(
            f"effector {label!r}: {root.name!r}, {middle.name!r} and {tip.name!r} must follow one another "
            "from the body outward, as upper arm, forearm and hand. Choose bone, limb root and limb tip so"
        )
    for first, second in ((root, middle), (middle, tip)):
        if (first.head_local - second.head_local).length <= NO_SCALE:
            raise IKError(
                f"effector {label!r}: {first.name!r} and {second.name!r} begin at the same place, so there "
                "is no limb between them. Choose another limb root or limb tip"
            )
    return root.name, tip.name


def _child_at_tail(armature_object: Object, middle: Any) -> Any:
    """Return the child that goes on from a bone: on the way to another effector, or else the nearest one."""
    ways: set[str] = set()
    for entry in settings_of(armature_object).effectors:
        bone = middle.id_data.bones.get(entry.bone) if entry.enabled else None
        if bone is not None:
            ways.update({bone.name, *(above.name for above in bone.parent_recursive)})

    def far(child: Any) -> tuple[bool, float]:
        return child.name not in ways, (child.head_local - middle.tail_local).length

    return min(middle.children, key=far, default=None)


def _check_other_bone(armature_object: Object, label: str, entry: POISE_PG_effector) -> None:
    data: Any = armature_object.data
    if entry.other_bone not in data.bones:
        raise IKError(
            f"effector {label!r}: its other bone {entry.other_bone!r} is no bone of {armature_object.name!r} "
            "(renamed?). Choose another, or none to keep the distance from its target"
        )
    if entry.other_bone == entry.bone:
        raise IKError(
            f"effector {label!r} is to keep its distance from its own bone {entry.bone!r}, which never "
            "changes. Choose another bone"
        )


def _checked_others(armature_object: Object, label: str, entry: POISE_PG_effector) -> tuple[str, ...]:
    """Return the names of the targets besides the first one, if all are there.

    Two by the same name, from two files, would not be told apart, nor two bones of one armature by its name.
    """
    if not len(entry.others):
        raise IKError(
            f"effector {label!r} has one target to choose from: add another in the sidebar, tab Poise, or "
            "choose another kind"
        )
    for other in entry.others:
        check_independence(label, present_target(label, other), armature_object)
    return tuple(target_label(other) for other in entry.others)


def target_label(entry: "POISE_PG_effector | POISE_PG_target") -> str:
    """Return the name of a target for messages."""
    if entry.target is None:
        return ""
    bone = entry.target_bone if entry.target.type == 'ARMATURE' else ""
    return f"{entry.target.name}, {bone}" if bone else entry.target.name


def present_target(label: str, entry: "POISE_PG_effector | POISE_PG_target") -> Object:
    """Return the target of an entry, if it is there and was not deleted from the scene."""
    target = checked_target(label, entry)
    if target_of(entry) is None:
        raise IKError(
            f"effector {label!r}: its target {target.name!r} is in no scene (deleted?): choose one, make "
            "one, or disable it"
        )
    return target


def checked_target(label: str, entry: "POISE_PG_effector | POISE_PG_target") -> Object:
    """Return the target of an entry, if it is there; fast enough for each frame."""
    target = entry.target
    if target is None:
        raise IKError(f"effector {label!r} has no target (deleted?): choose one, make one, or disable it")
    if target.is_missing:
        where = target.library.filepath if target.library is not None else "its file"
        raise IKError(f"effector {label!r}: its target {target.name!r} is missing from {where}. Relink it")
    if target.type == 'ARMATURE' and entry.target_bone:
        bones: Any = () if target.pose is None else target.pose.bones
        if entry.target_bone not in bones:
            raise IKError(
                f"effector {label!r}: its target {target.name!r} has no bone {entry.target_bone!r} "
                "(renamed?). Choose another bone, or none"
            )
    return target


def orientations(matrices: FloatArray) -> FloatArray:
    """Return rotations without scale, shear and mirroring, (..., 4, 4) -> (..., 3, 3).

    A mirrored matrix is turned inside out first, as Blender does when it shows a rotation. nan where an axis
    has no length, or one that is not a number.
    """
    linear = matrices[..., :3, :3]
    lengths = np.linalg.norm(linear, axis=-2, keepdims=True)
    flat = ~((lengths > NO_SCALE) & np.isfinite(lengths)).all((-2, -1))[..., None, None]
    unit = np.where(flat, np.eye(3), linear) / np.where(flat, 1.0, lengths)
    unit *= np.where(np.linalg.det(unit) < 0.0, -1.0, 1.0)[..., None, None]
    # The nearest rotation: of a sheared matrix no axis is more right than another.
    u, _, vt = np.linalg.svd(unit)
    return np.where(flat, np.nan, u @ vt)


def reasons(
    effectors: Sequence[Effector],
    influences: FloatArray,
    counts: Sequence[int],
    explanations: Sequence[Explanation | None],
    scale: float,
) -> list[str]:
    """Say for each effector why its tasks were missed; nothing where they were met.

    Args:
        effectors: The effectors, (E,).
        influences: How far each takes part, (E,) [1].
        counts: How many tasks with a weight each has, (E,).
        explanations: What the solver says of each of these, in order; None where it was met.
        scale: World metres to one armature unit.
    """
    whys = iter(explanations)
    texts: list[str] = []
    for effector, influence, count in zip(effectors, influences.tolist(), counts, strict=True):
        if influence == 0.0 or effector.weight == 0.0:
            # Its tasks take no part and have no errors; without influence it cannot even be missed.
            texts.append("" if influence == 0.0 else "its weight is 0")
            continue
        missed = [why for why in islice(whys, count) if why is not None]
        parts = [why.why(scale) for why in missed]
        if len(set(parts)) > 1:
            kinds = ("orientation" if why.angular else "position" for why in missed)
            parts = [f"{kind} {part}" for kind, part in zip(kinds, parts, strict=True)]
        texts.append("; ".join(dict.fromkeys(parts)))
    return texts
