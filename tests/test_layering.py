# SPDX-License-Identifier: GPL-3.0-or-later
"""The architecture, held by tests: ui -> scene -> core -> numpy, and importing a module only defines names.

A module inside a layer is judged by all that it may import; modules beside the layers tie them together.
"""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "blender_ik_addon"
MODULES = sorted(PACKAGE.rglob("*.py"))

BLENDER = {
    "bl_math",
    "blf",
    "bmesh",
    "bpy",
    "bpy_extras",
    "freestyle",
    "gpu",
    "gpu_extras",
    "idprop",
    "imbuf",
}
BLENDER |= {
    "addon_utils",
    "aud",
    "bl_operators",
    "bl_ui",
    "keyingsets_builtins",
    "mathutils",
    "rna_keymap_ui",
}

# Which layers, and which packages from outside the standard library, each layer may import.
LAYERS = {
    "core": ({"core"}, {"numpy"}),
    "scene": ({"core", "scene"}, {"numpy"} | BLENDER),
    "ui": ({"core", "scene", "ui"}, {"numpy"} | BLENDER),
}

# What a module may import besides, where it is called for and not before: an extra of the library.
EXTRAS = {"core/plot.py": {"matplotlib", "mpl_toolkits"}}

# Modules of a layer that all of it may import.
BASE = {
    "core": {"amounts", "arrays", "errors", "messages", "threads"},
    "scene": {"compat", "jobs", "translations", "units"},
}

# The packages of a layer, and modules that serve as one, with the packages of that layer that each may import
# besides itself.
PACKAGES = {
    "core/model": set[str](),
    "core/tasks": {"model"},
    "core/problem": {"model", "tasks"},
    "core/engine": {"model", "problem"},
    "core/methods": {"model", "problem"},
    "core/explain": {"model", "tasks", "problem", "engine", "methods"},
    "core/solve": {"model", "tasks", "problem", "engine", "methods", "explain"},
    "core/character": {"model"},
    "core/io": {"model", "tasks", "problem", "explain", "solve"},
    "core/keys": {"model"},
    "core/motion": {"model", "character"},
    "core/plot": {"model", "tasks", "problem"},
    "scene/translations": set[str](),
}

# Those of the scene, each of which may import the ones before it.
SCENE = (
    *("kinds", "properties", "animation", "armature", "effectors", "rig"),
    *("live", "character", "bake", "matching", "trails"),
)
PACKAGES |= {f"scene/{package}": set(SCENE[:number]) for number, package in enumerate(SCENE)}


def layer_of(module: Path) -> str | None:
    """The layer in which a module lies; None for those beside the layers, which tie them together."""
    top = module.relative_to(PACKAGE).parts[0]
    return top if top in LAYERS else None


def is_type_checking(node: ast.AST) -> bool:
    """Whether this is an `if TYPE_CHECKING:`, which does not happen at run time."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Name | ast.Attribute):
        return False
    return (node.test.id if isinstance(node.test, ast.Name) else node.test.attr) == "TYPE_CHECKING"


def statements(tree: ast.AST, *, run_time: bool) -> Iterator[ast.AST]:
    """All nodes but expressions, which hold no imports; at run time without what only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if run_time and is_type_checking(node):
            assert isinstance(node, ast.If)
            for other in node.orelse:
                yield other
                yield from statements(other, run_time=True)
        elif not isinstance(node, ast.expr):
            yield node
            yield from statements(node, run_time=run_time)


@functools.cache
def parsed(source: str) -> ast.Module:
    """Each module is looked at by several rules."""
    return ast.parse(source)


def imports_of(source: str, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """What a module in `package` imports when it runs: dotted names in parts, relative ones made absolute."""
    for node in statements(parsed(source), run_time=True):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = (*base, *(node.module or "").split(".")) if node.module else base
            yield from ((*module, alias.name) for alias in node.names)


def import_faults(source: str, layer: str, package: tuple[str, ...]) -> list[str]:
    """The imports in `source` that its layer may not make."""
    layers, outside = LAYERS[layer]
    faults = []
    for name in imports_of(source, package):
        if name[0] == PACKAGE.name:
            allowed = len(name) > 1 and name[1] in layers
        else:
            allowed = name[0] in outside or name[0] in sys.stdlib_module_names
        if not allowed:
            faults.append(".".join(name))
    return faults


def package_faults(source: str, package: str, importer: tuple[str, ...]) -> list[str]:
    """The imports in `source`, a module of a package, of what is in its layer and not below that package."""
    layer, own = package.split("/")
    above = (PACKAGE.name, layer)
    names = [name for name in imports_of(source, importer) if name[:2] == above]
    allowed = {(*above, module) for module in BASE[layer] | PACKAGES[package] | {own}}
    return [".".join(name) for name in names if name[:3] not in allowed]


def inner_imports(source: str, importer: tuple[str, ...]) -> set[str]:
    """The modules of the methods from which `source` imports, past what their package exports."""
    methods = (PACKAGE.name, "core", "methods")
    inner = {module.stem for module in PACKAGE.joinpath(*methods[1:]).glob("*.py")}
    names = imports_of(source, importer)
    return {".".join(name) for name in names if name[:3] == methods and len(name) > 3 and name[3] in inner}


def statement_faults(source: str) -> list[str]:
    """The statements at the top of a module that do more than define a name of that module."""

    def faults(body: list[ast.stmt]) -> Iterator[str]:
        for node in body:
            match node:
                case ast.FunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom():
                    continue
                case ast.Expr(value=ast.Constant()):  # a docstring
                    continue
                case ast.Assign(targets=targets):
                    if all(isinstance(leaf, ast.Name) for target in targets for leaf in leaves(target)):
                        continue
                case ast.AnnAssign(target=ast.Name()) | ast.AugAssign(target=ast.Name()):
                    continue
                case ast.If(body=body, orelse=orelse):
                    if ast.unparse(node.test) != "__name__ == '__main__'":
                        yield from faults([*body, *orelse])
                    continue
                case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                    yield from faults([*body, *orelse, *final])
                    for handler in handlers:
                        yield from faults(handler.body)
                    continue
                case _:
                    pass
            yield f"line {node.lineno}: {ast.unparse(node).splitlines()[0]}"

    def leaves(target: ast.expr) -> list[ast.expr]:
        return list(target.elts) if isinstance(target, ast.Tuple) else [target]

    return list(faults(parsed(source).body))


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def faults_by_module(faults_of: Callable[[Path], Collection[str]]) -> dict[str, Collection[str]]:
    """What is wrong in each module in which something is; the whole package in one test, for speed."""
    return {name_of(module): faults for module in MODULES if (faults := faults_of(module))}


def test_a_layer_imports_only_itself_and_what_is_below():
    def faults(module: Path) -> list[str]:
        layer = layer_of(module)
        package = module.relative_to(ROOT).parent.parts
        faults = import_faults(module.read_text(encoding="utf-8"), layer, package) if layer else []
        extras = EXTRAS.get(name_of(module), set[str]())
        return [fault for fault in faults if fault.partition(".")[0] not in extras]

    assert faults_by_module(faults) == {}


def test_packages_import_only_themselves_and_what_is_below():
    def faults(module: Path) -> list[str]:
        package = "/".join(name_of(module).split("/")[:2]).removesuffix(".py")
        own = module.relative_to(ROOT).parent.parts
        source = module.read_text(encoding="utf-8")
        return package_faults(source, package, own) if package in PACKAGES else []

    assert faults_by_module(faults) == {}


def test_others_import_of_the_methods_what_their_package_exports():
    def faults(module: Path) -> set[str]:
        if name_of(module).startswith("core/methods/"):
            return set()
        return inner_imports(module.read_text(encoding="utf-8"), module.relative_to(ROOT).parent.parts)

    assert faults_by_module(faults) == {}


def test_the_package_imports_itself_relatively():
    """In an installed extension the package has another name, bl_ext.<repository>.poise."""

    def faults(module: Path) -> set[str]:
        nodes = list(statements(parsed(module.read_text(encoding="utf-8")), run_time=False))
        absolute = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
        absolute |= {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom) and n.level == 0}
        return {name for name in absolute if name.split(".")[0] == PACKAGE.name}

    assert faults_by_module(faults) == {}


def test_importing_a_module_only_defines_names():
    def faults(module: Path) -> list[str]:
        return [] if module.name == "__main__.py" else statement_faults(module.read_text(encoding="utf-8"))

    assert faults_by_module(faults) == {}


def test_one_module_alone_knows_what_versions_of_blender_do_differently():
    def faults(module: Path) -> list[str]:
        source = module.read_text(encoding="utf-8")
        return (
            [] if name_of(module) == "scene/compat.py" else re.findall(r"app\.version\b|IS_BLENDER", source)
        )

    assert faults_by_module(faults) == {}


def test_there_is_something_to_look_at():
    assert {layer_of(module) for module in MODULES} >= set(LAYERS)
    names = {name_of(module) for module in MODULES}
    names |= {f"{name.removesuffix('/__init__.py')}.py" for name in names}
    assert {f"{layer}/{module}.py" for layer in BASE for module in BASE[layer]} <= names
    assert {f"{package}.py" for package in PACKAGES} <= names
    folders = {path.parent for layer in BASE for path in (PACKAGE / layer).glob("*/__init__.py")}
    assert {folder.relative_to(PACKAGE).as_posix() for folder in folders} <= set(PACKAGES)


def core_modules() -> list[str]:
    """Dotted names of the core's modules."""
    names = [
        module.relative_to(ROOT).with_suffix("").parts for module in MODULES if layer_of(module) == "core"
    ]
    return [".".join(name[:-1] if name[-1] == "__init__" else name) for name in names]


def test_all_of_the_core_loads_without_blender_and_needs_no_package_but_numpy():
    """Whatever else is installed here; the package comes first, so that one process tells of all modules."""
    code = f"import sys\nimport numpy\nsys.modules.update(dict.fromkeys({sorted(BLENDER)!r}))\n"
    code += "before = set(sys.modules)\n"
    code += "".join(f"import {module}\n" for module in [PACKAGE.name, *core_modules()])
    code += "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    loaded = {name for name in run.stdout.split() if name not in sys.stdlib_module_names}
    assert loaded <= {PACKAGE.name, "numpy"}
