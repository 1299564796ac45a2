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
along the limb ("axes": bend, bone, and across to both, as columns of the bone's own frame): on a bone whose
axes lie otherwise limits are exchanged and turned round; where they lie askew the bone keeps what it has.
Elbows and knees count from straight ("bend" at rest). A stored pose ("stored" of an effector) is turned in
the same way; it counts from the rest pose, and its locations are in sizes of the figure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core.arrays import FloatArray
from ...core.character.roles import Bend, Character, Role
from ...core.character.roles.structure import TINY
from ...core.errors import IKError
from ...core.model.euler import EULER_ORDERS, order_index
from ...core.model.skeleton import Skeleton
from ..armature.armature import check_armature, read_armature
from ..armature.limits import BoneLimits, entry_for, joint_entries, limits_of, store_limits, turned_limits
from ..armature.role_table import SIDE_NAMES, read_character
from ..effectors.effectors import check_present
from ..effectors.entries import add_effector, free_name, make_target
from ..effectors.masses import mass_entries, set_bone_masses
from ..kinds.kinds import KINDS
from ..properties.effector_properties import FURTHER_BONES, POISE_PG_effector, plain
from ..properties.overrides import refilled
from ..properties.settings import settings_of
from ..reports import counted, listed, sentences
from .preset_files import (
    EFFECTOR_FIELDS,
    FORMAT,
    LENGTHS,
    POINTS,
    SETTINGS,
    VERSION,
    read_preset,
    write_preset,
)

PARALLEL: Final = 1e-6
"""Sine of the angle between a bone and an axis [1] up to which the axis says nothing of the bone's frame."""


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
        effectors, bones = counted(len(self.effectors), "effector"), counted(len(self.bones), "bone")
        text = f"{effectors} and limits of {bones}: {Path(self.path).stem}"
        missing = (f"not here: {listed(self.missing)}",) if self.missing else ()
        return sentences(text, *missing, *self.notes)


def save_preset(armature_object: Object, path: Path) -> PresetReport:
    """Write the set-up of an armature object into a file.

    Raises:
        IKError: The armature cannot be read, or the file not written.
    """
    check_armature(armature_object)
    bones = _Bones.read(armature_object)
    settings = settings_of(armature_object)
    effectors = [_effector_record(bones, entry) for entry in settings.effectors]
    joints = [
        _joint_record(armature_object, bones, entry)
        for name, entry in joint_entries(armature_object).items()
        if name in bones.skeleton.names
    ]
    data = {
        "format": FORMAT,
        "version": VERSION,
        "size": bones.size,
        "settings": {name: plain(getattr(settings, name)) for name in SETTINGS},
        "effectors": effectors,
        "joints": joints,
        "masses": [
            {"bone": bones.record(name), "mass": entry.mass}
            for name, entry in mass_entries(armature_object).items()
            if name in bones.skeleton.names
        ],
    }
    write_preset(path, data)
    names = tuple(entry.name for entry in settings.effectors)
    return PresetReport(str(path), names, tuple(joint["bone"]["name"] for joint in joints), (), ())


def load_preset(armature_object: Object, path: Path) -> PresetReport:
    """Set an armature object up as a file says; effectors for the same parts or bones are set anew.

    Raises:
        IKError: The armature cannot be posed, or the file is none of ours or broken; nothing is changed then.
    """
    check_present(armature_object)
    data = read_preset(path)
    bones = _Bones.read(armature_object)
    _apply(settings_of(armature_object), data["settings"], SETTINGS)
    # A sole is as much thicker as the figure is larger.
    scale = bones.size / data["size"] if data["size"] else 1.0
    missing: list[str] = []
    notes: list[str] = []
    effectors: list[str] = []
    for record in data["effectors"]:
        lengths = {name: record[name] * scale for name in LENGTHS if name in record}
        name = _load_effector(armature_object, bones, {**record, **lengths}, missing, notes)
        if name is not None:
            effectors.append(name)
    limited: list[str] = []
    askew: list[str] = []
    for record in data["joints"]:
        bone = bones.find(record["bone"], missing)
        if bone is None:
            continue
        if _load_joint(armature_object, bones, bone, record):
            limited.append(bone)
        else:
            askew.append(bone)
    masses: dict[str, float] = {}
    for record in data["masses"]:
        if (bone := bones.find(record["bone"], missing)) is not None:
            masses[bone] = record["mass"]
    set_bone_masses(armature_object, masses)
    if askew:
        notes.append(f"limits left as they were, because the axes of the bones lie askew: {listed(askew)}")
    return PresetReport(
        str(path), tuple(effectors), tuple(limited), tuple(dict.fromkeys(missing)), tuple(notes)
    )


# Bones by role


@dataclass(frozen=True)
class _Bones:
    """The bones of an armature, to be called by their roles."""

    skeleton: Skeleton
    character: Character
    lengths: Mapping[str, float]
    size: float
    """Of the first figure, or of what there is, in the world [m]."""
    own_size: float
    """The same in the armature's own units."""

    @classmethod
    def read(cls, armature_object: Object) -> "_Bones":
        skeleton = read_armature(armature_object).skeleton
        character, _ = read_character(armature_object, skeleton)
        data: Any = armature_object.data
        size = character.figures[0].size if character.figures else skeleton.reach
        scale = armature_object.matrix_world.median_scale
        lengths = {bone.name: bone.length for bone in data.bones}
        return cls(skeleton, character, lengths, float(size * scale), float(size) or 1.0)

    def record(self, bone: str) -> dict[str, Any]:
        """What a file calls a bone."""
        choice = self.character.choice_of(bone)
        if choice is None:
            return {"name": bone}
        same = self.character.joints_of(choice.role, choice.side, choice.figure)
        return {
            "name": bone,
            "role": choice.role.name,
            "side": SIDE_NAMES[choice.side],
            "figure": choice.figure,
            "number": same.index(choice.joint),
        }

    def find(self, record: Mapping[str, Any], missing: list[str]) -> str | None:
        """The bone that a file means: by role, else by name; None, and told as missing, if it is not here."""
        role, name = str(record.get("role", "")), str(record.get("name", ""))
        if role in Role.__members__ and record.get("side") in SIDE_NAMES.values():
            side = next(s for s, called in SIDE_NAMES.items() if called == record["side"])
            figure, number = record.get("figure", 0), record.get("number", 0)
            joints = self.character.joints_of(Role[role], side, figure)
            if isinstance(number, int) and 0 <= number < len(joints):
                return self.skeleton.names[joints[number]]
        known = self.character.choice_of(name) if name in self.skeleton.names else None
        if name in self.skeleton.names and (known is None or not role):
            return name
        missing.append(_told(record))
        return None

    def frame(self, bone: str) -> tuple[FloatArray, float, FloatArray | None]:
        """The limb's frame in that of the bone, (3, 3), its bend at rest [rad], and the axis of that."""
        joint = self.skeleton.index(bone)
        rest = self.skeleton.armature_from_joint_rest
        limb = next((limb for limb in self.character.limbs if joint in limb.joints), None)
        along, about, bend = rest[joint, :3, 1], rest[joint, :3, 0], 0.0
        axis: FloatArray | None = None
        if limb is not None:
            place = limb.joints.index(joint)
            if place + 1 < len(limb.joints):
                away = rest[limb.joints[place + 1], :3, 3] - rest[joint, :3, 3]
                along = away if np.linalg.norm(away) > TINY else along
            about = self._across(limb.figure)
            if limb.bend_axis is not None:
                about = limb.bend_axis
                if limb.roles[place] in (Role.LOWER_ARM, Role.LOWER_LEG):
                    bend = -limb.bend_angle if limb.bend is Bend.INVERTED else limb.bend_angle
                    axis = rest[joint, :3, :3].T @ limb.bend_axis
        y = along / np.linalg.norm(along)
        x = about - (about @ y) * y
        x = x / np.linalg.norm(x) if np.linalg.norm(x) > PARALLEL else rest[joint, :3, 0]
        frame = np.stack([x, y, np.cross(x, y)], axis=1)
        return rest[joint, :3, :3].T @ frame, bend, axis

    def _across(self, figure: int) -> FloatArray:
        if not self.character.figures:
            return np.array([1.0, 0.0, 0.0])
        return self.character.figures[figure].left


def _told(record: Mapping[str, Any]) -> str:
    """What people call a bone of a file."""
    if "role" not in record:
        return str(record.get("name", "a bone without a name"))
    side = "" if record.get("side") == 'CENTRE' else f"{str(record.get('side')).lower()} "
    return f"{side}{str(record['role']).lower().replace('_', ' ')} ({record.get('name', '')})"


# Effectors


def _effector_record(bones: _Bones, entry: POISE_PG_effector) -> dict[str, Any]:
    record: dict[str, Any] = {name: plain(getattr(entry, name)) for name in EFFECTOR_FIELDS}
    record["bone"] = bones.record(entry.bone)
    if len(entry.others):
        record["others"] = len(entry.others)
    for name in FURTHER_BONES:
        if getattr(entry, name):
            record[name] = bones.record(getattr(entry, name))
    for name, of_bone in POINTS.items():
        length = bones.lengths.get(getattr(entry, of_bone), 1.0) or 1.0
        record[name] = (np.array(getattr(entry, name)) / length).tolist()
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


def _load_effector(
    armature_object: Object, bones: _Bones, record: Mapping[str, Any], missing: list[str], notes: list[str]
) -> str | None:
    """Make or set one effector; its name, None if its bone is not here, or it is none for it."""
    bone = bones.find(record["bone"], missing)
    if bone is None:
        return None
    further: dict[str, str] = {}
    for name in FURTHER_BONES:
        if name in record:
            found = bones.find(record[name], missing)
            if found is None:
                return None
            further[name] = found
    entries = settings_of(armature_object).effectors
    part, kind = record.get("part", ""), record.get("kind", 'BOTH')
    index = next((i for i, e in enumerate(entries) if part and e.part == part), None)
    if index is None:
        index = next((i for i, e in enumerate(entries) if (e.bone, e.kind) == (bone, kind)), None)
    is_new = index is None
    if index is None:
        try:
            index = add_effector(armature_object, bone, kind=kind, make_target=False)
        except IKError as error:  # no pole on a bone that is the middle of no limb
            notes.append(str(error))
            return None
    entry = entries[index]
    _apply(entry, record, EFFECTOR_FIELDS)
    for name, value in further.items():
        setattr(entry, name, value)
    for name, of_bone in POINTS.items():
        if name in record:
            point = np.array(record[name]) * bones.lengths.get(getattr(entry, of_bone), 1.0)
            setattr(entry, name, point.tolist())
    if entry.bone != bone:
        entry.bone = bone
    entry.name = free_name(entries, entry.name, entry)
    if entry.kind == 'STAY' and entry.stay == 'STORED':
        _load_stored(bones, entry, record.get("stored", []), missing, notes)
    if is_new and KINDS[entry.kind].target_use(entry) != 'NONE':
        try:
            make_target(armature_object, index)
            while len(entries[index].others) < record.get("others", 0):
                make_target(armature_object, index)
        except IKError as error:  # a bone that is scaled to nothing
            notes.append(str(error))
    return entries[index].name


def _load_stored(
    bones: _Bones,
    entry: POISE_PG_effector,
    records: Sequence[Mapping[str, Any]],
    missing: list[str],
    notes: list[str],
) -> None:
    """Give an effector the stored pose of a file; one without any would let nothing be solved."""
    found = [(bones.find(record["bone"], missing), record) for record in records]
    here = {bone: record for bone, record in found if bone is not None}
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
            f"effector {entry.name!r}: there is no stored pose for it here, so it stays near the rest pose. "
            "Press Store Pose to give it one"
        )


# Limits


def _joint_record(armature_object: Object, bones: _Bones, entry: Any) -> dict[str, Any]:
    pose: Any = armature_object.pose
    limits = limits_of(pose.bones[entry.name], entry)
    axes, bend, _ = bones.frame(entry.name)
    return {
        "bone": bones.record(entry.name),
        "axes": np.round(axes, 6).tolist(),
        "bend": round(bend, 6),
        "lower": [None if np.isinf(v) else v for v in limits.lower.tolist()],
        "upper": [None if np.isinf(v) else v for v in limits.upper.tolist()],
        "stiffness": limits.stiffness.tolist(),
        "preferred": limits.preferred.tolist(),
        "order": 'AUTO' if limits.order is None else EULER_ORDERS[limits.order],
        "is_held": limits.is_held,
        "may_move": limits.may_move,
        "source": entry.source,
    }


def _load_joint(armature_object: Object, bones: _Bones, bone: str, record: Mapping[str, Any]) -> bool:
    """Set limits and stiffness of a bone; False where its axes lie askew to those of the file."""
    order = record["order"]
    limits = BoneLimits(
        lower=np.array([-np.inf if v is None else v for v in record["lower"]]),
        upper=np.array([np.inf if v is None else v for v in record["upper"]]),
        stiffness=np.array(record["stiffness"]),
        preferred=np.array(record["preferred"]),
        order=None if order == 'AUTO' else order_index(order),
        is_held=record["is_held"],
        may_move=record["may_move"],
    )
    axes, bend, hinge = bones.frame(bone)
    turned = turned_limits(limits, axes @ np.array(record["axes"]).T)
    if turned is None:
        return False
    if hinge is not None:
        channel = int(np.argmax(np.abs(hinge)))
        shift = np.zeros(3)
        shift[channel] = np.sign(hinge[channel]) * (record["bend"] - bend)
        moved = [getattr(turned, name) + shift for name in ("lower", "upper", "preferred")]
        turned = replace(turned, lower=moved[0], upper=moved[1], preferred=moved[2])
    entry = entry_for(armature_object, bone)
    store_limits(entry, turned, record["source"])
    entry.is_held, entry.may_move = turned.is_held, turned.may_move
    return True


def _apply(owner: Any, values: Mapping[str, Any], names: Sequence[str]) -> None:
    """Write values that a file has into properties."""
    for name in names:
        if name in values:
            setattr(owner, name, values[name])
