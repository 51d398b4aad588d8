"""`module:name` is found, or the error names what is wrong with it and what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stretto.api.app import App
from stretto.cli.loading import load, made, needs_spark
from stretto.errors import UserError

MODULE = """
from stretto import App, sinks, sources

app = App("one")
app.source("rows", sources.memory([{"n": 1}])).sink(sinks.collect())
other = App("two")
number = 42


def make():
    return app


def make_with_spark(spark):
    return App(f"on-{spark}")


def make_with_more(spark, rows):
    return app


def make_nothing():
    return number


def make_trouble():
    return 1 / 0


class Factory:
    app = App("inner")
"""


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("def f():\n    raise ValueError('no luck')\n\nf()\n")
    (tmp_path / "needy.py").write_text("import not_installed_at_all\n")
    (tmp_path / "rejected.py").write_text("from stretto import App\nApp('a/b')\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("shop", "broken", "needy", "rejected"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("target", "name"),
    [("shop:app", "one"), ("shop", "one"), ("shop:other", "two"), ("shop:make", "one"), ("shop:Factory.app", "inner")],
)
def test_an_app_is_found_in_the_current_directory(target: str, name: str) -> None:
    found = load(target)
    assert not needs_spark(found)
    app = made(found)
    assert isinstance(app, App)
    assert app.name == name


def test_a_function_with_a_parameter_gets_the_spark_session() -> None:
    found = load("shop:make_with_spark")
    assert needs_spark(found)
    assert made(found, "a-session").name == "on-a-session"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("shoop:app", ["no module 'shoop'", "in this directory", "correct the name"]),
        ("shop.deep:app", ["no module 'shop.deep'"]),
        ("shop:ap", ["module 'shop' has no 'ap'", "its apps are app, other", "shop:NAME"]),
        ("shop:number", ["'number' of module 'shop' is not an App", "type int", "function that returns one"]),
        ("shop:make_nothing", ["'make_nothing' returned no App", "int"]),
        ("shop:make_with_more", ["make_with_more", "spark, rows", "one for the Spark session"]),
        ("shop:make_trouble", ["'make_trouble' raised ZeroDivisionError", "return 1 / 0"]),
        ("shop.py:app", ["'shop.py' is not the name of a module", "shop:app"]),
        ("./dir/shop.py:app", ["dir.shop:app"]),
        (":app", ["'' is not the name of a module", "module:name"]),
        ("broken:app", ["importing 'broken' raised ValueError: no luck", "in f", "raise ValueError"]),
        ("needy:app", ["importing 'needy' raised ModuleNotFoundError", "not_installed_at_all"]),
        ("rejected:app", ["an app cannot be named 'a/b'"]),
    ],
)
def test_an_error_names_the_thing_and_the_fix(target: str, says: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        made(load(target))
    for text in says:
        assert text in str(caught.value)


def test_a_traceback_begins_in_the_users_code() -> None:
    with pytest.raises(UserError) as caught:
        load("broken:app")
    assert "importlib" not in str(caught.value)
    assert "loading.py" not in str(caught.value)
