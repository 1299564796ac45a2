# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of a property put through a map, for another property or for the same one.

Where each new channel is one old one times a number, as in the mirror image of an upright rig, its keys are
the old ones with other values, handles and interpolation included. Where channels mix and their keys are on
the same frames, handles are mixed like values, which is exact. Otherwise the curves are sampled on all frames
that have a key on any of them; between these a motion may differ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core.arrays import FloatArray
from .fcurves import (
    POINTS,
    CurveState,
    KeyArrays,
    ensure_channelbag,
    holds_samples,
    is_locked,
    new_keys,
    own_channelbag,
    own_curves,
    sample_channels,
)

NOTHING: Final = 1e-6
"""Part [1] of a channel up to which it has none in another: maps come from single precision."""

SAME_FRAME: Final = 1e-3
"""Difference of keys and handles [frames] that is rounding: Blender has them in single precision."""

_FREE: Final = 0
"""Value of 'FREE' among the types of handles."""

Curves = Sequence[CurveState | None]
"""Of the components of a property; None for one without keys."""


@dataclass(frozen=True)
class PropertyKeys:
    """The keys of a property with k components."""

    curves: Curves
    """(k,)."""
    present: FloatArray
    """Present values, (k,)."""
    frames: FloatArray
    """Frames that have a key in any component, (F,)."""
    samples: FloatArray
    """Values on these frames, (F, k)."""

    @classmethod
    def read(cls, obj: Object, path: str) -> "PropertyKeys":
        """Read the keys of a property; modifiers of F-curves are not read."""
        value: Any = obj.path_resolve(path)
        present = np.atleast_1d(np.array(value, dtype=np.float64))
        channels = [(path, index) for index in range(len(present))]
        found = [own_curves(obj).get(channel) for channel in channels]
        curves = [CurveState.read(c) if c is not None and len(c.keyframe_points) else None for c in found]
        keyed = [curve.keys["co"][:, 0] for curve in curves if curve is not None]
        frames = np.unique(np.concatenate(keyed).astype(np.float64)) if keyed else np.zeros(0)
        return cls(curves, present, frames, sample_channels(obj, channels, frames))

    @property
    def animated(self) -> bool:
        """Whether any component has keys."""
        return bool(len(self.frames))

    def affine(self, matrix: FloatArray, offset: FloatArray) -> tuple[Curves, bool]:
        """Return the keys of `matrix @ components + offset`, (n,), and whether any had to be sampled."""
        mapped: list[CurveState | None] = []
        resampled = False
        for row, start in zip(np.where(np.abs(matrix) <= NOTHING, 0.0, matrix), offset, strict=True):
            curves = {j: curve for j in np.flatnonzero(row).tolist() if (curve := self.curves[j]) is not None}
            if not curves:
                mapped.append(None)
            elif _alike([curve.keys for curve in curves.values()]):
                still = np.where([curve is None for curve in self.curves], row, 0.0) @ self.present
                mapped.append(_mixed([(float(row[j]), curve) for j, curve in curves.items()], start + still))
            else:
                mapped.append(self._sampled(self.samples @ row + start))
                resampled = True
        return mapped, resampled

    def sampled(self, change: Callable[[FloatArray], FloatArray]) -> Curves:
        """Return the keys of what a function (F, k) -> (F, n) makes of the values on all keyed frames."""
        return [self._sampled(column) for column in change(self.samples).T]

    def _sampled(self, values: FloatArray) -> CurveState:
        first = next(curve for curve in self.curves if curve is not None)
        keys = dict(new_keys(self.frames, values))
        keys["interpolation"] = np.full_like(keys["interpolation"], first.keys["interpolation"][0])
        return replace(first, keys=keys)


def _alike(curves: Sequence[KeyArrays]) -> bool:
    """Whether keys and handles are on the same frames, with the same interpolation."""
    first = curves[0]
    return all(
        len(keys["co"]) == len(first["co"])
        and np.array_equal(keys["interpolation"], first["interpolation"])
        and all(np.allclose(keys[name][:, 0], first[name][:, 0], atol=SAME_FRAME) for name in POINTS)
        for keys in curves[1:]
    )


def _mixed(parts: Sequence[tuple[float, CurveState]], rest: float) -> CurveState:
    """Return the sum of curves, each times a number, and of another number."""
    first = parts[0][1]
    keys = {name: array.copy() for name, array in first.keys.items()}
    for name in POINTS:
        keys[name][:, 1] = rest + sum(
            part * curve.keys[name][:, 1].astype(np.float64) for part, curve in parts
        )
    if len(parts) > 1:  # handles that Blender places by itself are those of one curve, not of a sum
        keys["handle_left_type"][:] = keys["handle_right_type"][:] = _FREE
    return replace(first, keys=keys)


def write_keys_of(obj: Object, path: str, curves: Curves) -> None:
    """Give the components of a property these keys and no others; F-curves that are there stay."""
    for index, state in enumerate(curves):
        if state is not None:
            state.write(ensure_channelbag(obj, f"{obj.name}Action"), (path, index)).update()
        elif (curve := own_curves(obj).get((path, index))) is not None:
            own_channelbag(obj).fcurves.remove(curve)


def obstacle_to_keys(obj: Object, paths: Sequence[str]) -> str:
    """Say why the keys of some properties cannot be read and written; empty if they can."""
    animation = obj.animation_data
    if animation is None:
        return ""
    if any(driver.data_path in paths and not driver.mute for driver in animation.drivers):
        return "drivers decide"
    if any(not track.mute and track.strips for track in animation.nla_tracks):
        return "it has NLA strips"
    if animation.action is not None and not animation.action.is_editable:
        return f"its action {animation.action.name!r} is linked"
    curves = [curve for (path, _), curve in own_curves(obj).items() if path in paths]
    for what, found in (
        ("locked", any(map(is_locked, curves))),
        ("baked to samples", any(map(holds_samples, curves))),
        ("modified", any(len(curve.modifiers) for curve in curves)),
    ):
        if found:
            return f"F-curves of it are {what}"
    return ""
