# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of tuning constants has all of them, and a change of one is that change."""

import pytest

from benchmarks import tuning

CONSTANTS = tuning.constants()


def test_what_is_left_out_exists():
    for names in tuning.OUTSIDE.values():
        for name in names:
            path = tuning.ROOT / tuning.CORE / name
            assert path.is_dir() or path.with_suffix(".py").is_file(), name
    for name in tuning.DEFINITIONS:
        module, constant = name.rsplit(".", maxsplit=1)
        path = (tuning.ROOT / tuning.CORE).joinpath(*module.split(".")).with_suffix(".py")
        assert f"\n{constant}: Final" in path.read_text(encoding="utf-8"), name


def test_the_engine_is_in_the_table():
    assert {constant.name.split(".")[0] for constant in CONSTANTS} >= {"engine", "sequence", "follower"}


def test_a_constant_says_what_it_is():
    assert [constant.name for constant in CONSTANTS if not constant.meaning] == []


@pytest.mark.parametrize("factor", list(tuning.FACTORS.values()))
def test_a_change_is_of_one_number_alone(factor, tmp_path):
    module = tmp_path / tuning.CORE / "engine" / "example.py"
    module.parent.mkdir(parents=True)
    lines = ("from typing import Final", "STEPS: Final = (8, 4e-3)", '"""8 °, 4e-3."""', 'NAME: Final = "no"')
    text = "\n".join(lines)
    module.write_text(text, encoding="utf-8")
    (constant,) = tuning.constants_of(module, "engine.example", {"STEPS": (8, 4e-3), "NAME": "no"})
    assert (constant.name, constant.meaning) == ("engine.example.STEPS", "8 °, 4e-3.")
    first, second = constant.numbers
    assert _steps(first.scaled(text, factor)) == (int(8 * factor), 4e-3)
    assert _steps(second.scaled(text, factor)) == (8, 4e-3 * factor)
    assert isinstance(_steps(first.scaled(text, factor))[0], int)


def _steps(source):
    names = {}
    exec(source, names)
    return names["STEPS"]
