"""Adds the homes of shared objects to a deployment: one function for each space in the workers' memory."""

from __future__ import annotations

from stretto.actors.deployment import ByKey, Edge, FunctionSpec, Stage
from stretto.actors.sharing import WRITES, output_of, spaces_of
from stretto.errors import PlanError
from stretto.operators.shared_store import SharedStore
from stretto.sharing.state import SharedState


def share_objects(functions: dict[str, FunctionSpec], parallelism: int) -> None:
    """Gives each space in the workers' memory a function, which all that use the space feed: by name."""
    spaces: dict[str, SharedState] = {}
    for spec in list(functions.values()):
        for space, state in spaces_of(spec.function).items():
            first = spaces.setdefault(space, state)
            _check_same(space, first, state)
            if state.server is not None:
                continue
            store = functions.get(space)
            if store is None:
                store = functions[space] = FunctionSpec(space, SharedStore(), parallelism, nodes=[space])
                store.partitioned_by["in"] = WRITES.empty_table().select(["name"]).schema
            elif not isinstance(store.function, SharedStore):
                raise PlanError(
                    f"a function and a space of shared objects are both named '{space}'",
                    None,
                    "Give the function another name=, or the SharedState another space=.",
                )
            stage = Stage(f"{spec.name}.{output_of(space)}", WRITES)
            stage.edges.append(Edge(space, "in", ByKey(("name",))))
            spec.outputs[output_of(space)] = stage


def _check_same(space: str, one: SharedState, other: SharedState) -> None:
    """Refuses declarations of one space that do not agree; the freshness is each function's own."""
    if one.server != other.server:
        raise PlanError(
            f"the space '{space}' of shared objects is declared with two servers",
            f"{one!r} and {other!r}",
            "Give one of them another space=.",
        )
    if (one.cached, one.patience_ns) != (other.cached, other.patience_ns):
        raise PlanError(
            f"the space '{space}' of shared objects is declared in two ways",
            f"{one!r} and {other!r}",
            "Use the same `cached` and `patience`: a worker has one cache for a space.",
        )
