# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches of control rigs: which of two sets of controls the bones follow that carry the mesh.

In a generated rig a limb has controls that are posed directly (FK) and others that Blender's IK follows. A
bone copies both, and a custom property drives the influence that decides between them (Rigify: `IK_FK`).
Where it is set to the other controls, these ones are solved, and the mesh does not move.

Names do not matter: a switch is a custom property of a bone that alone drives an influence by which a bone
follows a control or something else.

So a control that is solved may be on its target while the mesh is elsewhere. A bone that carries the mesh is
meant to follow a control if it begins at the same place at rest and depends on it through bones at that
place, by parents or constraints, switched on or off. It follows where the control alone leads it, by the
influences of a frame, with whatever offset was posed in between (tweaks). Else the mesh is where that bone
is.

A limb that the rig's own IK decides has IK on its lower bone, with a control as its target and another one as
its pole; the hand or foot copies the rotation of the control. No bone of the limb can be solved, the controls
can.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import bpy
import numpy as np
from bpy.types import Object
from bpy.utils import escape_identifier, unescape_identifier

from ...core.arrays import FloatArray
from ...core.messages import Message, both, listed
from ..animation.fcurves import animated_channels, driven_channels
from .armature import Armature, read_all

_SWITCH: Final = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]\["((?:[^"\\]|\\.)*)"\]$')
_INFLUENCE: Final = re.compile(
    r'pose\.bones\["((?:[^"\\]|\\.)*)"\]\.constraints\["((?:[^"\\]|\\.)*)"\]\.influence$'
)

WIDEST: Final = 1e3
"""Largest end [1] of a range that somebody has set; without one it is that of all numbers."""

WHOLE: Final = 0.999
"""Part [1] from which on a bone follows its control alone."""

SAME_HEAD: Final = 1e-3
"""Distance of the heads of bones at the same place at rest [lengths of the control]."""

_LEADING: Final = frozenset({'COPY_TRANSFORMS', 'CHILD_OF', 'ARMATURE'})
"""Types of constraints by which a bone follows another one in all channels."""

_LEAVING: Final = frozenset({'STRETCH_TO', 'COPY_SCALE', 'LIMIT_SCALE', 'MAINTAIN_VOLUME'})
"""Types that change nothing of what leads a bone."""

_COPYING: Final = ('COPY_TRANSFORMS', 'COPY_LOCATION', 'COPY_ROTATION', 'CHILD_OF', 'ARMATURE')
"""Types of constraints by which a bone goes with a control, the one that says most first."""


@dataclass(frozen=True, order=True)
class Switch:
    """A custom property of a bone that decides which controls are followed."""

    bone: str
    name: str

    @property
    def path(self) -> str:
        """Where it is, from the armature object."""
        bone, name = (escape_identifier(part) for part in (self.bone, self.name))
        return f'pose.bones["{bone}"]["{name}"]'


@dataclass(frozen=True)
class Carried:
    """A control, and the bones that should follow it."""

    control: str
    bones: tuple[str, ...]
    """At least one; where it is about the mesh, those that carry it."""
    together: frozenset[str]
    """Bones through which they may depend on the control."""

    def follows(self, posed: Object) -> bool:
        """Whether the control alone leads one of the bones at present, on the evaluated armature object."""
        pose: Any = posed.pose
        return any(self._part(pose.bones, name, frozenset()) >= WHOLE for name in self.bones)

    def _part(self, bones: Any, name: str, seen: frozenset[str]) -> float:
        """Return how much of a bone the control leads [1]."""
        if name == self.control:
            return 1.0
        if name not in self.together or name in seen:
            return 0.0
        bone, seen = bones[name], seen | {name}
        parent = bone.parent if bone.bone.use_inherit_rotation else None
        part = 0.0 if parent is None else self._part(bones, parent.name, seen)
        for constraint in bone.constraints:
            if constraint.mute or not constraint.is_valid or constraint.type in _LEAVING:
                continue
            leaders = _leaders(bone, constraint).items()
            led = sum(weight * self._part(bones, leader, seen) for leader, weight in leaders)
            mixed = part * (1.0 - constraint.influence) + constraint.influence * led
            # One that takes only some of the channels leads no more of the bone than was led before.
            part = mixed if constraint.type in _LEADING else min(part, mixed)
        return part

    def shown(self, posed: Object, matrices: Mapping[str, FloatArray]) -> tuple[str, FloatArray]:
        """Return the bone that is nearest to following, and where the control would be if it went with it.

        Args:
            posed: The evaluated armature object.
            matrices: armature_from_bone of the control and of the bones, (4, 4) each [m].
        """
        data: Any = posed.data
        rest, own = data.bones, matrices[self.control]
        length = max(rest[self.control].length, np.finfo(np.float64).tiny)
        found: list[tuple[float, str, FloatArray]] = []
        for name in self.bones:
            bone_from_control = np.linalg.inv(rest[name].matrix_local) @ rest[self.control].matrix_local
            # A copy makes bones the same in the pose, however they are turned at rest.
            for matrix in (matrices[name] @ np.array(bone_from_control), matrices[name]):
                off = np.linalg.norm((matrix - own)[:3] / (1.0, 1.0, 1.0, length))
                found.append((float(off), name, matrix))
        _, name, matrix = min(found, key=lambda each: each[0])
        return name, matrix


def carried_by(armature_object: Object, controls: Iterable[str]) -> tuple[Carried, ...]:
    """Return which of some bones are controls, with the bones that carry the mesh in their place."""
    pose: Any = armature_object.pose
    data: Any = armature_object.data
    rest = data.bones
    heads = read_all(rest, "head_local", 3)
    found: list[Carried] = []
    for control in dict.fromkeys(controls):
        own = rest[control]
        if own.use_deform:
            continue
        near = np.abs(heads - own.head_local).max(axis=1) <= SAME_HEAD * own.length
        together = frozenset(rest[row].name for row in np.flatnonzero(near).tolist())
        above: dict[str, set[str]] = {}
        """Bone -> those on which it depends, or would if its constraints were switched on."""
        for bone in (pose.bones[name] for name in together):
            parents = set() if bone.parent is None else {bone.parent.name}
            above[bone.name] = parents.union(*(_leaders(bone, constraint) for constraint in bone.constraints))
        reached, last = {control}, {control}
        while last:
            last = {name for name in together - reached if above[name] & last}
            reached |= last
        if bones := tuple(sorted(name for name in reached if rest[name].use_deform)):
            found.append(Carried(control, bones, together))
    return tuple(found)


def _leaders(bone: Any, constraint: Any) -> dict[str, float]:
    """Return the bones of the same armature that are targets of a bone's constraint -> the weight of each."""
    own = bone.id_data.original
    targets = list(constraint.targets) if constraint.type == 'ARMATURE' else [constraint]
    weights = [each.weight if constraint.type == 'ARMATURE' else 1.0 for each in targets]
    whole = sum(weights) or 1.0
    led: dict[str, float] = {}
    for each, weight in zip(targets, weights, strict=True):
        target = getattr(each, "target", None)
        if target is not None and target.original == own and each.subtarget:
            led[each.subtarget] = led.get(each.subtarget, 0.0) + weight / whole
    return led


def switch_hint(armature_object: Object, carried: Carried) -> str:
    """Say which switch decides whether bones follow a control; nothing where none is found."""
    deciding = _deciding(armature_object, [carried.control])
    return Message("switch {deciding} over", deciding=_named(deciding)) if deciding else ""


def notes_on_switches(armature_object: Object, controls: Iterable[str]) -> tuple[str, ...]:
    """Say which switches are set to other controls."""
    found = _unfollowed(armature_object, controls)
    if not found:
        return ()
    all_carried = [each for own in found.values() for each in own]
    lost = dict.fromkeys(each.control for each in all_carried if not each.follows(armature_object))
    return (
        Message(
            "the rig follows other controls (IK) than {lost}: switch {found} over",
            lost=listed(list(lost)),
            found=_named(found),
        ),
    )


def switch_over(armature_object: Object, controls: Iterable[str]) -> tuple[str, ...]:
    """Turn the switches to these controls that may be set; return notes on what was done.

    The scene is updated in between: see `following.held`.
    """
    found = _unfollowed(armature_object, controls)
    keyed = {path for path, _ in animated_channels(armature_object) | driven_channels(armature_object)}
    may_turn = [own for own in found if own.path not in keyed and _may_set(armature_object, own)]
    done = [switch for switch in may_turn if _turn(armature_object, switch, found[switch])]
    left = [switch for switch in found if switch not in done]
    notes = [Message("switched over to these controls (FK): {done}", done=_named(done))] if done else []
    if left:
        notes.append(
            Message(
                "{left} stays as it is: it is animated or driven, or belongs to the library",
                left=_named(left),
            )
        )
    return tuple(notes)


def _may_set(armature_object: Object, switch: Switch) -> bool:
    """Whether the value of a switch is kept when the file is saved."""
    pose: Any = armature_object.pose
    path = f'["{escape_identifier(switch.name)}"]'
    is_own = armature_object.override_library is None
    return is_own or pose.bones[switch.bone].is_property_overridable_library(path)


def _turn(armature_object: Object, switch: Switch, choosing: Iterable[Carried]) -> bool:
    """Set a switch to the end of its range at which bones follow their controls, if there is one."""
    pose: Any = armature_object.pose
    bone = pose.bones[switch.bone]
    before = bone[switch.name]
    limits = bone.id_properties_ui(switch.name).as_dict()
    ends = limits.get("max", 1), limits.get("min", 0)
    for value in (*(ends if max(map(abs, ends)) <= WIDEST else (1, 0)), before):
        bone[switch.name] = type(before)(value)
        armature_object.update_tag()
        bpy.context.view_layer.update()
        if all(each.follows(armature_object) for each in choosing):
            return True
    return False


def _unfollowed(armature_object: Object, controls: Iterable[str]) -> dict[Switch, list[Carried]]:
    """Return those of `_deciding` that are set to other controls."""
    return {
        switch: choosing
        for switch, choosing in _deciding(armature_object, controls).items()
        if not all(each.follows(armature_object) for each in choosing)
    }


def _deciding(armature_object: Object, controls: Iterable[str]) -> dict[Switch, list[Carried]]:
    """Return the switches of controls -> the controls, each with a bone that copies it or another control.

    A switch is a custom property that alone drives the influence of such a copy.
    """
    wanted = set(controls)
    bones: Any = {} if armature_object.pose is None else armature_object.pose.bones
    animation = armature_object.animation_data
    found: dict[Switch, dict[Carried, None]] = {}
    for curve in () if animation is None else animation.drivers:
        variables: Any = () if curve.driver is None else curve.driver.variables
        driven = _INFLUENCE.match(curve.data_path)
        if driven is None or len(variables) != 1 or variables[0].targets[0].id != armature_object:
            continue
        if (switch := _SWITCH.match(variables[0].targets[0].data_path)) is None:
            continue
        name, constraint, holder, prop = map(unescape_identifier, (*driven.groups(), *switch.groups()))
        if name not in bones or holder not in bones or not isinstance(bones[holder].get(prop), int | float):
            continue  # the driver of something that is gone
        copies = {
            own.name: own.subtarget
            for own in bones[name].constraints
            if own.type == 'COPY_TRANSFORMS' and own.target == armature_object
        }
        if constraint in copies and len(set(copies.values())) > 1:
            for control in dict.fromkeys(copies.values()):
                if control in wanted:
                    carried = Carried(control, (name,), frozenset({name}))
                    found.setdefault(Switch(holder, prop), {})[carried] = None
    return {switch: list(found[switch]) for switch in sorted(found)}


def _named(switches: Iterable[Switch]) -> str:
    """Name switches: the property of which bones."""
    by_name: dict[str, list[str]] = {}
    for switch in switches:
        by_name.setdefault(switch.name, []).append(switch.bone)
    return both(
        Message("{name!r} of {bones}", name=name, bones=listed(bones)) for name, bones in by_name.items()
    )


# Controls of limbs that the rig's own IK decides


def control_of(armature_object: Object, armature: Armature, joint: int) -> int | None:
    """Return the joint that is posed to place a joint that the rig decides; None where there is none.

    It begins at the same place at rest, and may be moved.
    """
    skeleton, seen = armature.skeleton, {joint}
    rest = skeleton.armature_from_joint_rest[:, :3, 3]
    data: Any = armature_object.data
    near = SAME_HEAD * data.bones[skeleton.names[joint]].length
    found = [joint]
    for below in found:  # a control may be decided by another one
        for name in _deciding_bones(armature_object, skeleton.names[below]):
            leader = skeleton.index(name)
            if leader in seen or np.abs(rest[leader] - rest[joint]).max() > near:
                continue
            if _may_move(armature_object, armature, name):
                return leader
            seen.add(leader)
            found.append(leader)
    return None


def leader_of(armature_object: Object, armature: Armature, joint: int) -> int:
    """Return the joint of the control by which a joint is carried that hangs on what the rig decides.

    A control begins where what it carries begins at rest, or what is above that, as the hand of a finger. The
    joint itself where there is none, or where the control would move it by no more than its own turning.
    """
    skeleton, data = armature.skeleton, cast(Any, armature_object.data)
    heads, chain = read_all(data.bones, "head_local", 3), skeleton.ancestors(joint)
    for above in chain:
        bone = data.bones[skeleton.names[above]]
        if bone.name not in armature.driven:
            continue
        near = np.abs(heads - bone.head_local).max(axis=1) <= SAME_HEAD * bone.length
        together = frozenset(data.bones[row].name for row in np.flatnonzero(near).tolist())
        for control in sorted(together - armature.driven - {skeleton.names[joint]}):
            if Carried(control, (bone.name,), together).follows(armature_object):
                found = skeleton.index(control)
                others = [own for own in skeleton.ancestors(found) if own not in chain]
                if skeleton.names[joint] in together or skeleton.free[others].any(axis=1).sum() > 1:
                    return leader_of(armature_object, armature, found)
    return joint


def pole_of(armature_object: Object, armature: Armature, joints: Iterable[int]) -> int | None:
    """Return the joint of the pole of the IK of some joints; None where there is none that may be moved."""
    pose: Any = armature_object.pose
    for joint in joints:
        for ik in _acting(pose.bones[armature.skeleton.names[joint]], 'IK'):
            name = ik.pole_subtarget if ik.pole_target == armature_object else ""
            if name and _may_move(armature_object, armature, name):
                return armature.skeleton.index(name)
    return None


def _may_move(armature_object: Object, armature: Armature, name: str) -> bool:
    """Whether nothing decides where a bone is, and it may leave its place."""
    pose: Any = armature_object.pose
    bone = pose.bones[name]
    is_loose = bone.parent is None or not bone.bone.use_connect
    return name not in armature.driven and is_loose and not any(bone.lock_location)


def _deciding_bones(armature_object: Object, name: str) -> Iterator[str]:
    """Name the bones of the same armature that decide where a bone is: by IK of the limb, then by copies."""
    pose: Any = armature_object.pose
    bone = pose.bones[name]
    for kind, own in (('IK', bone), ('IK', bone.parent), *((kind, bone) for kind in _COPYING)):
        for constraint in () if own is None else _acting(own, kind):
            yield from (leader for leader in _leaders(own, constraint) if leader in pose.bones)


def _acting(bone: Any, kind: str) -> Iterator[Any]:
    """Give the constraints of a bone that act and are of a type."""
    for constraint in bone.constraints:
        if constraint.type == kind and constraint.is_valid and not constraint.mute and constraint.influence:
            yield constraint
