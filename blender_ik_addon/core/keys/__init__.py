# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of a motion: Blender's F-curves as arrays, and the fewest keys that keep a motion in the world.

Reading order: `curves` evaluates Bézier curves as Blender does; `reduction` finds few keys with fitted
handles so that points of bones stay within a distance and an angle of where many keys have them.
"""

from .curves import BezierCurve
from .reduction import JointCurves, Reduction, reduce_keys

__all__ = ["BezierCurve", "JointCurves", "Reduction", "reduce_keys"]
