# SPDX-License-Identifier: GPL-3.0-or-later
"""Buffers that are filled once and drawn at each redraw, by Blender's own shaders."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gpu
import numpy as np
from gpu_extras.batch import batch_for_shader

from ..core.arrays import FloatArray


@dataclass(frozen=True)
class Batch:
    """What is drawn by one call."""

    shader: Any
    batch: Any
    uniforms: Mapping[str, Any]
    point_size: float
    """[pixels]"""
    texture: Any

    @classmethod
    def filled(
        cls,
        shader_name: str,
        kind: Any,
        arrays: Mapping[str, FloatArray],
        *,
        point_size: float = 1.0,
        texture: Any = None,
        **uniforms: Any,
    ) -> "Batch":
        """Fill buffers with arrays (k, ...) by the names of the shader's attributes.

        Args:
            shader_name: One of Blender's.
            kind: 'POINTS', 'LINES' or 'TRIS'.
            point_size: Of points [pixels].
            texture: What a shader of images shows.
            uniforms: Values of the shader's uniforms.
        """
        shader = gpu.shader.from_builtin(shader_name)
        content: Any = {name: array.astype(np.float32) for name, array in arrays.items()}
        return cls(shader, batch_for_shader(shader, kind, content), uniforms, point_size, texture)

    def draw(self, size: tuple[int, int], *, blend: Any = 'ALPHA') -> None:
        """Draw it into a view of some size [pixels]."""
        gpu.state.blend_set(blend)
        gpu.state.point_size_set(self.point_size)
        self.shader.bind()
        for name, value in self.uniforms.items():
            self.shader.uniform_float(name, value)
        if "lineWidth" in self.uniforms:
            self.shader.uniform_float("viewportSize", size)
        if self.texture is not None:
            self.shader.uniform_sampler("image", self.texture)
        self.batch.draw(self.shader)
        gpu.state.blend_set('NONE')
