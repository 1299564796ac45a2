# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python of the README runs and does what it says."""

import re
from pathlib import Path
from typing import Any

import numpy as np

README = Path(__file__).parent.parent / "README.md"


def test_the_lines_for_core_run_and_reach():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if "from poise_ik import" in block]
    assert len(block.splitlines()) <= 10
    names: dict[str, Any] = {}
    block = block.replace("poise_ik", "blender_ik_addon.core")  # the library is the core under its own name
    exec(compile(block, "README.md", "exec"), names)  # the project's own text
    solution = names["solution"]
    assert solution.reached
    hand = names["forward_kinematics"](names["arm"], solution.pose).point("hand")
    np.testing.assert_allclose(hand, [0.3, 0.2, 1.6], atol=1e-4)
