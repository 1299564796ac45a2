# SPDX-License-Identifier: GPL-3.0-or-later
"""Several characters in one bake, also where the targets of one are bones of another.

They are baked one after the other, those first on which the targets of others depend. Where targets depend on
each other all are baked again until no target moves any more by what counts in its tolerance. Each bake is
put back before the next one of the same character, which begins with what was there.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final, Unpack

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.amounts import angle_text
from ...core.arrays import FloatArray
from ...core.messages import Message, both, listed
from ..animation.dependence import dependence
from ..armature.restoring import PoseSnapshot, go_to_frame, played_restored
from ..effectors.effectors import targets_of, world_from_targets
from ..jobs import Job
from ..live.driven_bones import AGREES
from ..live.following import held
from ..properties.settings import check_object, settings_of
from ..rig.reports import BakeReport, show
from ..rig.rig import Rig
from ..translations import translated
from ..units import length_text
from .job import BakeJob
from .meshes import MeshesLeftOut
from .options import BakeChoices, BakeOptions

MOST_BAKES: Final = 8
"""Bakes of each character after which targets that do not come to rest are left where they are."""


class BakeJobs(Job[tuple[BakeReport, ...]]):
    """The bakes of several characters in small steps, as `BakeJob` is of one."""

    noun = Message("the bake")

    def __init__(
        self,
        armature_objects: Sequence[Object],
        frames: Iterable[float] | str | None = None,
        **given: Unpack[BakeChoices],
    ) -> None:
        """Check them all before anything is changed.

        Args:
            armature_objects: At least one, each once.
            frames: As of `BakeOptions.of`; a range, and which of the frames are keyed, is that of the first.
            given: Likewise; the settings of each say what is not in it.

        Raises:
            IKError: As `BakeJob`, for the first that is refused; or none is given, or one twice.
        """
        if not isinstance(armature_objects, Iterable):
            armature_objects = [armature_objects]
        for armature_object in armature_objects:
            check_object(armature_object)
        names = [armature_object.name for armature_object in armature_objects]
        if not names or len(set(names)) < len(names):
            raise IKError("give each character to bake once, got {names}", names=listed(names) or 'none')
        first = BakeOptions.of(armature_objects[0], frames, **given)
        given |= {"step": first.step, "at_keys": first.at_keys, "fewest": first.fewest}
        self._frames, self._given = first.frames, given
        self._several = len(names) > 1
        ordered, self._is_mutual = _ordered(armature_objects)
        self._jobs = [self._job(armature_object) for armature_object in ordered]
        self._asked = [armature_object.session_uid for armature_object in armature_objects]
        asking = next((job for job in self._jobs if job.asks), self._jobs[0])
        self.asks, self.replaced = asking.asks, asking.replaced
        """Whether keys of one would be lost that nobody has said may be, and which."""
        self._reports: dict[int, BakeReport] = {}
        self._held = ExitStack()
        """Holds live mode of all of them."""
        super().__init__(*ordered)

    def _job(self, armature_object: Object) -> BakeJob:
        with self._said_of(armature_object.name):
            job = BakeJob(armature_object, self._frames, **self._given)
        job.is_part = True  # cancelled later, all are as before
        return job

    @contextmanager
    def _said_of(self, name: str) -> Iterator[None]:
        """Say of which of several characters an error is: effectors of each may have the same names."""
        try:
            yield
        except IKError as error:
            if not self._several:
                raise
            raise IKError("{name}: {error}", name=name, error=error.message) from error

    def _run(self) -> Generator[float, None, tuple[BakeReport, ...]]:
        """As in the base; the reports are in the order in which the characters were given."""
        count = len(self._jobs)
        self._undo.callback(self._held.close)
        for armature_object in self._objects():
            self._held.enter_context(held(armature_object))
        done, moved = 0.0, dict[int, str]()
        for number in range(MOST_BAKES if self._is_mutual else 1):
            part = (1.0 - done) * (0.5 if self._is_mutual else 1.0)
            solved_for: list[FloatArray] = []
            for row, armature_object in enumerate(self._objects()):
                uid = armature_object.session_uid
                if number:
                    self._jobs[row].cancel()
                    self._jobs[row] = self._job(armature_object)
                job = self._jobs[row]
                self._undo.callback(job.cancel)
                with self._said_of(armature_object.name):
                    while job.step():
                        self.remark = job.remark
                        yield done + part * (row + job.progress) / count
                self._reports[uid] = job.finish()
                solved_for.append(job.targets)
            done += part
            if not self._is_mutual:
                break
            moved = self._moved(solved_for)
            yield done
            if not moved:
                break
        for armature_object in self._objects():
            uid = armature_object.session_uid
            if uid in moved:
                report = self._reports[uid]
                self._reports[uid] = replace(report, notes=(*report.notes, moved[uid]))
                show(armature_object, _read(armature_object), self._reports[uid])
                settings_of(armature_object).last_bake = translated(self._reports[uid].summary())
        self._undo.pop_all()
        self._held.close()
        for job in reversed(self._jobs):
            job.complete()
        return tuple(self._reports[uid] for uid in self._asked)

    def _moved(self, solved_for: Sequence[FloatArray]) -> dict[int, str]:
        """Say by how much targets have moved since they were solved for, by uid of the armature object."""
        scene, depsgraph = bpy.context.scene, bpy.context.view_layer.depsgraph
        objects, jobs = self._objects(), self._jobs
        now: list[list[FloatArray]] = [[] for _ in objects]
        with ExitStack() as undo:
            for other in objects[1:]:
                undo.callback(PoseSnapshot.take(other).restore, other)
            undo.enter_context(played_restored(objects[0]))
            undo.callback(MeshesLeftOut.of(bpy.context.view_layer, len(jobs[0].solved)).show)
            for frame in jobs[0].solved:
                go_to_frame(scene, frame)
                for row, armature_object in enumerate(objects):
                    now[row].append(world_from_targets(armature_object, jobs[row].effectors, depsgraph))
        moved: dict[int, str] = {}
        for row, armature_object in enumerate(objects):
            settings: Any = settings_of(armature_object)
            change = np.array(now[row]) - solved_for[row]
            away = float(np.linalg.norm(change[..., :3, 3], axis=-1).max(initial=0.0))
            turned = float(np.linalg.norm(change[..., :3, :3], axis=(-2, -1)).max(initial=0.0)) / np.sqrt(2.0)
            excess = max(away / settings.tolerance_position, turned / settings.tolerance_rotation)
            if excess > AGREES:
                amounts = both((length_text(away), angle_text(turned)))
                moved[armature_object.session_uid] = Message(
                    "targets that are bones of others do not come to rest: {amounts}", amounts=amounts
                )
        return moved


def _read(armature_object: Object) -> Rig:
    return Rig.read(armature_object, bpy.context.evaluated_depsgraph_get())


def _ordered(armature_objects: Sequence[Object]) -> tuple[list[Object], bool]:
    """Return characters with those first on which targets of others depend, and whether some do mutually."""
    needs: dict[Object, set[Object]] = {}
    for one in armature_objects:
        needs[one] = {
            other
            for other in armature_objects
            if other != one and any(own == other or dependence(own, other) for own in targets_of(one))
        }
    ordered: list[Object] = []
    rest = list(armature_objects)
    while rest:
        free = [one for one in rest if not needs[one] & set(rest)]
        if not free:
            return [*ordered, *rest], True
        ordered += free
        rest = [one for one in rest if one not in free]
    return ordered, False
