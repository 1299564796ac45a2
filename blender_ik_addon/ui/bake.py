# SPDX-License-Identifier: GPL-3.0-or-later
"""The bake operator: it works in portions, so that Escape is noticed."""

import logging
import time
from typing import Any

import bpy
from bpy.props import IntProperty
from bpy.types import Context, Event, Object

from ..core.errors import IKError
from ..scene import posing
from .acting import EffectorOperator, refuse, require_armature

logger = logging.getLogger(__name__)

WORK_SECONDS = 0.05
"""How long a modal bake works before Blender may look at the keyboard and draw [s]: Escape feels prompt."""

TIMER_SECONDS = 0.01
"""Pause between two portions of a modal bake [s]: enough for one event to get through."""


def _frame(which: str, name: str, default: int) -> Any:
    """An end of the range; hidden, because the redo panel would bake everything again at each touch."""
    description = f"{which} frame to bake; without start and end, the range in the settings"
    return IntProperty(name=name, description=description, default=default, options={'HIDDEN', 'SKIP_SAVE'})


class POISE_OT_bake(EffectorOperator):
    """Solve every frame and key the solved bones; Escape cancels and restores everything"""

    bl_label = "Bake"

    start: _frame("First", "Start Frame", 1)
    end: _frame("Last", "End Frame", 250)

    _job: posing.BakeJob
    _timer: Any

    def frames(self) -> range | None:
        """The frames that were asked for; None for those in the settings."""
        given = [name for name in ("start", "end") if self.properties.is_property_set(name)]
        if len(given) == 1:
            raise IKError(f"Only '{given[0]}' was given: give both start and end, or neither")
        return range(self.start, self.end + 1) if given else None

    def act(self, context: Context, armature: Object) -> set[str]:
        wm = context.window_manager
        wm.progress_begin(0, 100)
        try:
            return self.answer(
                posing.bake(armature, self.frames(), progress=lambda part: wm.progress_update(100 * part))
            )
        finally:
            wm.progress_end()

    def invoke(self, context: Context, event: Event) -> set[str]:
        if bpy.app.background or context.window is None:  # nobody there to press Escape
            return self.execute(context)
        try:
            self._job = posing.BakeJob(require_armature(context), self.frames())
        except IKError as error:
            return refuse(self, error)
        wm = context.window_manager
        wm.progress_begin(0, 100)
        self._timer = wm.event_timer_add(TIMER_SECONDS, window=context.window)
        wm.modal_handler_add(self)
        return {'RUNNING_MODAL'}

    def modal(self, context: Context, event: Event) -> set[str]:
        if event.type == 'ESC':
            self.cancel(context)
            self.report({'INFO'}, "Bake cancelled, everything is restored")
            return {'CANCELLED'}
        if event.type != 'TIMER':
            return {'RUNNING_MODAL'}  # keep other input away: the scene must not change under the bake
        try:
            if self._work(context):
                return {'RUNNING_MODAL'}
            report = self._job.finish()
        except Exception as error:  # Blender calls us: else the timer and a bake half done would stay
            logger.exception("The bake stopped")
            self.cancel(context)
            return refuse(self, error)
        self._end(context)
        return self.answer(report)

    def cancel(self, context: Context) -> None:
        """Stop and restore; Blender calls this too, when the window closes or another file is opened."""
        self._end(context)
        self._job.cancel()

    def _work(self, context: Context) -> bool:
        """Bake for a moment and show how far it is; whether there is more to do."""
        until = time.perf_counter() + WORK_SECONDS
        more = True
        while more and time.perf_counter() < until:
            more = self._job.step()
        percent = round(100 * self._job.progress)
        context.window_manager.progress_update(percent)
        context.workspace.status_text_set(f"Poise: baking, {percent} %.  Esc: cancel and restore")
        return more

    def _end(self, context: Context) -> None:
        wm = context.window_manager
        wm.event_timer_remove(self._timer)
        wm.progress_end()
        if context.workspace:
            context.workspace.status_text_set(None)


CLASSES = (POISE_OT_bake,)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
