# SPDX-License-Identifier: GPL-3.0-or-later
"""The joint tree and its pose, as arrays.

A joint's state is its own channels: three offsets along its axes and three Euler angles in its own rotation
order, as they are keyed. Which channels are free, their limits, stiffness and preferred values are boxes on
those channels, so what is limited is what is keyed. Scale is part of a pose but never solved for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ..arrays import (
    LARGEST,
    BoolArray,
    FloatArray,
    IntArray,
    alike,
    check_whole,
    fault,
    freeze,
    frozen,
    frozen_as,
    usable,
)
from ..errors import IKError, check_list, check_type
from ..messages import in_a_row
from .rotation import order_index

_Scalar = TypeVar("_Scalar", bound=np.generic)
PerChannel = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""Values of channels, see `Skeleton.build`."""

CHANNELS: Final = 6
"""Channels of a joint: translation x, y, z [m], then rotation x, y, z [rad]."""

INHERIT_SCALE: Final = ("FULL", "FIX_SHEAR", "ALIGNED", "AVERAGE", "NONE", "NONE_LEGACY")
"""How a joint takes the scale of its parent, in Blender's names."""

ORTHONORMAL_TOLERANCE: Final = 1e-4
"""Largest deviation of a rest rotation from orthonormal [1]; Blender stores them in single precision."""

UP: Final = frozen([0.0, 0.0, 1.0])
"""Which way is up in Blender."""

WINDING: Final = 4.0 * np.pi
"""Largest limit of an angle [rad] that `Skeleton.build` takes, two turns: larger numbers are degrees."""


@dataclass(frozen=True)
class JointLimits:
    """Limits, stiffness and preferred angles of one joint."""

    lower: FloatArray
    """(3,) [rad], -inf where there is no limit."""
    upper: FloatArray
    """(3,) [rad], inf where there is no limit."""
    stiffness: FloatArray
    """(3,) in [0, 1)."""
    preferred: FloatArray
    """(3,) [rad]."""
    order: int | None
    """Euler order, an index into `EULER_ORDERS`, in which these are meant; None where any will do, because
    nothing is limited."""

    def __post_init__(self) -> None:
        freeze(self, "lower", "upper", "stiffness", "preferred")


@dataclass(frozen=True, repr=False, eq=False)
class Skeleton:
    """A tree (or forest) of joints. Build it with `Skeleton.build`, which fills in what is not given."""

    names: tuple[str, ...]
    """Unique names, (n,)."""
    parents: IntArray
    """Index of the parent, -1 for a root, (n,); a parent comes before its children."""
    rest: FloatArray
    """parent_from_joint_rest, (n, 4, 4) [m]; for a root armature_from_joint_rest."""
    orders: IntArray
    """Rotation order as an index into `EULER_ORDERS`, (n,)."""
    free: BoolArray
    """Which channels a solver may change, (n, 6)."""
    lower: FloatArray
    """Lower limits of the channels, (n, 6) [m, rad], -inf where there is none."""
    upper: FloatArray
    """Upper limits of the channels, (n, 6) [m, rad], inf where there is none."""
    stiffness: FloatArray
    """Stiffness of each channel against leaving its preferred value, (n, 6) in [0, 1)."""
    preferred: FloatArray
    """Values of channels that the tasks leave free, (n, 6) [m, rad]; nan: they stay as they are."""
    inherit_rotation: BoolArray
    """Whether the joint turns with its parent, (n,)."""
    inherit_scale: IntArray
    """How it takes its parent's scale, an index into `INHERIT_SCALE`, (n,)."""
    local_location: BoolArray
    """Whether translation is along the joint's own rest axes, (n,); otherwise along its parent's."""
    up: FloatArray = field(default_factory=lambda: UP)
    """Which way is up, in armature space, of length 1, (3,)."""

    def __post_init__(self) -> None:
        check_list("joint names are a list of texts", self.names, str)
        n = len(self.names)
        set_field = object.__setattr__
        set_field(self, "names", tuple(self.names))
        for name, shape, dtype in (
            ("up", (3,), np.float64),
            ("parents", (n,), np.int64),
            ("rest", (n, 4, 4), np.float64),
            ("orders", (n,), np.int64),
            ("free", (n, CHANNELS), np.bool_),
            ("lower", (n, CHANNELS), np.float64),
            ("upper", (n, CHANNELS), np.float64),
            ("stiffness", (n, CHANNELS), np.float64),
            ("preferred", (n, CHANNELS), np.float64),
            ("inherit_rotation", (n,), np.bool_),
            ("inherit_scale", (n,), np.int64),
            ("local_location", (n,), np.bool_),
        ):
            array = frozen_as(f"Skeleton.{name}", getattr(self, name), dtype)
            if array.shape != shape:
                raise IKError(f"Skeleton.{name} has shape {array.shape}; {n} joints need {shape}")
            set_field(self, name, array)
        self._check()

    def _check(self) -> None:
        """Raise `IKError`, with the names of the joints, where the arrays are no skeleton."""
        duplicates = sorted(name for name, count in Counter(self.names).items() if count > 1)
        if duplicates:
            raise IKError(f"joint names must be unique; these occur more than once: {', '.join(duplicates)}")

        def refuse(bad: BoolArray | np.bool_, what: str) -> None:
            """Joints (n,); numpy's types do not tell one truth value from an array of them."""
            if bad.any():
                named = ", ".join(repr(self.names[int(i)]) for i in np.flatnonzero(bad)[:5])
                raise IKError(f"{what}: {named}")

        joints = np.arange(len(self.names))
        refuse((self.parents < -1) | (self.parents >= joints), "a parent must come before its children")
        refuse(~np.isfinite(self.rest).all((1, 2)), "rest matrix is not finite")
        beyond = f"beyond {LARGEST:.0e}, the largest number that can be solved"
        refuse((np.abs(self.rest) > LARGEST).any((1, 2)), f"a number of the rest matrix is {beyond}")
        for name in ("lower", "upper"):
            limit = getattr(self, name)
            large = (np.abs(limit) > LARGEST) & np.isfinite(limit)
            refuse(large.any(1), f"a number in {name} is {beyond} (inf stands for no limit)")
        rotation = self.rest[:, :3, :3]
        off = np.abs(np.swapaxes(rotation, -1, -2) @ rotation - np.eye(3)).max((1, 2), initial=0.0)
        refuse(off > ORTHONORMAL_TOLERANCE, "rest matrix is not a rotation and an offset (scale or shear)")
        refuse(np.linalg.det(rotation) < 0, "rest matrix mirrors")
        if not usable(self.up) or abs(float(self.up @ self.up) - 1.0) > ORTHONORMAL_TOLERANCE:
            raise IKError(f"Skeleton.up must be a direction of length 1, got {self.up.tolist()}")
        refuse((self.orders < 0) | (self.orders >= 6), "unknown rotation order")
        modes = len(INHERIT_SCALE)
        refuse((self.inherit_scale < 0) | (self.inherit_scale >= modes), "unknown scale mode")
        refuse(np.isnan(self.lower).any(1) | np.isnan(self.upper).any(1), "a limit is not a number")
        refuse((self.lower > self.upper).any(1), "a lower limit lies above its upper limit")
        refuse(np.isinf(self.preferred).any(1), "preferred value is not finite")
        refuse((np.abs(self.preferred) > LARGEST).any(1), f"a preferred value is {beyond}")
        stiff = ((self.stiffness >= 0) & (self.stiffness < 1)).all(1)
        refuse(~stiff, "stiffness must be at least 0 and below 1")

    @classmethod
    def build(
        cls,
        names: Sequence[str],
        parents: Sequence[str | int | None],
        *,
        offsets: npt.ArrayLike | None = None,
        rest: npt.ArrayLike | None = None,
        orders: str | Sequence[str] = "XYZ",
        free: PerChannel | None = None,
        lower: PerChannel | None = None,
        upper: PerChannel | None = None,
        stiffness: PerChannel | None = None,
        preferred: PerChannel | None = None,
        inherit_rotation: npt.ArrayLike | None = None,
        inherit_scale: Sequence[str] | None = None,
        local_location: npt.ArrayLike | None = None,
        up: str | npt.ArrayLike = "Z",
    ) -> Skeleton:
        """A skeleton from the given arrays, with defaults for the others.

        Values of channels are broadcast to (n, 6), or are given for some joints by name, `{"hips": True}`. A
        row has six numbers, translations first, or three for the rotations alone: then translations have
        the usual value.

        Args:
            names: Unique joint names.
            parents: Name or index of each parent; None or -1 for a root.
            offsets: Place of each joint in its parent's frame, (n, 3) [m]; unrotated. Or give `rest`.
            rest: parent_from_joint_rest, (n, 4, 4).
            orders: One rotation order for all joints or one each.
            free: Channels that a solve may change; by default the three rotations.
            lower: Lower limits [m, rad]; by default none.
            upper: Upper limits [m, rad]; by default none.
            stiffness: Against leaving the preferred values, from 0 to below 1; by default 0.
            preferred: Preferred values [m, rad]; by default 0.
            inherit_rotation: Broadcastable to (n,); by default True.
            inherit_scale: One of `INHERIT_SCALE` each; by default FULL.
            local_location: Broadcastable to (n,); by default True.
            up: Which way is up in armature space: X, Y, Z, or a direction (3,).

        Raises:
            IKError: When something is missing, of the wrong shape, or names a joint that is not there.
        """
        check_list("joint names are a list of texts", names, str)
        n = len(names)
        order_names = [orders] * n if isinstance(orders, str) else orders
        scale_modes = ["FULL"] * n if inherit_scale is None else inherit_scale
        check_list("rotation orders are one text for all joints, or one for each", order_names, str)
        check_list("scale modes are one text for each joint, or None", scale_modes, str)
        index = {name: i for i, name in enumerate(names)}
        parent_indices = _parent_indices(names, parents, index)
        matrices = _rest_matrices(n, offsets, rest)
        unknown = sorted(set(scale_modes) - set(INHERIT_SCALE))
        if unknown:
            raise IKError(f"unknown scale mode {unknown[0]!r}; known are {', '.join(INHERIT_SCALE)}")

        def channels(
            field: str, given: PerChannel | None, usual: float, dtype: type[_Scalar] = np.float64
        ) -> npt.NDArray[_Scalar]:
            whole = np.full((n, CHANNELS), usual, dtype)
            if isinstance(given, Mapping):
                for name, row in given.items():
                    if name not in index:
                        raise IKError(f"{field} is given for {name!r}, which is not among the joints")
                    _fill(f"{field} of {name!r}", whole[index[name]], row)
            elif given is not None:
                _fill(field, whole, given)
            return whole

        def joints(field: str, value: npt.ArrayLike | None) -> BoolArray:
            return _broadcast(field, True if value is None else value, (n,), np.bool_)

        may_move = channels("free", free, False, np.bool_)
        if free is None:
            may_move[:, 3:] = True
        limits = {"lower": channels("lower", lower, -np.inf), "upper": channels("upper", upper, np.inf)}
        for name, limit in limits.items():
            _check_unwound(name, limit[:, 3:], names)
        return cls(
            names=tuple(names),
            parents=parent_indices,
            rest=matrices,
            orders=np.array([order_index(order) for order in order_names], dtype=np.int64),
            free=may_move,
            **limits,
            stiffness=channels("stiffness", stiffness, 0.0),
            preferred=channels("preferred", preferred, 0.0),
            inherit_rotation=joints("inherit_rotation", inherit_rotation),
            inherit_scale=np.array([INHERIT_SCALE.index(mode) for mode in scale_modes], dtype=np.int64),
            local_location=joints("local_location", local_location),
            up=_direction(up),
        )

    def __repr__(self) -> str:
        return f"Skeleton({_counted(len(self), 'joint')}: {in_a_row(self.names, 6)})"

    def __len__(self) -> int:
        return len(self.names)

    def index(self, joint: str | int) -> int:
        """Index of a joint given by name or index.

        Raises:
            IKError: No such joint; the message lists names that exist.
        """
        if isinstance(joint, str):
            if joint in self._index_of_name:
                return self._index_of_name[joint]
            raise IKError(f"there is no joint {joint!r}; there are: {in_a_row(self.names, 20)}")
        try:
            if isinstance(joint, bool):
                raise TypeError  # True is not the joint 1
            number = index(joint)
        except TypeError:
            raise IKError(f"a joint is given by its name or its index, got {joint!r}") from None
        if not 0 <= number < len(self):
            raise IKError(f"joint {joint} is out of range: the skeleton has {len(self)} joints")
        return number

    @cached_property
    def _index_of_name(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def depths(self) -> IntArray:
        """Number of ancestors of each joint, (n,)."""
        depths = np.zeros(len(self), dtype=np.int64)
        for joint, parent in enumerate(self.parents):
            if parent >= 0:
                depths[joint] = depths[parent] + 1
        return frozen(depths, np.int64)

    @cached_property
    def batch(self) -> IntArray:
        """Number of the batch in which each joint can be placed, (n,): of one depth and inheriting alike."""
        own = [self.depths, self.inherit_rotation, self.inherit_scale, self.local_location]
        _, batch = np.unique(np.stack(own, axis=1).astype(np.int64), axis=0, return_inverse=True)
        return frozen(batch, np.int64)

    @cached_property
    def batches(self) -> tuple[IntArray, ...]:
        """Indices of the joints of each batch; parents come first."""
        numbers = range(int(self.batch.max(initial=-1)) + 1)
        return tuple(frozen(np.flatnonzero(self.batch == number), np.int64) for number in numbers)

    @cached_property
    def armature_from_joint_rest(self) -> FloatArray:
        """Rest matrices in armature space, (n, 4, 4)."""
        matrices = np.array(self.rest)
        for joint, parent in enumerate(self.parents):
            if parent >= 0:
                matrices[joint] = matrices[parent] @ self.rest[joint]
        return frozen(matrices)

    @cached_property
    def reach(self) -> float:
        """A length of the size of the limbs [m]: half the longest chain of joints, 1 where there is none."""
        lengths = np.zeros(len(self))
        for joint, parent in enumerate(self.parents):
            if parent >= 0:
                lengths[joint] = lengths[parent] + np.linalg.norm(self.rest[joint, :3, 3])
        longest = float(lengths.max(initial=0.0))
        return 0.5 * longest if longest > 0.0 else 1.0

    def ancestors(self, joint: int) -> list[int]:
        """The joint and its ancestors, from the joint to its root."""
        chain = [joint]
        while self.parents[chain[-1]] >= 0:
            chain.append(int(self.parents[chain[-1]]))
        return chain

    def part(self, joints: Sequence[int]) -> Skeleton:
        """Some of the joints, in rising order, with all their ancestors among them."""
        chosen = list(joints)
        place = {-1: -1} | {joint: number for number, joint in enumerate(chosen)}
        arrays: dict[str, Any] = {
            name: value[chosen]
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and name in self.__dataclass_fields__ and name != "up"
        }
        arrays["parents"] = np.array([place[joint] for joint in arrays["parents"].tolist()], dtype=np.int64)
        return replace(self, names=tuple(self.names[joint] for joint in chosen), **arrays)

    def above(self, joints: Iterable[int], pose: Pose) -> tuple[Skeleton, Pose]:
        """Joints with all above them, and their part of a pose (..., n, 6)."""
        own = sorted({above for joint in joints for above in self.ancestors(joint)})
        return self.part(own), Pose(pose.channels[..., own, :], pose.scale[..., own, :])


def _parent_indices(
    names: Sequence[str], parents: Sequence[str | int | None], index: Mapping[str, int]
) -> IntArray:
    """Index of the parent of each joint, -1 for a root, (n,)."""
    check_list("parents are one for each joint, a name or None for a root", parents, object)
    if len(parents) != len(names):
        raise IKError(
            f"there are {len(names)} names but {len(parents)} parents; each joint needs one, or None"
        )
    found: list[int] = []
    for name, parent in zip(names, parents, strict=True):
        if isinstance(parent, str):
            if parent not in index:
                raise IKError(f"joint {name!r} has the parent {parent!r}, which is not among the joints")
            found.append(index[parent])
        else:
            number = -1 if parent is None else parent
            check_type(f"the parent of joint {name!r} is a name, a number, or None", number, int, np.integer)
            found.append(int(number))
    return np.array(found, dtype=np.int64)


def _rest_matrices(n: int, offsets: npt.ArrayLike | None, rest: npt.ArrayLike | None) -> FloatArray:
    """parent_from_joint_rest of n joints, (n, 4, 4) [m], as given or from offsets."""
    if (rest is None) == (offsets is None):
        raise IKError("give either offsets (n, 3) or rest matrices (n, 4, 4)")
    if offsets is None:
        assert rest is not None
        return _broadcast("rest", rest, (n, 4, 4), np.float64)
    matrices = np.tile(np.eye(4), (n, 1, 1))
    matrices[:, :3, 3] = _broadcast("offsets", offsets, (n, 3), np.float64)
    if np.ndim(offsets) < 2:  # pyright: ignore[reportUnknownMemberType]
        raise IKError(f"offsets are one for each joint, ({n}, 3), got {offsets!r}")
    return matrices


def _check_unwound(name: str, angles: FloatArray, names: Sequence[str]) -> None:
    """Refuse limits (n, 3) of so many turns that they are rather degrees."""
    wound = (np.abs(angles) > WINDING) & (np.abs(angles) <= LARGEST)
    if wound.any():
        raise IKError(
            f"{name} of {names[int(np.argmax(wound.any(axis=1)))]!r} is {float(angles[wound][0]):g}, "
            "more than two turns: angles are radians, and inf stands for no limit"
        )


def _direction(up: str | npt.ArrayLike) -> FloatArray:
    """The direction of an axis by its letter, or that of a vector, of length 1, (3,)."""
    axis = "XYZ".find(up) if isinstance(up, str) else -1
    if isinstance(up, str) and (axis < 0 or len(up) != 1):
        raise IKError(f"up must be X, Y, Z or a direction (3,), got {up!r}")
    direction = np.eye(3)[axis] if isinstance(up, str) else frozen_as("up", up)
    if not usable(direction):
        raise IKError(f"up {fault(direction)}")
    return direction / (np.linalg.norm(direction) or 1.0)


def _broadcast(
    field: str, value: npt.ArrayLike, shape: tuple[int, ...], dtype: type[_Scalar]
) -> npt.NDArray[_Scalar]:
    """A field broadcast to its shape, or `IKError` with its name."""
    array = frozen_as(field, value, dtype)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise IKError(f"{field} has shape {array.shape}; {shape[0]} joints need {shape}") from None


def _fill(field: str, whole: npt.NDArray[Any], given: npt.ArrayLike) -> None:
    """Write what is given for channels into an array (..., 6); rows of three are rotations."""
    array = frozen_as(field, given, whole.dtype.type)
    if array.ndim and array.shape[-1] == 3:
        whole = whole[..., 3:]
    whole[...] = _broadcast(field, array, whole.shape, whole.dtype.type)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


@dataclass(frozen=True, eq=False)
class Pose:
    """The channels of every joint, for one frame or many (leading axes)."""

    channels: FloatArray
    """Translation x, y, z [m] and Euler angles x, y, z [rad] of each joint, (..., n, 6)."""
    scale: FloatArray
    """Scale of each joint along its own axes, (..., n, 3) [1]."""

    def __post_init__(self) -> None:
        for name in ("channels", "scale"):
            object.__setattr__(self, name, frozen_as(f"Pose.{name}", getattr(self, name)))
        if self.channels.ndim < 2 or self.channels.shape[-1] != CHANNELS:
            raise IKError(f"Pose.channels has shape {self.channels.shape}; wanted (..., joints, {CHANNELS})")
        if self.scale.shape != (*self.channels.shape[:-1], 3):
            raise IKError(
                f"Pose.scale has shape {self.scale.shape}; channels of shape {self.channels.shape} "
                f"need {(*self.channels.shape[:-1], 3)}"
            )
        for array in (self.channels, self.scale):
            if not usable(array):
                raise _unusable(array)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pose):
            return NotImplemented
        return np.array_equal(self.channels, other.channels) and np.array_equal(self.scale, other.scale)

    def __hash__(self) -> int:
        return hash(self.channels.shape)

    @classmethod
    def from_channels(cls, channels: npt.ArrayLike) -> Pose:
        """A pose without scale, channels (..., n, 6)."""
        array = frozen_as("Pose.channels", channels)
        return cls(array, np.ones((*array.shape[:-1], 3)))

    @classmethod
    def rest(cls, skeleton: Skeleton, frames: int | tuple[int, ...] = ()) -> Pose:
        """The rest pose: every channel 0, every scale 1; once, or for a number of frames or leading axes."""
        check_type("a Skeleton is needed", skeleton, Skeleton)
        frames = frames if isinstance(frames, tuple) else (frames,)
        for count in frames:
            check_whole("the number of frames", count, 0)
        return cls.from_channels(np.zeros((*map(int, frames), len(skeleton), CHANNELS)))

    def __repr__(self) -> str:
        frames = "".join(f"{_counted(count, 'frame')}, " for count in self.frames)
        return f"Pose({frames}{_counted(self.channels.shape[-2], 'joint')})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """The channels, so that `StayNear(pose)` may be said."""
        return np.array(self.channels, dtype) if copy else np.asarray(self.channels, dtype)

    def __len__(self) -> int:
        if not self.frames:
            raise IKError("one pose alone has no frames to count")
        return self.frames[0]

    def __getitem__(self, index: Any) -> Pose:
        """Some of the frames, as numpy indexes arrays: `poses[3]`, `poses[10:20]`, `pose[None]`."""
        picked = np.arange(int(np.prod(self.frames))).reshape(self.frames)[index]
        channels, scale = (a.reshape(-1, *a.shape[-2:])[picked] for a in (self.channels, self.scale))
        return Pose(channels, scale)

    def __iter__(self) -> Iterator[Pose]:
        return (self[frame] for frame in range(len(self)))

    @property
    def translation(self) -> FloatArray:
        """Offsets along the joint's axes, (..., n, 3) [m]."""
        return self.channels[..., :3]

    @property
    def rotation(self) -> FloatArray:
        """Euler angles by axis x, y, z, (..., n, 3) [rad]."""
        return self.channels[..., 3:]

    @property
    def frames(self) -> tuple[int, ...]:
        """The leading axes."""
        return self.channels.shape[:-2]

    def with_channels(self, channels: FloatArray) -> Pose:
        """The same scale with other channels."""
        channels = frozen(channels)
        if channels.shape == self.channels.shape:
            other = alike(self, channels=channels)  # its scale has been checked
            if not usable(other.channels):
                raise _unusable(other.channels)
            return other
        try:
            scale = np.broadcast_to(self.scale, (*channels.shape[:-1], 3))
        except ValueError:
            shapes = f"channels of shape {channels.shape} do not go with those of shape {self.channels.shape}"
            raise IKError(f"{shapes}: wanted as many joints, and frames unless it is one pose") from None
        return Pose(channels, scale)


def _unusable(array: FloatArray) -> IKError:
    """The error of a pose with such channels or scales."""
    finite = bool(np.isfinite(array).all())
    return IKError(f"a pose {fault(array)}" if finite else "a pose has a value that is not finite")
