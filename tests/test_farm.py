# SPDX-License-Identifier: GPL-3.0-or-later
"""The job type for Flamenco, run in a JavaScript engine: the settings it shows, the tasks it makes."""

import json
import posixpath
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import quickjs

from blender_ik_addon.core.problem.options import METHODS

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = (ROOT / "farm" / "poise-shots.js").read_text(encoding="utf-8")
ARGUMENTS = (ROOT / "blender_ik_addon" / "cli" / "arguments.py").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "manual" / "farm.md").read_text(encoding="utf-8")

MANAGER = """
const author = {
    Task: (name, type) => ({ name, type, commands: [], addCommand(own) { this.commands.push(own); } }),
    Command: (name, parameters) => ({ name, parameters }),
};
const path = { join: joined, dirname: dirname, basename: basename };
const shellSplit = (text) => JSON.parse(split(text));
function compiled(settings) {
    const job = { settings, tasks: [], addTask(own) { this.tasks.push(own); } };
    compileJob(job);
    return JSON.stringify(job.tasks);
}
"""
"""What Flamenco's manager has for scripts: authors of tasks and commands, paths, the splitting of a line."""


def manager() -> quickjs.Context:
    """The engine with the script as the manager loads it."""
    context = quickjs.Context()
    context.add_callable("joined", posixpath.join)
    context.add_callable("dirname", posixpath.dirname)
    context.add_callable("basename", posixpath.basename)
    context.add_callable("split", lambda text: json.dumps(shlex.split(text)))
    context.eval(MANAGER)
    context.eval(SCRIPT)
    return context


def settings_shown() -> list[dict[str, Any]]:
    return json.loads(manager().eval("JSON.stringify(JOB_TYPE)"))["settings"]


def tasks(**given: Any) -> list[dict[str, Any]]:
    """The tasks of a job with some settings, the others as they are at first."""
    settings = {own["key"]: own.get("default", "") for own in settings_shown()}
    settings |= {"folder": "/farm/shots", "output_folder": "/farm/baked", "shots": "a.blend\nsq 1/b.blend"}
    return json.loads(manager().eval(f"compiled({json.dumps(settings | given)})"))


def arguments(**given: Any) -> list[str]:
    """The arguments of Blender for the first shot, after the file."""
    return tasks(**given)[0]["commands"][1]["parameters"]["args"]


def test_there_is_one_task_a_shot_and_it_calls_the_command():
    made = tasks()
    assert [(task["name"], task["type"]) for task in made] == [
        ("a.blend", "blender"),
        ("sq 1/b.blend", "blender"),
    ]
    folder, blender = made[1]["commands"]
    assert folder == {"name": "make-directory", "parameters": {"path": "/farm/baked/sq 1"}}
    assert blender["name"] == "blender-render"
    assert blender["parameters"] == {
        "exe": "{blender}",
        "exeArgs": "{blenderArgs}",
        "argsBefore": [],
        "blendfile": "/farm/shots/sq 1/b.blend",
        "args": [
            *("--command", "poise", "bake", "--report", "/farm/baked/sq 1/b.json"),
            *("--output", "/farm/baked/sq 1/b.blend", "--allow-misses"),
        ],
    }


def test_settings_become_arguments_of_the_tasks_that_know_them():
    every = {"armature": "Rig", "range": "action", "method": "DLS", "lock_contacts": True, "redo": True}
    every |= {"replace_keys": True, "more_arguments": "--name 'two words' --step 2"}

    def given(task: str) -> list[str]:
        return [a for a in arguments(task=task, **every)[5:] if a != "/farm/baked/a.blend"]

    bake = "--output --armature Rig --method DLS --range action --allow-misses --lock-contacts --force --redo"
    assert given("bake") == [*bake.split(), "--name", "two words", "--step", "2"]
    assert given("solve")[:-4] == [
        "--output",
        "--armature",
        "Rig",
        "--method",
        "DLS",
        "--allow-misses",
        "--redo",
    ]
    assert given("report")[:-4] == ["--armature", "Rig", "--range", "action", "--allow-misses", "--redo"]
    assert given("setup")[:-4] == ["--output", "--armature", "Rig", "--redo"] == given("targets")[:-4]
    assert "--allow-misses" not in arguments(allow_misses=False)


def test_the_command_line_knows_what_is_passed():
    every = {"armature": "Rig", "range": "action", "method": "DLS", "lock_contacts": True, "redo": True}
    passed = {a for a in arguments(**every, replace_keys=True) if a.startswith("--")} - {"--command"}
    assert passed - set(re.findall(r'"(--[a-z-]+)"', ARGUMENTS)) == set()
    choices = {own["key"]: own["choices"] for own in settings_shown() if "choices" in own}
    known = set(re.findall(r'tasks\.add_parser\(\s*"([a-z]+)"', ARGUMENTS))
    assert set(choices["task"]) == known - {"methods"}
    assert choices["method"][1:] == list(METHODS)
    ranges = re.search(r"^RANGE_ITEMS.*?^\)", properties(), re.MULTILINE | re.DOTALL)
    assert ranges is not None
    assert choices["range"][1:] == [name.lower() for name in re.findall(r"\('([A-Z]+)'", ranges[0])]


def properties() -> str:
    return (ROOT / "blender_ik_addon" / "scene" / "properties" / "settings.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("shots", "said"),
    [("", "There are no shots"), (" \n", "There are no shots"), ("a.blend\na.blend1", "would have one name")],
)
def test_a_job_that_cannot_be_meant_is_refused(shots: str, said: str):
    with pytest.raises(quickjs.JSException, match=said):
        tasks(shots=shots)


def test_shots_are_found_when_the_job_is_submitted(tmp_path: Path):
    for name in ("b.blend", "a.blend", "sq/c.blend", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.blend").mkdir()
    [expression] = [own["eval"] for own in settings_shown() if own["key"] == "shots"]

    def found(pattern: str) -> str:
        """By Flamenco's add-on, which evaluates with no globals."""
        settings = SimpleNamespace(folder=str(tmp_path), pattern=pattern)
        return eval(expression, {}, {"abspath": Path, "settings": settings, "Path": Path})

    assert found("*.blend") == "a.blend\nb.blend"
    assert found("**/*.blend") == "a.blend\nb.blend\nsq/c.blend"
    assert found("*.gone") == ""


def test_settings_are_as_flamenco_has_them_and_in_the_manual():
    for own in settings_shown():
        assert own["type"] in {"bool", "string", "int32", "float"} and own["description"]
        assert own.get("subtype", "dir_path") in {"dir_path", "file_path"}
        assert own.get("visible", "visible") in {"visible", "web", "submission", "hidden"}
        if own.get("visible") != "web":
            label = own.get("label", own["key"].replace("_", " ").title())
            assert f"| **{label}** |" in PAGE
