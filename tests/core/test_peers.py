# SPDX-License-Identifier: GPL-3.0-or-later
"""What other libraries get to read is the tree of the bench; none of them is needed here."""

import importlib
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import peers, trees
from benchmarks.trees import PlainLoop
from blender_ik_addon.core.rotation import matrix_from_rotvec
from tests.core.in_turn import in_turn

NAMES = list(trees.trees())


def numbers(text):
    return np.array([float(word) for word in text.split()])


def moved(matrix, offset, axis=(0.0, 0.0, 1.0), *, turn=0.0, slide=0.0):
    local = np.eye(4)
    local[:3, :3] = matrix_from_rotvec(turn * np.array(axis))
    local[:3, 3] = offset + slide * np.array(axis)
    return matrix @ local


def placed_by_mjcf(text, values):
    """Sites by number: a body's hinges act one after the other at its place."""
    tips = {}

    def walk(body, matrix):
        matrix = moved(matrix, numbers(body.attrib["pos"]))
        for joint in body.findall("joint"):
            kind = "slide" if joint.attrib["type"] == "slide" else "turn"
            matrix = moved(matrix, 0.0, numbers(joint.attrib["axis"]), **{kind: values[joint.attrib["name"]]})
        for site in body.findall("site"):
            tips[int(site.attrib["name"])] = moved(matrix, numbers(site.attrib["pos"]))[:3, 3]
        for child in body.findall("body"):
            walk(child, matrix)

    for body in ElementTree.fromstring(text).find("worldbody").findall("body"):
        walk(body, np.eye(4))
    return np.array([tips[number] for number in range(len(tips))])


def placed_by_urdf(text, values):
    """Links of the fixed joints by number: each joint places its child."""
    links, tips = {"world": np.eye(4)}, {}
    for joint in ElementTree.fromstring(text).findall("joint"):
        matrix = moved(
            links[joint.find("parent").attrib["link"]], numbers(joint.find("origin").attrib["xyz"])
        )
        if joint.attrib["type"] == "fixed":
            tips[int(joint.attrib["name"])] = matrix[:3, 3]
        else:
            kind = "slide" if joint.attrib["type"] == "prismatic" else "turn"
            axis = numbers(joint.find("axis").attrib["xyz"])
            matrix = moved(matrix, 0.0, axis, **{kind: values[joint.attrib["name"]]})
        links[joint.find("child").attrib["link"]] = matrix
    return np.array([tips[number] for number in range(len(tips))])


@in_turn("name", NAMES)
@in_turn(("write", "place"), [(peers.mjcf, placed_by_mjcf), (peers.urdf, placed_by_urdf)])
def test_the_text_places_the_effectors_as_the_tree_does(name, write, place):
    tree = trees.trees()[name]
    loop = PlainLoop(tree)
    values = np.random.default_rng(21).uniform(-1.0, 1.0, loop.size)
    by_name = {hinge.name: value for hinge, value in zip(tree.hinges, values, strict=True)}
    assert np.allclose(place(write(tree), by_name), loop.place(values)[2], rtol=0.0, atol=1e-12)


def test_limits_are_on_every_angle_and_on_nothing_else():
    tree = trees.human_tree(floating=True)
    joints = ElementTree.fromstring(peers.mjcf(tree, np.float64(0.5))).iter("joint")
    ranges = {joint.attrib["name"]: joint.get("range") for joint in joints}
    wanted = {hinge.name: None if hinge.slides else "-0.5 0.5" for hinge in tree.hinges}
    assert ranges == wanted


def test_lines_of_the_urdf_are_short():
    assert max(map(len, peers.urdf(trees.human_tree()).splitlines())) < 200


def test_a_library_that_is_not_there_says_how_to_get_it(monkeypatch):
    def nothing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", nothing)
    tree = trees.y_tree()
    targets = trees.track_targets(tree, 2, np.random.default_rng(22))
    found = peers.rows(tree, targets, warm=True)
    assert [figures.name for figures in found] == list(peers.PEERS)
    assert all("scripts/bench --peers" in figures.missing for figures in found)


class OwnLoop:
    """The yardstick as if it were a library."""

    name = "own"

    def __init__(self, tree, off=0.0):
        self.loop, self.off = PlainLoop(tree), off

    def place(self, values):
        return self.loop.place(values)[2] + self.off

    def solve(self, values, targets, most):
        solution = self.loop.solve(values, targets, most)
        return solution.values, solution.iterations


def test_figures_of_a_library_are_counted_by_the_tree_itself():
    tree = trees.y_tree()
    targets = trees.track_targets(tree, 4, np.random.default_rng(23))
    targets[2:] += 100.0  # out of reach
    figures = peers.figures(OwnLoop(tree), tree, targets, 1.0, warm=True, limit=np.inf)
    assert figures.frames == 4
    assert figures.iterations[2] == trees.TRACK_ITERATIONS  # all that it may
    assert figures.reached == 0.5
    reachable = np.array([1.0, 1.0, 0.0, 0.0])
    figures = peers.figures(OwnLoop(tree), tree, targets, 1.0, warm=True, reachable=reachable)
    assert figures.reached == 1.0
    assert figures.over_limit == 0.0


def test_another_tree_is_refused():
    tree = trees.y_tree()
    assert peers.check_placing(OwnLoop(tree), tree) == 0.0
    with pytest.raises(RuntimeError, match="own places the effectors of Y"):
        peers.check_placing(OwnLoop(tree, off=1e-8), tree)
