# SPDX-License-Identifier: GPL-3.0-or-later
"""Long work in small steps, which can show how far it is and be cancelled at any of them."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import ClassVar, Generic, TypeVar

import bpy
from bpy.types import Object

from ..core.errors import IKError
from ..core.messages import listed

Result = TypeVar("Result")


def check_progress(given: object) -> None:
    """Refuse what cannot be called with the part done (IKError)."""
    if given is not None and not callable(given):
        raise IKError("progress is a function that takes the part done, got {given!r}", given=given)


class Job(Generic[Result]):
    """Work in small steps, so that an operator can show progress and be cancelled.

    Call `step` until it returns False, then `finish`; or `cancel` at any time, which puts everything back. A
    step that raises puts everything back as well.

    A subclass does the work in `_run`. What it changes for a while is put back by `_undo`, or by context
    managers inside of `_run`, which ends with GeneratorExit where it is cancelled.
    """

    noun: ClassVar[str]
    """What is cancelled, in messages."""
    progress: float
    """Part done, in [0, 1]."""
    remark: str = ""
    """What should be known while it works."""

    def __init__(self, *armature_objects: Object) -> None:
        """Begin with nothing done."""
        self._called = {own.session_uid: own.name for own in armature_objects}
        """By session uid: an object may be renamed, or deleted, before the work is done."""
        self._name, self.progress = listed([*self._called.values()]), 0.0
        self._undo = ExitStack()
        self._report: Result | None = None
        self._work = self._run()

    def _objects(self) -> list[Object]:
        """Return the armature objects (IKError: one is gone)."""
        found = {own.session_uid: own for own in bpy.data.objects}
        for uid, name in self._called.items():
            if uid not in found:
                raise IKError(
                    "armature {name!r} was deleted meanwhile: {noun} is cancelled", name=name, noun=self.noun
                )
        return [found[uid] for uid in self._called]

    def _object(self) -> Object:
        """Return the first of them."""
        return self._objects()[0]

    def _run(self) -> Generator[float, None, Result]:
        """Do the work; gives the part done after each bit and returns the report."""
        raise NotImplementedError

    def step(self) -> bool:
        """Do the next step; returns whether there is more to do.

        Raises:
            IKError: Something went missing meanwhile; everything is as before then.
        """
        try:
            self.progress = next(self._work)
        except StopIteration as end:
            if end.value is not None:
                self._report, self.progress = end.value, 1.0
            return False
        except BaseException as error:
            try:
                self.cancel()
            except IKError as lost:
                raise IKError(
                    "{error}. Not all could be put back: {lost}",
                    error=getattr(error, "message", error),
                    lost=lost.message,
                ) from error
            raise
        return True

    def cancel(self) -> None:
        """Put everything back; after the last step, or a second time, do nothing."""
        self._work.close()
        self._undo.close()

    def finish(self) -> Result:
        """Do all remaining steps and return the report (IKError: it was cancelled, or as `step`)."""
        return self.run()

    def run(self, progress: Callable[[float], None] | None = None) -> Result:
        """Do all of it; `progress` is called with the part done, and what it raises cancels the work."""
        try:
            check_progress(progress)
            while self.step():
                if progress is not None:
                    progress(self.progress)
        except BaseException:
            self.cancel()
            raise
        if self._report is None:
            raise IKError("{noun} of {name} was cancelled: begin again", noun=self.noun, name=self._name)
        return self._report
