"""Loads the user's app: turns `module:name` into an App, or raises an error that says which part is wrong."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stretto.api.app import App
from stretto.errors import StrettoError, UserError
from stretto.rendering import error_text, traceback_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_NAME = "app"

Loaded = App | Callable[..., Any]


def load(target: str) -> Loaded:
    """Returns the app, or the function that makes one, named by `module:name` (`module` alone means `module:app`)."""
    module_name, _, name = target.partition(":")
    name = name or DEFAULT_NAME
    is_name = all(part.isidentifier() for part in module_name.split("."))
    if not is_name or module_name.endswith(".py"):
        raise UserError(f"'{module_name}' is not the name of a module", *_hint(module_name, name))
    module = _import(module_name)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UserError(f"module '{module_name}' has no '{name}'", _apps_in(module), f"Use {module_name}:NAME.")
        found = getattr(found, part)
    if isinstance(found, App) or callable(found):
        return found  # type: ignore[no-any-return]
    raise UserError(
        f"'{name}' of module '{module_name}' is not an App",
        f"it is of type {type(found).__name__}",
        "Name an App, or a function that returns one.",
    )


def needs_spark(found: Loaded) -> bool:
    """Whether `found` is a function that needs the Spark session as its argument."""
    return not isinstance(found, App) and bool(_parameters(found))


def made(found: Loaded, spark: SparkSession | None = None) -> App:
    """Returns the app. A function is called, with the Spark session if it takes an argument."""
    if isinstance(found, App):
        return found
    name = getattr(found, "__name__", type(found).__name__)
    parameters = _parameters(found)
    if len(parameters) > 1:
        raise UserError(
            f"'{name}' cannot be called to make an app",
            f"it requires {', '.join(parameters)}",
            "Declare no parameter, or one for the Spark session.",
        )
    try:
        app = found(spark) if parameters else found()
    except StrettoError:
        raise
    except Exception as error:
        raise UserError(f"'{name}' raised {error_text(error)}", _own_trace(error)) from error
    if not isinstance(app, App):
        raise UserError(
            f"'{name}' returned no App", f"it returned a {type(app).__name__}", "Return the App that it makes."
        )
    return app


def _hint(module_name: str, name: str) -> tuple[str | None, str]:
    if module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        return "it is a file", f"Name the module, without the suffix: {dotted}:{name}"
    return None, "Use module:name, such as examples.highest_bid:app"


def see_current_directory() -> None:
    """Makes modules in the current directory importable, as `python -m` does."""
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")


def _import(name: str) -> ModuleType:
    see_current_directory()
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except StrettoError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UserError(
                f"there is no module '{name}'",
                f"'{error.name}' is neither in this directory nor installed",
                "Run stretto in the directory that holds it, or correct the name.",
            ) from error
        raise _import_failed(name, error) from error
    except Exception as error:
        raise _import_failed(name, error) from error


def _import_failed(name: str, error: Exception) -> UserError:
    return UserError(f"importing '{name}' raised {error_text(error)}", _own_trace(error))


def _own_trace(error: BaseException) -> str:
    """Returns the traceback, starting at the first line of the user's own code."""
    entry = error.__traceback__
    while entry is not None and _is_machinery(entry.tb_frame.f_globals.get("__name__", "")):
        entry = entry.tb_next
    text = traceback_of(error, entry)
    return "\n" + text.rstrip()


def _is_machinery(module: str) -> bool:
    return module.split(".")[0] in ("stretto", "importlib")


def _apps_in(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, App)]
    return f"its apps are {', '.join(names)}" if names else "it has no app"


def _parameters(found: Callable[..., Any]) -> list[str]:
    """Returns the names of the parameters without a default."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return []
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in skipped]
