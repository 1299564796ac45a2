# SPDX-License-Identifier: GPL-3.0-or-later
"""Set-ups in files: effectors, limits, stiffness and settings by the roles of bones.

A preset is JSON in the user's folder of the extension:

    {"format": "poise preset", "version": 1, "size": 1.75,
     "settings": {"method": "PRIORITY", ...},
     "effectors": [{"bone": {"name": "hand.L", "role": "HAND", "side": "LEFT", "figure": 0, "number": 0},
                    "kind": "BOTH", "priority": 1, ...}],
     "joints": [{"bone": {...}, "axes": [[...], ...], "bend": 0.37, "lower": [...], ...}],
     "masses": [{"bone": {...}, "mass": 5.6}]}

A bone is found by its role and side and by which of several such bones it is; without a role by its name.
Missing bones are reported and left out. Limits are about the axes of their bone, so the file has these axes
along the limb ("axes": bend, bone, and across to both, as columns of the bone's own frame): on a bone with
other axes limits are exchanged and turned round; where the axes are askew the bone keeps its limits. Elbows
and knees count from straight ("bend" at rest). A stored pose ("stored" of an effector) is turned in the same
way; it counts from the rest pose, and its locations are in sizes of the figure.

The sole of a foot that rolls is found from the bones, as Foot Roll does. A file has what was changed of it
by hand ("sole" of an effector): by how much heel, ball and tip were moved, forwards, up and outwards in
lengths of the sole, and the toe bone if another one was chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core.amounts import number_of_bones, number_of_effectors
from ...core.arrays import FloatArray
from ...core.character.roles import Bend, Character, Role
from ...core.character.roles.structure import TINY
from ...core.errors import IKError
from ...core.messages import Message, listed, sentences
from ...core.model.rotation import EULER_ORDERS, order_index
from ...core.model.skeleton import Skeleton
from ..armature.armature import check_armature, read_armature
from ..armature.limits import BoneLimits, joint_entries, limits_of, store_limits, turned_limits
from ..armature.role_table import SIDE_NAMES, read_character
from ..effectors.effectors import check_present
from ..effectors.entries import add_effector, free_name, hold, make_target
from ..effectors.feet import is_rolling
from ..effectors.masses import mass_entries, set_bone_masses
from ..kinds.kinds import KINDS
from ..properties.overrides import refilled
from ..properties.settings import (
    FOOT_POINTS,
    FURTHER_BONES,
    SIDES,
    SOLE_AXES,
    POISE_PG_effector,
    POISE_PG_joint,
    plain,
    settings_of,
)
from .feet import feet_of, find_sole, set_sole
from .preset_files import EFFECTOR_FIELDS, LENGTHS, POINTS, SETTINGS, read_preset, write_preset
from .setup import show_as_part

PARALLEL: Final = 1e-6
"""Sine of the angle between a bone and an axis [1] up to which they are parallel."""


@dataclass(frozen=True)
class PresetReport:
    """Report of saving or loading a preset."""

    path: str
    effectors: tuple[str, ...]
    """Names of effectors that were written or set."""
    bones: tuple[str, ...]
    """Bones whose limits and stiffness were written or set."""
    missing: tuple[str, ...]
    """Bones of the preset that are not here, by role or name."""
    notes: tuple[str, ...]
    """Remarks, one sentence each."""

    def summary(self) -> str:
        """Return what was done, for the status bar."""
        text = Message(
            "{effectors} and limits of {bones}: {preset}",
            effectors=number_of_effectors(len(self.effectors)),
            bones=number_of_bones(len(self.bones)),
            preset=Path(self.path).stem,
        )
        missing = (Message("not here: {missing}", missing=listed(self.missing)),) if self.missing else ()
        return sentences(text, *missing, *self.notes)


def save_preset(armature_object: Object, path: Path) -> PresetReport:
    """Write the set-up of an armature object into a file (IKError: either cannot be read or written)."""
    check_armature(armature_object)
    bones = _Bones.read(armature_object)
    settings = settings_of(armature_object)
    joints = [entry for name, entry in joint_entries(armature_object).items() if name in bones.skeleton.names]
    masses = [entry for name, entry in mass_entries(armature_object).items() if name in bones.skeleton.names]
    data = {
        "size": bones.size,
        "settings": {name: plain(getattr(settings, name)) for name in SETTINGS},
        "effectors": [_effector_record(bones, entry) for entry in settings.effectors],
        "joints": [_joint_record(bones, entry) for entry in joints],
        "masses": [{"bone": bones.record(entry.name), "mass": entry.mass} for entry in masses],
    }
    write_preset(path, data)
    names = tuple(entry.name for entry in settings.effectors)
    return PresetReport(str(path), names, tuple(entry.name for entry in joints), (), ())


def load_preset(armature_object: Object, path: Path) -> PresetReport:
    """Set an armature object up as a file says; effectors for the same parts or bones are set anew.

    Raises:
        IKError: The armature cannot be posed, or the file is no preset or broken; nothing is changed then.
    """
    check_present(armature_object)
    data = read_preset(path)
    bones = _Bones.read(armature_object)
    # A sole is as much thicker as the figure is larger.
    scale = bones.size / data["size"] if data["size"] else 1.0
    own = {name: value * scale for name, value in data["settings"].items() if name in LENGTHS}
    _apply(settings_of(armature_object), {**data["settings"], **own}, SETTINGS)
    notes: list[str] = []
    effectors: list[str] = []
    for record in data["effectors"]:
        lengths = {name: record[name] * scale for name in LENGTHS if name in record}
        effectors += _load_effector(bones, {**record, **lengths}, notes)
    joints = {bone: record for record in data["joints"] if (bone := bones.find(record["bone"]))}
    limited = tuple(bone for bone, record in joints.items() if _load_joint(bones, bone, record))
    masses = {bone: record["mass"] for record in data["masses"] if (bone := bones.find(record["bone"]))}
    set_bone_masses(armature_object, masses)
    if askew := [bone for bone in joints if bone not in limited]:
        notes.append(
            Message(
                "limits left as they were, because the axes of the bones lie askew: {askew}",
                askew=listed(askew),
            )
        )
    missing = tuple(dict.fromkeys(bones.missing))
    return PresetReport(str(path), tuple(effectors), limited, missing, tuple(notes))


@dataclass(frozen=True)
class _Bones:
    """The bones of an armature, by their roles."""

    armature_object: Object
    skeleton: Skeleton
    character: Character
    lengths: Mapping[str, float]
    size: float
    """Of the first figure, or of the whole skeleton, in the world [m]."""
    own_size: float
    """The same in the armature's own units."""
    missing: list[str] = field(default_factory=list)
    """Bones that were looked for and are not here."""

    @classmethod
    def read(cls, armature_object: Object) -> "_Bones":
        skeleton = read_armature(armature_object).skeleton
        character, _ = read_character(armature_object, skeleton)
        data: Any = armature_object.data
        size = float(character.figures[0].size if character.figures else skeleton.reach)
        lengths = {bone.name: bone.length for bone in data.bones}
        scale = armature_object.matrix_world.median_scale
        return cls(armature_object, skeleton, character, lengths, size * scale, size or 1.0)

    def record(self, bone: str) -> dict[str, Any]:
        """Return what a bone is in a file."""
        choice = self.character.choice_of(bone)
        if choice is None:
            return {"name": bone}
        number = self.character.joints_of(choice.role, choice.side, choice.figure).index(choice.joint)
        role, side = choice.role.name, SIDE_NAMES[choice.side]
        return {"name": bone, "role": role, "side": side, "figure": choice.figure, "number": number}

    def find(self, record: Mapping[str, Any]) -> str:
        """Return the bone of a file: by role, else by name; empty, and noted as missing, without it."""
        role, name, side = str(record.get("role", "")), str(record.get("name", "")), record.get("side")
        if role in Role.__members__ and str(side) in SIDES:
            joints = self.character.joints_of(Role[role], SIDES[str(side)], record.get("figure", 0))
            number = record.get("number", 0)
            if isinstance(number, int) and 0 <= number < len(joints):
                return self.skeleton.names[joints[number]]
        if name in self.skeleton.names and (not role or self.character.choice_of(name) is None):
            return name
        if "role" in record:
            lateral = "" if side == 'CENTRE' else f"{str(side).lower()} "
            self.missing.append(f"{lateral}{role.lower().replace('_', ' ')} ({name})")
        else:
            self.missing.append(name or Message("a bone without a name"))
        return ""

    def sole(self, entry: POISE_PG_effector) -> dict[str, Any] | None:
        """Return the sole of the foot of an effector as it is found from the bones; None without one."""
        limb = feet_of(self.skeleton, self.character).get(entry.part) if is_rolling(entry) else None
        if limb is None:
            return None
        return find_sole(self.armature_object, self.skeleton, self.character, limb, entry.bone)

    def frame(self, bone: str) -> tuple[FloatArray, float, FloatArray | None]:
        """Return the limb's frame in that of a bone, (3, 3), its bend at rest [rad], and the bend's axis."""
        joint = self.skeleton.index(bone)
        rest = self.skeleton.armature_from_joint_rest
        own = rest[joint, :3, :3]
        about, along, bend, axis = own[:, 0], own[:, 1], 0.0, None
        limb = next((limb for limb in self.character.limbs if joint in limb.joints), None)
        if limb is not None:
            place = limb.joints.index(joint)
            if place + 1 < len(limb.joints):
                away = rest[limb.joints[place + 1], :3, 3] - rest[joint, :3, 3]
                along = away if np.linalg.norm(away) > TINY else along
            about = self.character.figures[limb.figure].left if self.character.figures else np.eye(3)[0]
            if limb.bend_axis is not None:
                about = limb.bend_axis
                if limb.roles[place] in {Role.LOWER_ARM, Role.LOWER_LEG}:
                    bend = -limb.bend_angle if limb.bend is Bend.INVERTED else limb.bend_angle
                    axis = own.T @ limb.bend_axis
        y = along / np.linalg.norm(along)
        x = about - (about @ y) * y
        x = x / np.linalg.norm(x) if np.linalg.norm(x) > PARALLEL else own[:, 0]
        return own.T @ np.stack([x, y, np.cross(x, y)], axis=1), bend, axis


def _apply(owner: Any, values: Mapping[str, Any], names: Sequence[str]) -> None:
    """Write the values that a file has into properties."""
    for name in names:
        if name in values:
            setattr(owner, name, values[name])


def _effector_record(bones: _Bones, entry: POISE_PG_effector) -> dict[str, Any]:
    record: dict[str, Any] = {name: plain(getattr(entry, name)) for name in EFFECTOR_FIELDS}
    further = {name: bone for name in FURTHER_BONES if (bone := getattr(entry, name))}
    record |= {name: bones.record(bone) for name, bone in ({"bone": entry.bone} | further).items()}
    for name, of_bone in POINTS.items():
        length = bones.lengths.get(getattr(entry, of_bone), 1.0) or 1.0
        record[name] = (np.array(getattr(entry, name)) / length).tolist()
    if len(entry.others):
        record["others"] = len(entry.others)
    found = bones.sole(entry)
    if found is not None:
        axes, length = _sole_frame(found)
        changes = {name: np.array(getattr(entry, name)) - found[name] for name in FOOT_POINTS}
        moved = {name: np.round(axes.T @ change / length, 6) + 0.0 for name, change in changes.items()}
        record["sole"] = {name: change.tolist() for name, change in moved.items()}
        if entry.toe_bone != found["toe_bone"]:
            record["sole"]["toe_bone"] = bones.record(entry.toe_bone) if entry.toe_bone else None
    if entry.kind == 'STAY' and entry.stay == 'STORED':
        record["stored"] = [
            {
                "bone": bones.record(bone.name),
                "axes": bones.frame(bone.name)[0].tolist(),
                "location": (np.array(bone.location) / bones.own_size).tolist(),
                "rotation": list(bone.rotation),
            }
            for bone in entry.stored
            if bone.name in bones.skeleton.names
        ]
    return record


def _load_effector(bones: _Bones, record: Mapping[str, Any], notes: list[str]) -> tuple[str, ...]:
    """Make or set one effector; return its name, or nothing if it cannot be on this armature."""
    found: dict[str, str] = {}
    for name in ("bone", *FURTHER_BONES):
        if name in record and not found.setdefault(name, bones.find(record[name])):
            return ()
    entries = settings_of(bones.armature_object).effectors
    bone, part, kind = found["bone"], record.get("part", ""), record.get("kind", 'BOTH')
    same = [index for index, entry in enumerate(entries) if part and entry.part == part]
    same += [index for index, entry in enumerate(entries) if (entry.bone, entry.kind) == (bone, kind)]
    try:
        index = same[0] if same else add_effector(bones.armature_object, bone, kind=kind, make_target=False)
    except IKError as error:  # no pole on a bone that is the middle of no limb
        notes.append(error.message)
        return ()
    entry = entries[index]
    was = entry.state
    _apply(entry, record, EFFECTOR_FIELDS)
    _apply(entry, found, tuple(found))
    for name, of_bone in POINTS.items():
        if name in record:
            point = np.array(record[name]) * bones.lengths.get(getattr(entry, of_bone), 1.0)
            setattr(entry, name, point.tolist())
    entry.name = free_name(entries, entry.name, entry)
    if is_rolling(entry):
        _load_sole(bones, entry, record.get("sole", {}), notes)
    if entry.kind == 'STAY' and entry.stay == 'STORED':
        _load_stored(bones, entry, record.get("stored", []), notes)
    kind = KINDS[entry.kind]
    holds = kind.pinnable and entry.state in {'PIN', 'FOLLOW'}
    try:
        if not same and (holds or kind.target_use(entry) != 'NONE'):
            target = make_target(bones.armature_object, index)
            show_as_part(bones.armature_object, target, entries[index].part, bones.size)
            while len(entries[index].others) < record.get("others", 0):
                make_target(bones.armature_object, index)
        if holds and (not same or was != entry.state):  # where its bone is now
            hold(bones.armature_object, entries[index], entries[index].state)
    except IKError as error:  # a bone that is scaled to nothing
        notes.append(error.message)
    return (entries[index].name,)


def _sole_frame(sole: Mapping[str, Any]) -> tuple[FloatArray, float]:
    """Return the axes of a sole, forwards, up and outwards as columns (3, 3), and its length."""
    way = sole["tip_point"] - sole["heel_point"]  # both are on the floor where they are found
    length = float(np.linalg.norm(way)) or 1.0
    return np.stack([way / length, *(sole[name] for name in SOLE_AXES)], axis=1), length


def _load_sole(bones: _Bones, entry: POISE_PG_effector, record: Mapping[str, Any], notes: list[str]) -> None:
    """Find the sole of a foot that rolls and change it as a file says; without a foot nothing rolls."""
    sole = bones.sole(entry)
    if sole is None:
        entry.rolls = False
        notes.append(
            Message(
                "effector {entry!r}: Foot Roll is off, because {bone!r} is no foot here. Look at the roles "
                "of the feet (tab Poise, Roles), then press Foot Roll",
                entry=entry.name,
                bone=entry.bone,
            )
        )
        return
    axes, length = _sole_frame(sole)
    for name in FOOT_POINTS:
        sole[name] = sole[name] + axes @ np.array(record.get(name, (0.0,) * 3)) * length
    if "toe_bone" in record:
        toe = record["toe_bone"]
        sole["toe_bone"] = bones.find(toe) or sole["toe_bone"] if toe else ""
    set_sole(bones.armature_object, entry, sole)


def _load_stored(
    bones: _Bones, entry: POISE_PG_effector, records: Sequence[Mapping[str, Any]], notes: list[str]
) -> None:
    """Give an effector the stored pose of a file; without any it stays near the rest pose."""
    here = {bone: record for record in records if (bone := bones.find(record["bone"]))}
    stored = refilled(entry.stored, len(here)) if here else []
    for (name, record), bone in zip(here.items(), stored, strict=True):
        turn = bones.frame(name)[0] @ np.array(record["axes"]).T  # own axes here from those of the file
        w, *axis = record["rotation"]
        rotation = np.array([w, *(turn @ np.array(axis))])
        bone.name, bone.rotation = name, (rotation / np.linalg.norm(rotation)).tolist()
        bone.location = (turn @ np.array(record["location"]) * bones.own_size).tolist()
    if not len(entry.stored):
        entry.stay = 'REST'
        notes.append(
            Message(
                "effector {entry!r}: there is no stored pose for it here, so it stays near the rest pose. "
                "Press Store Pose to give it one",
                entry=entry.name,
            )
        )


def _joint_record(bones: _Bones, entry: POISE_PG_joint) -> dict[str, Any]:
    pose: Any = bones.armature_object.pose
    limits = limits_of(pose.bones[entry.name], entry)
    axes, bend, _ = bones.frame(entry.name)
    return {
        "bone": bones.record(entry.name),
        "axes": np.round(axes, 6).tolist(),
        "bend": round(bend, 6),
        "lower": [None if np.isinf(value) else value for value in limits.lower.tolist()],
        "upper": [None if np.isinf(value) else value for value in limits.upper.tolist()],
        "stiffness": limits.stiffness.tolist(),
        "preferred": limits.preferred.tolist(),
        "order": 'AUTO' if limits.order is None else EULER_ORDERS[limits.order],
        "is_held": limits.is_held,
        "may_move": limits.may_move,
        "source": entry.source,
    }


def _load_joint(bones: _Bones, bone: str, record: Mapping[str, Any]) -> bool:
    """Set limits and stiffness of a bone; False where its axes are askew to those of the file."""
    limits = BoneLimits(
        lower=np.array([-np.inf if value is None else value for value in record["lower"]]),
        upper=np.array([np.inf if value is None else value for value in record["upper"]]),
        stiffness=np.array(record["stiffness"]),
        preferred=np.array(record["preferred"]),
        order=None if record["order"] == 'AUTO' else order_index(record["order"]),
        is_held=record["is_held"],
        may_move=record["may_move"],
    )
    axes, bend, hinge = bones.frame(bone)
    turned = turned_limits(limits, axes @ np.array(record["axes"]).T)
    if turned is None:
        return False
    if hinge is not None:
        channel = int(np.argmax(np.abs(hinge)))
        shift = np.sign(hinge[channel]) * (record["bend"] - bend) * np.eye(3)[channel]
        moved = [getattr(turned, name) + shift for name in ("lower", "upper", "preferred")]
        turned = replace(turned, lower=moved[0], upper=moved[1], preferred=moved[2])
    store_limits(bones.armature_object, bone, turned, record["source"])
    return True
