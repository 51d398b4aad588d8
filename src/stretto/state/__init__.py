"""State: what a function remembers between batches, and how parts of it come together.

A state is declared on a function (`totals = MapState(combine=operator.add)`) and belongs to one instance of an
actor. Where every state of a function can combine, the function may run in parallel: each instance keeps a
partial state, and partial states are merged at a barrier (dirigo.txt 5.3). This room must never know who runs
the function, where, or what time it is.

Read next: `kinds.py` for value, list and map state; `operators/` for the columnar states of windows and joins.
"""

from stretto.state.kinds import ListState, MapState, State, ValueState, states_of

__all__ = ["ListState", "MapState", "State", "ValueState", "states_of"]
