"""Checks whether an app can resume from a checkpoint: functions are matched by name, and no state is lost."""

from __future__ import annotations

from collections.abc import Mapping

from stretto.actors.shape import FunctionShape
from stretto.checkpoints.manifest import Manifest
from stretto.errors import StorageError

KEEP_NAMES = "Give functions and states their former names, or drop their state with drop_state=True (--drop-state)."
KEEP_KINDS = "Leave it as it was, or start it empty: under another name, and with drop_state=True (--drop-state)."


def check_fit(app: str, shapes: Mapping[str, FunctionShape], manifest: Manifest, drop_state: bool = False) -> list[str]:
    """Returns the new functions, which start empty; raises a StorageError if the app does not fit the checkpoint."""
    for name, before in manifest.shapes.items():
        had_state = any(record.plain is not None for record in manifest.functions[name])
        shape = shapes.get(name)
        if shape is not None:
            _check_function(app, manifest, name, (before, shape), drop_state)
        elif before.states and had_state and not drop_state:
            lost = f"function '{name}' is not in the app, and its state would be dropped: {', '.join(before.states)}"
            raise _misfit(app, manifest, lost, KEEP_NAMES)
    return [name for name in shapes if name not in manifest.functions]


def _check_function(
    app: str, manifest: Manifest, name: str, shapes: tuple[FunctionShape, FunctionShape], drop_state: bool
) -> None:
    before, now = shapes
    if _role(before) != _role(now):
        raise _misfit(app, manifest, f"'{name}' was a {_role(before)}, and is a {_role(now)}", "Give it another name.")
    for state, layout in before.states.items():
        if state not in now.states:
            if not drop_state:
                lost = f"function '{name}' has no state '{state}' any more, and its content would be dropped"
                raise _misfit(app, manifest, lost, KEEP_NAMES)
        elif now.states[state] != layout:
            changed = f"state '{state}' of function '{name}' was {layout}, and is {now.states[state]}"
            raise _misfit(app, manifest, changed, KEEP_KINDS)


def _role(shape: FunctionShape) -> str:
    if not shape.feeds:
        return "source"
    return "sink" if shape.is_sink else "function"


def _misfit(app: str, manifest: Manifest, detail: str, fix: str) -> StorageError:
    name = f"the savepoint '{manifest.savepoint}'" if manifest.savepoint else f"checkpoint {manifest.checkpoint}"
    return StorageError(f"{name} does not fit app '{app}'", detail, fix)
