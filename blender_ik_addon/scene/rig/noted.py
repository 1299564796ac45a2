# SPDX-License-Identifier: GPL-3.0-or-later
"""What is noted in the file of a solve: what it was for, where it began, and where bones are held.

Of a body that follows its targets digests say what it was solved for. For each bone there is also noted where
anybody else has left it last: the user, the animation, a script. That is where influences below 1 begin. If
they began at the present pose, which was solved for already, each update would bring the body nearer to its
targets, and the pose would tell how often the scene was updated.

A bone that follows is held weakly where others have left it last, taken along with what carries it
(`effectors.stance`), and its target comes to the bone when it rests. If it were held where each solve has
left it, it would creep on from solve to solve, and hands that come back would not bring the body back. So it
is noted which bones follow when a solve or a bake has ended: as long as these are carried by the same, they
stay held from where they were. What Poise itself has written is nobody's pose, be it the pose of a solve or
keys of a bake in another frame: a bone is held from where it is now only if it, or one above it, is neither.

A target that others have moved is Reach from then on (`effectors.present_state`). That is written when a
solve has ended well.

Notes are properties of the object, so that undo, redo, files and library overrides always have those that
belong to the pose.
"""

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import bpy
import numpy as np
from bpy.types import Bone, Depsgraph, Object

from ...core import Pose, SolverOptions
from ...core.arrays import BoolArray, FloatArray, alike
from ...core.model.rotation import euler_within, matrix_from_euler, matrix_from_quat, quat_from_matrix
from ..animation.fcurves import (
    bone_path,
    driven_channels,
    is_moved,
    own_curves,
    played_channels,
    present_time,
    rotation_channel,
    within,
)
from ..animation.own_keys import channels_as_keyed, keys_that_place
from ..armature.armature import Armature, world_from_armature
from ..armature.poses import (
    PROPERTIES,
    PoseNote,
    RawChannels,
    channels_told,
    named_bones,
    note_posed,
    pose_bytes,
    raw_channels,
)
from ..effectors.effectors import (
    anchors_now,
    anchors_taken_along,
    as_noted,
    is_led,
    is_placed_by_channels,
    is_taken,
    keyed_anchors,
    note_anchors,
    note_place,
    noted_anchor,
    read_amounts,
    read_effectors,
    target_of,
    with_carriers,
    world_from_targets,
)
from ..effectors.feet import unrolled
from ..effectors.stance import around, carriers
from ..effectors.transforms import bring_place, place_target, stands_at_bone
from ..kinds.kinds import Anchor, Effector
from ..properties.naming import NAMES_DIGEST_SIZE, digest_of_names
from ..properties.settings import (
    FURTHER_BONES,
    POISE_PG_effector,
    POISE_PG_joint,
    settings_of,
    solver_options,
)

if TYPE_CHECKING:
    from .rig import Rig

Digest = bytes
"""128 bits."""

DIGEST_SIZE: Final = 16
"""[bytes]"""

NOTHING: Final[Digest] = bytes(DIGEST_SIZE)

_TYPES: Final = {'BOOLEAN': np.bool_, 'ENUM': np.int32, 'FLOAT': np.float32, 'INT': np.int32}
"""Types of properties, as Blender's buffers have them."""

ANCHOR_DIGITS: Final = 5
"""Digits [m, 1] in which an anchor is another one: less is rounding."""

_WIDTH: Final = 10
"""Numbers of a bone: location, quaternion, scale."""


def digest(*parts: bytes | str) -> Digest:
    """Return 128 bits that differ where any of the parts does."""
    hashed = blake2b(digest_size=DIGEST_SIZE)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return hashed.digest()


def on_the_way(aims: Digest) -> Digest:
    """What is noted for a pose that is on its way to what a solve for some aims would give."""
    return digest("on the way", aims)


class LiveState(NamedTuple):
    """What the body was solved for, as digests."""

    aims: Digest
    """Of targets, object and settings."""
    bones: Digest
    """Of the bones' rest, locks and limits."""
    held: Digest
    """Of their channels that are not solved."""
    keyed: Digest
    """The `aims` for which no key is owed."""

    @classmethod
    def of(cls, armature_object: Object) -> "LiveState":
        """Read it."""
        data = np.array(settings_of(armature_object).live_digests[:], dtype=np.int32).tobytes()
        return cls(*(data[i : i + DIGEST_SIZE] for i in range(0, len(data), DIGEST_SIZE)))

    def store(self, armature_object: Object) -> None:
        """Note it in the file."""
        numbers = np.frombuffer(b"".join(self), dtype=np.int32)
        settings_of(armature_object).live_digests = tuple(numbers.tolist())


# Where others have left it


@dataclass(frozen=True)
class Origin:
    """The pose in which others than live mode have left each bone: there influences below 1 begin."""

    transforms: FloatArray
    """Location, quaternion and scale of each bone against its rest pose, (n, 10) [m, 1]."""

    @classmethod
    def of(cls, armature_object: Object, armature: Armature) -> "Origin | None":
        """Read it; None where there is none for these bones."""
        data = b64decode(settings_of(armature_object).live_origin)
        names = armature.skeleton.names
        size = NAMES_DIGEST_SIZE + 4 * _WIDTH * len(names)
        if data[:NAMES_DIGEST_SIZE] != digest_of_names(names) or len(data) != size:
            return None
        transforms = np.frombuffer(data, dtype="<f4", offset=NAMES_DIGEST_SIZE).astype(np.float64)
        return cls(transforms.reshape(-1, _WIDTH))

    def pose(self, armature: Armature, present: Pose, moved: Collection[str] = ()) -> Pose:
        """The same as channels, with angles nearest to the present ones.

        Driven bones are where they are at present, and so are those that others have moved since.
        """
        skeleton = armature.skeleton
        channels, scale = present.channels.copy(), present.scale.copy()
        own = np.array([name not in armature.driven_by and name not in moved for name in skeleton.names])
        channels[own, :3] = self.transforms[own, :3]
        rotation = matrix_from_quat(self.transforms[own, 3:7])
        lower, upper = skeleton.lower[own, 3:], skeleton.upper[own, 3:]
        channels[own, 3:] = euler_within(rotation, skeleton.orders[own], lower, upper, channels[own, 3:])
        scale[own] = self.transforms[own, 7:]
        return Pose(channels, scale)


def renewed_origin(
    armature_object: Object, armature: Armature, present: Pose, moved: frozenset[str]
) -> Origin:
    """Return where others have left bones: now those that they have moved, all where nothing was noted."""
    rotation = matrix_from_euler(present.rotation, armature.skeleton.orders)
    now = np.concatenate([present.channels[:, :3], quat_from_matrix(rotation), present.scale], axis=1)
    before = Origin.of(armature_object, armature)
    if before is not None:
        kept = np.array([name not in moved for name in armature.skeleton.names])
        now[kept] = before.transforms[kept]
    return Origin(now)


def moved_since_live(armature_object: Object) -> frozenset[str] | None:
    """Return the bones that others have moved since live mode has; None where it is off or not the last."""
    note = PoseNote.of(armature_object)
    if not (settings_of(armature_object).live and note.by_live):
        return None
    return named_bones(armature_object, note.differs(pose_bytes(raw_channels(armature_object))))


def note_origin(armature_object: Object, armature: Armature, origin: Origin) -> None:
    """Write it into the file."""
    data = digest_of_names(armature.skeleton.names) + origin.transforms.astype("<f4").tobytes()
    settings_of(armature_object).live_origin = b64encode(data).decode()


# What a solve depends on


def read_settings(armature_object: Object) -> tuple[object, ...]:
    """Settings that a rig is read by. Blender tells no handler when a script has changed them."""
    settings = settings_of(armature_object)
    masses = [(entry.name, entry.mass) for entry in settings.masses]
    masses += [(entry.name, entry.share, *entry.centre) for entry in settings.mesh_masses]
    weighed = settings.body_mass, settings.mass_source, masses
    names = [joint.name for joint in settings.joints]
    return settings.method, settings.move_root, weighed, names, list(_values_of(settings.joints))


def _values_of(entries: Any) -> Iterator[bytes]:
    """The values of all entries of a list, property by property; without texts, which count in no solve."""
    for prop in POISE_PG_joint.bl_rna.properties:
        if prop.type in _TYPES:
            width = max(1, getattr(prop, "array_length", 0))
            buffer: Any = np.empty(len(entries) * width, dtype=_TYPES[prop.type])
            entries.foreach_get(prop.identifier, buffer)
            yield buffer.tobytes()


def digest_of_aims(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> Digest:
    """Digest of targets, object and settings; names do not matter, nor where bones are that only follow.

    Of these it counts where keys have them.

    Of targets that only their own channels move these are taken: so a place that was just written counts at
    once, before Blender has evaluated it, and a key that is set where the target is changes nothing.
    """
    matrix, scale = world_from_armature(armature_object.evaluated_get(depsgraph))
    influences, lengths = read_amounts(armature_object, effectors, depsgraph)
    entries = settings_of(armature_object).effectors
    own: list[bytes] = []
    others: list[Effector] = []
    for effector in (e for e in effectors if not e.follows):
        entry: Any = entries[effector.index]
        if (
            not effector.anchors
            and effector.target
            and not effector.others
            and is_placed_by_channels(armature_object, entry)
            and effector.sole is None  # where it is rolled to hangs on floors as well
        ):
            target = entry.target
            basis = np.array(target.matrix_basis)
            if effector.turns_only:
                basis[:3, 3] = 0.0
            place = basis, target.matrix_parent_inverse, target.parent is None
            own += (np.array(each, dtype=np.float64).tobytes() for each in place)
        else:
            others.append(effector)
    scene: Any = depsgraph.scene
    for effector in (e for e in effectors if e.follows):
        if keyed := keyed_anchors(entries[effector.index]):
            *ends, part = around(keyed, float(scene.frame_current_final))
            start, end = (np.array([*each.bone, *(each.stance or ())]) for each in ends)
            same = start if start.shape != end.shape else start + part * (end - start)
            own.append((np.round(same, ANCHOR_DIGITS) + 0.0).tobytes())
    targets = world_from_targets(armature_object, others, depsgraph)
    # A pose does not depend on how smooth motions are, nor on what is reported of them.
    options = solver_options(armature_object, scale)
    options = replace(options, smoothness=SolverOptions.smoothness, pop_angle=SolverOptions.pop_angle)
    text = repr((_nameless(armature_object, effectors), options, settings_of(armature_object).move_root))
    read = (array.tobytes() for array in (matrix, influences, lengths, targets))
    return digest(text, *read, b"".join(own))


def _nameless(armature_object: Object, effectors: Iterable[Effector]) -> list[Effector]:
    """Effectors with numbers of bones for names, and without the places where bones are that only follow."""
    bones: Any = armature_object.data
    number = {name: str(number) for number, name in enumerate(bones.bones.keys())}
    named = ("bone", "toe_bone", *FURTHER_BONES)
    found = [alike(effector) for effector in effectors]
    for e in found:
        vars(e).update(
            name="",
            target="",
            target_bone="",
            anchors=() if e.follows else e.anchors,
            stored=tuple((number.get(bone, bone), *place) for bone, *place in e.stored),
            **{key: number.get(name := getattr(e, key), name) for key in named},
        )
    return found


def parts_of_bones(rig: "Rig") -> Iterator[bytes | str]:
    """What bones are.

    Orders of rotation are not in it: those of bones in quaternion mode follow the pose.
    """
    armature, skeleton = rig.armature, rig.armature.skeleton
    yield repr((skeleton.names, armature.rotation_modes, sorted(armature.driven_by), rig.prefers))
    yield armature.written.tobytes()
    for owner in (skeleton, rig.body) if rig.body else (skeleton,):
        for field in fields(owner):
            if isinstance(value := getattr(owner, field.name), np.ndarray) and field.name != "orders":
                yield value.tobytes()


def held_channels(armature_object: Object, rig: "Rig", channels: RawChannels) -> Iterator[bytes]:
    """What is not solved of the pose, of bones that have a part in the solve."""
    armature, skeleton = rig.armature, rig.armature.skeleton
    pose: Any = armature_object.pose
    rows = {bone.name: row for row, bone in enumerate(pose.bones)}
    everywhere = rig.body is not None  # then all bones have weight
    for name in skeleton.names if everywhere else rig.chains:
        if name in armature.driven_by:  # it is read where Blender has evaluated it
            continue
        joint = skeleton.index(name)
        attribute, width = rotation_channel(armature.rotation_modes[joint])
        own, held = channels[rows[name]] + 0.0, ~armature.written[joint]
        yield own[PROPERTIES["location"]][held[:3]].tobytes()
        yield own[PROPERTIES[attribute]][held[-width:]].tobytes()
        yield own[PROPERTIES["scale"]].tobytes()


# Where bones are held


def held_from_now(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph, *, goes_on: bool = False
) -> tuple[Effector, ...]:
    """Return effectors with what follows held from where its bone is now, if others have posed it since.

    That counts more than keys of its target as long as the frame is the same. A pinned bone of which nobody
    has noted where it is held is held where it is, too.

    Args:
        goes_on: Whether what has changed since the last solve belongs to what that was for: what follows
            stays held from where it was before.
    """
    if all(effector.state == 'REACH' for effector in effectors):
        return tuple(effectors)
    carried = _carried(armature_object, effectors)
    is_known = goes_on or PoseNote.of(armature_object).carried == carried
    posed = frozenset[str]() if goes_on else posed_by_others(armature_object)
    held = tuple(
        replace(effector, anchors=(_bone_now(armature_object, effector, depsgraph),))
        if effector.state != 'REACH'
        and (
            not effector.anchors
            or (effector.follows and not (is_known and posed.isdisjoint(_chain(armature_object, effector))))
        )
        else effector
        for effector in effectors
    )
    return with_carriers(armature_object, held, depsgraph, in_frame=True)


def _chain(armature_object: Object, effector: Effector) -> list[str]:
    """Names of the bone of an effector and of those above it."""
    bone: Bone = cast(Any, armature_object.data).bones[effector.bone]
    return [own.name for own in (bone, *bone.parent_recursive)]


def posed_by_others(armature_object: Object) -> frozenset[str]:
    """Return the bones that are neither as Poise has left them nor as keys of Poise play them."""
    return named_bones(armature_object, np.logical_or.reduce(_changed_by_others(armature_object), axis=1))


def _changed_by_others(armature_object: Object) -> BoolArray:
    """Which channels of bones are neither as Poise has left them nor as its keys play them, (n, 17)."""
    note, pose = PoseNote.of(armature_object), pose_bytes(raw_channels(armature_object))
    changed = note.changed(pose)
    if not changed.any():
        return changed
    # What a driver moves nobody has posed.
    driven = driven_channels(armature_object)
    changed[changed] = [channel not in driven for channel in channels_told(armature_object, changed)]
    channels, played = channels_told(armature_object, changed), np.zeros_like(changed)
    as_keyed = channels_as_keyed(armature_object, channels)
    played[changed] = [channel in as_keyed for channel in channels]
    if not note.is_of(pose):  # nobody knows whether what has no keys has changed
        changed &= ~played.any(axis=1, keepdims=True)
    return changed & ~played


def held_by_keys(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> tuple[Effector, ...]:
    """Return effectors with what follows held as in other frames, if it was posed in the present one.

    What was posed without a key, where none has any, is posed so in all frames.
    """
    entries = settings_of(armature_object).effectors
    posed = posed_by_others(armature_object) if any(own.follows for own in effectors) else frozenset[str]()
    paths = {path for path, _ in played_channels(armature_object)} if posed else set[str]()

    def is_posed(effector: Effector) -> bool:
        chain = _chain(armature_object, effector)
        keyed = (bone_path(bone, name) in paths for bone in chain for name in PROPERTIES)
        return not posed.isdisjoint(chain) and not any(keyed)

    def held(effector: Effector) -> Effector:
        keyed = keyed_anchors(entries[effector.index]) if effector.follows else ()
        if not keyed and effector.follows and effector.anchors and is_posed(effector):
            return replace(effector, anchors=(_bone_now(armature_object, effector, depsgraph),))
        if keyed or effector.state == 'REACH' or effector.anchors or (effector.follows and effector.target):
            return replace(effector, anchors=keyed or effector.anchors)
        return replace(effector, anchors=(_bone_now(armature_object, effector, depsgraph),))

    return with_carriers(armature_object, tuple(map(held, effectors)), depsgraph)


def hold_as_shown(armature_object: Object, bones: Iterable[str]) -> None:
    """Note that some bones are as the user wants them, whoever has posed them: what is below is held there.

    Raises:
        IKError: The armature is scaled to nothing, or the place of a target is not a number.
    """
    if not any(entry.enabled and entry.state == 'FOLLOW' for entry in settings_of(armature_object).effectors):
        return
    depsgraph = bpy.context.evaluated_depsgraph_get()
    effectors, wanted = read_effectors(armature_object, drawing=True), set(bones)
    own = [e.follows and not wanted.isdisjoint(_chain(armature_object, e)) for e in effectors]
    held = tuple(
        replace(effector, anchors=(_bone_now(armature_object, effector, depsgraph),)) if is_own else effector
        for effector, is_own in zip(effectors, own, strict=True)
    )
    note_where_held(armature_object, compress(with_carriers(armature_object, held, depsgraph), own))


def play_keys(armature_object: Object, effectors: Sequence[Effector]) -> bool:
    """Note that in a new frame keys say where what follows is; whether it was held elsewhere.

    Their targets are where the keys have put them: when the keys are gone nobody has moved these.
    """
    entries, changed = settings_of(armature_object).effectors, False
    for entry in (entries[effector.index] for effector in effectors if effector.follows):
        if (noted := noted_anchor(entry)) is not None and noted.time is not None:
            note_anchors(entry, noted._replace(time=None))
            changed = True
        if entry.target is not None and is_moved(entry.target, armature_object):
            note_place(entry)
    return changed


def held_in_frame(armature_object: Object, depsgraph: Depsgraph) -> dict[int, Anchor]:
    """Return where those that follow are held in the present frame, by their places in the list."""
    effectors = held_from_now(armature_object, read_effectors(armature_object, drawing=True), depsgraph)
    return anchors_now(armature_object, effectors, depsgraph)


def note_keyed(entry: POISE_PG_effector, anchor: Anchor) -> None:
    """Note with the keys that a target has in the present frame where what follows is held there."""
    target: Any = entry.target
    time, noted = present_time(), noted_anchor(entry)
    times, keys = keys_that_place(target)
    others = () if noted is None else (noted._replace(time=None),)
    own = [anchor._replace(time=time, key=key) for key in keys[within(times, time, time)].tolist()]
    note_anchors(entry, *others, *own)


def _bone_now(armature_object: Object, effector: Effector, depsgraph: Depsgraph) -> Anchor:
    """The bone of an effector where it is; before keys of its target in the present frame."""
    posed: Any = armature_object.evaluated_get(depsgraph)
    entry = settings_of(armature_object).effectors[effector.index]
    bone = unrolled(entry, np.array(posed.pose.bones[effector.bone].matrix)).ravel()
    time = present_time() if effector.follows and keyed_anchors(entry) else None
    before = effector.anchors[0].carriers if effector.anchors else None
    return Anchor(tuple(bone.tolist()), carriers=before, time=time)


def _carried(armature_object: Object, effectors: Sequence[Effector]) -> str:
    """What is noted when a solve has ended: which bones are noted to follow, and what carries them."""
    known = as_noted(armature_object, effectors)
    following = [own for own in known if own.follows]
    return digest(repr([(own.index, carriers(armature_object, known, own)) for own in following])).hex()


def note_where_held(armature_object: Object, effectors: Iterable[Effector]) -> None:
    """Write where bones are held, but for what keys say."""
    entries = settings_of(armature_object).effectors
    for effector in effectors:
        own = (anchor for anchor in effector.anchors if not anchor.keyed)
        note_anchors(entries[effector.index], *own)


def note_held(armature_object: Object, effectors: Sequence[Effector]) -> None:
    """Write where bones are held, and states that others have changed by moving targets.

    Of these it is forgotten where they were held: a state that a script sets is one from there on. Where it
    pins a bone, the target is noted as it is.
    """
    note_where_held(armature_object, effectors)
    entries = settings_of(armature_object).effectors
    for effector in effectors:
        entry = entries[effector.index]
        if entry.enabled and entry.state != effector.state:
            entry.state, entry.pin_matrix = effector.state, (0.0,) * 16
            if not stands_at_bone(entry):
                entry.placed = (0.0,) * 16
        is_new_pin = effector.state == 'PIN' and not entry.placed[15] and target_of(entry) is not None
        if is_new_pin and not is_taken(armature_object, entry):
            note_place(entry)


def note_taken_along(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> None:
    """Note where what follows is held in the pose in which targets of what follows come to their bones."""
    entries = settings_of(armature_object).effectors
    for row, anchor in anchors_taken_along(armature_object, effectors, depsgraph).items():
        note_anchors(entries[row], anchor)


def end_solve(
    armature_object: Object,
    effectors: Sequence[Effector],
    depsgraph: Depsgraph,
    bones: FloatArray,
    names: Sequence[str],
) -> bool:
    """Note what a solve has come to, and bring targets of what follows to their bones; whether any moved.

    So are the places of those whose orientation alone counts: else they stay in the air behind the body.

    Args:
        depsgraph: As the targets were read; the pose may be newer.
        bones: armature_from_joint as posed, (n, 4, 4) [m].
    """
    note_held(armature_object, effectors)
    note_taken_along(armature_object, effectors, depsgraph)
    matrix, _ = world_from_armature(armature_object.evaluated_get(depsgraph))
    coming = [effector for effector in effectors if effector.comes_along]
    for effector in coming:
        bring = bring_handle if effector.follows else bring_place
        bring(armature_object, effector, matrix @ bones[names.index(effector.bone)])
    note_carried(armature_object, effectors)
    return bool(coming)


def note_carried(armature_object: Object, effectors: Sequence[Effector]) -> None:
    """Note that what follows stays held from where it was, as long as nobody else poses the body."""
    if any(effector.state != 'REACH' for effector in effectors):
        note = PoseNote.of(armature_object)
        replace(note, carried=_carried(armature_object, effectors)).store(armature_object)


def note_pose_held(armature_object: Object, span: tuple[float, float] = (-np.inf, np.inf)) -> None:
    """Note that nobody else has posed the body since it was noted where what follows is held.

    Args:
        span: The first and the last time that Poise has keyed: keys of others beside them stay theirs.
    """
    theirs = None
    if not within(np.array([present_time()]), *span).all():
        theirs, keyed = _changed_by_others(armature_object), own_curves(armature_object)
        theirs[theirs] = [channel in keyed for channel in channels_told(armature_object, theirs)]
    note_posed(armature_object, but=theirs)
    note_carried(armature_object, read_effectors(armature_object, drawing=True))


def bring_handle(armature_object: Object, effector: Effector, world_from_bone: FloatArray) -> None:
    """Bring the target of what follows to its bone (4, 4) [m], where nobody else says where it is."""
    entry = settings_of(armature_object).effectors[effector.index]
    if target_of(entry) is not None and not is_led(armature_object, entry):
        place_target(armature_object, entry, world_from_bone)


def bring_handles(armature_object: Object, depsgraph: Depsgraph) -> None:
    """Bring the targets of all that follows to their bones as these are shown.

    Where keys of bones play, targets are where the last solve has left them, and handles at the bones. It is
    noted there where all are held: who moves one of them takes along what it carries from the same pose.
    """
    posed: Any = armature_object.evaluated_get(depsgraph)
    effectors = read_effectors(armature_object, drawing=True)
    note_taken_along(armature_object, effectors, depsgraph)
    for effector in (e for e in effectors if e.follows):
        bone = posed.pose.bones[effector.bone].matrix
        bring_handle(armature_object, effector, np.array(posed.matrix_world @ bone))
