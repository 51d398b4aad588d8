"""Checks the rules of the rooms that imports cannot show (`.importlinter` checks the imports).

A pure room has no clock, no files, no output and no randomness of its own: everything it needs is passed in.
"""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "src" / "stretto"

_contracts = ConfigParser()
_contracts.read(PACKAGE.parents[1] / ".importlinter")
LAYERS = re.findall(r"\w+", _contracts["importlinter:contract:layers"]["layers"])
_PURE = _contracts["importlinter:contract:pure"]
PURE_ROOMS = [name.removeprefix("stretto.") for name in _PURE["source_modules"].split()]
BANNED_MODULES = set(_PURE["forbidden_modules"].split())
ALLOWED: dict[str, frozenset[str]] = {}
for _line in _PURE["ignore_imports"].splitlines():
    if " -> " in _line:
        _importer, _imported = _line.strip().split(" -> ")
        ALLOWED[_importer] = ALLOWED.get(_importer, frozenset()) | {_imported.split(".")[0]}
IMPURE_ROOMS = {
    "__main__",
    "bench",
    "cli",
    "client",
    "dashboard",
    "formats",
    "runtime",
    "serving",
    "sinks",
    "sources",
    "streams",
}
"""Rooms that touch the world, or only exist above those that do. A room that is in neither list is a mistake."""

BANNED_CALLS = {
    "breakpoint",
    "input",
    "open",
    "print",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "io.open",
    "uuid.uuid1",
    "uuid.uuid4",
}

# Modules whose functions use a hidden global random generator, and the names in them that do not.
SEEDED_NAMES = {
    "random": {"Random"},
    "numpy.random": {"BitGenerator", "Generator", "PCG64", "Philox", "SeedSequence", "default_rng"},
}

# Generators that are random when created without a seed.
NEED_A_SEED = {"random.Random", "numpy.random.default_rng", "numpy.random.PCG64", "numpy.random.SeedSequence"}

# Methods that access files, on any object.
BANNED_METHODS = {"read_bytes", "read_text", "write_bytes", "write_text"}


def impurities(source: str, allowed: frozenset[str] = frozenset()) -> list[str]:
    """What a pure module must not contain, one line for each find, but for imports that are allowed."""
    tree = ast.parse(source)
    banned = BANNED_MODULES - allowed
    names = _imported_names(tree)
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                modules = [alias.name for alias in aliases]
                found += [f"line {node.lineno}: imports {m}" for m in modules if m.split(".")[0] in banned]
            case ast.ImportFrom(module=str(module), level=0):
                if module.split(".")[0] in banned:
                    found.append(f"line {node.lineno}: imports {module}")
            case ast.Call(func=func):
                name = _dotted(func, names)
                if _is_impure_call(name, func, seeded=bool(node.args or node.keywords)):
                    found.append(f"line {node.lineno}: calls {name or ast.unparse(func)}")
    return found


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Returns the full name of each imported name: np -> numpy, datetime -> datetime.datetime."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    top = alias.name.split(".")[0]
                    names[alias.asname or top] = alias.name if alias.asname else top
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    names[alias.asname or alias.name] = f"{module}.{alias.name}"
    return names


def _dotted(func: ast.expr, names: dict[str, str]) -> str | None:
    match func:
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.Attribute(value=value, attr=attr):
            owner = _dotted(value, names)
            return f"{owner}.{attr}" if owner else None
    return None


def _is_impure_call(name: str | None, func: ast.expr, *, seeded: bool) -> bool:
    if isinstance(func, ast.Attribute) and func.attr in BANNED_METHODS:
        return True
    if name is None:
        return False
    if name in BANNED_CALLS or (name in NEED_A_SEED and not seeded):
        return True
    module, _, function = name.rpartition(".")
    return module in SEEDED_NAMES and function not in SEEDED_NAMES[module]


# Fields of PySpark that have no public name: the JVM, and rows as Arrow without a check of their schema.
PYSPARK_FIELDS = {"_jsc", "_jvm", "_collect_as_arrow"}
# Functions of Python's own that are documented in spite of their names.
DOCUMENTED = {"os._exit", "sys._current_frames"}


def foreign_privates(source: str) -> list[str]:
    """Returns the reads of private fields (`x._field`) that the module does not define itself, one line for each."""
    tree = ast.parse(source)
    own: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                own.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                own.add(name)
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in own | PYSPARK_FIELDS
        and ast.unparse(node) not in DOCUMENTED
    ]


# Names called from outside: the users' API, the hooks of PySpark's data sources and of prompts, the diagram for
# ARCHITECTURE.md.
CALLED_FROM_OUTSIDE = {
    *("allowed_lateness", "bring_back", "cancel_timer", "cluster_record", "query_dataframe", "set_timer", "to_spark"),
    *("getDefaultReadLimit", "initialOffset", "latestOffset", "prepareForTriggerAvailableNow", "streamReader"),
    *("_parse_bitwise", "_parse_interval", "get_completions", "persistent_id", "persistent_load"),
    "diagram",
}


def definitions(source: str) -> set[str]:
    """Returns functions, methods and classes, except commands, which a decorator registers."""
    return {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("__")
        and not any(isinstance(by, ast.Call) for by in node.decorator_list)
    }


def uses(source: str) -> set[str]:
    """Returns all names that the code uses, outside their definitions."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=str(name)) | ast.Constant(str(name)):
                named.add(name)
            case ast.MatchClass(kwd_attrs=names):
                named.update(names)
    return named


def _modules_of(room: str) -> list[Path]:
    module = PACKAGE / f"{room}.py"
    return [module] if module.exists() else sorted((PACKAGE / room).rglob("*.py"))


PURE_MODULES = [path for room in PURE_ROOMS for path in _modules_of(room)]
ROOM_FILES = sorted([*PACKAGE.rglob("__init__.py"), *PACKAGE.glob("*.py")])


def _dotted_name(path: Path) -> str:
    parts = ("stretto", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _is_special(path: Path) -> bool:
    """Skips mutations, which are found as subclasses, and the peers' scripts, which call and are called by other
    engines."""
    return path.name.endswith("mutations.py") or path.parent.name == "peers"


@pytest.mark.parametrize("path", PURE_MODULES, ids=_name)
def test_pure_rooms_have_no_clock_no_files_and_no_randomness_of_their_own(path: Path) -> None:
    assert impurities(path.read_text("utf-8"), ALLOWED.get(_dotted_name(path), frozenset())) == []


def test_every_room_is_known_for_pure_or_not() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__"} <= set(LAYERS)
    assert set(PURE_ROOMS).isdisjoint(IMPURE_ROOMS)
    assert rooms - {"__init__"} == (set(PURE_ROOMS) | IMPURE_ROOMS) & rooms


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=_name)
def test_private_fields_stay_in_their_module(path: Path) -> None:
    if not _is_special(path):
        assert foreign_privates(path.read_text("utf-8")) == []


def test_the_guard_finds_private_fields_of_others() -> None:
    assert len(foreign_privates("from sketches import Sketch\nSketch()._store.bins")) == 1
    assert len(foreign_privates("class A:\n    def f(self, sketch):\n        return self._sketch._store")) == 1
    assert foreign_privates("class A:\n    def f(self, other):\n        return self._x + other._x") == []


def test_the_product_uses_what_it_defines() -> None:
    sources = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    defined = [definitions(text) for path, text in sources.items() if not _is_special(path)]
    used = [uses(text) for text in sources.values()]
    assert sorted(set[str]().union(*defined).difference(CALLED_FROM_OUTSIDE, *used)) == []


def test_the_guard_finds_what_is_unused() -> None:
    source = "class A:\n    @property\n    def size(self): ...\n    def f(self): ...\nA().f()"
    assert definitions(source) - uses(source) == {"size"}
    assert definitions("@app.command()\ndef run(): ...") == set()


@pytest.mark.parametrize("path", ROOM_FILES, ids=_name)
def test_each_room_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


def test_no_room_for_leftovers() -> None:
    leftovers = [path for path in PACKAGE.rglob("*") if path.stem in {"utils", "common", "helpers", "misc"}]
    assert leftovers == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "def f():\n    import os.path",
        "from threading import Lock",
        "from pyspark.sql import SparkSession",
        "open('file')",
        "from pathlib import Path\nPath('file').read_text()",
        "from datetime import datetime\ndatetime.now()",
        "import datetime as dt\ndt.datetime.now(dt.timezone.utc)",
        "import random\nrandom.random()",
        "import random\nrandom.Random()",
        "from random import shuffle\nshuffle([])",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.rand(3)",
        "import uuid\nuuid.uuid4()",
        "print('hello')",
    ],
)
def test_the_guard_finds_what_is_impure(source: str) -> None:
    assert len(impurities(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import random\ndef f(rng: random.Random) -> float:\n    return rng.random()",
        "import random\nrandom.Random(7)",
        "import numpy as np\nnp.random.default_rng(7).integers(3)",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
        "class Gate:\n    def open(self): ...\nGate().open()",
    ],
)
def test_the_guard_lets_pure_code_be(source: str) -> None:
    assert impurities(source) == []
