"""Is a recorded history of transactions serializable? A list-append checker (after Elle), which knows no protocol.

Transactions append values to lists and read whole lists. A value is appended to a key once, so a list that was read
says who wrote each of its elements, and in which order. That gives the dependencies between transactions, and a history
is serializable exactly if these have no cycle and each transaction read what it must. `check` returns a verdict with a
witness for each anomaly; a history that shows no dependency proves nothing, and is an anomaly too.

Read next: `history.py` (what is recorded), `versions.py` (the order of each list), `dependencies.py`, `cycles.py`
(Tarjan, and the names of cycles), `verdict.py`.
"""

from stretto.simulator.checking.serializability.history import Append, Outcome, Read, Transaction
from stretto.simulator.checking.serializability.verdict import NO_EVIDENCE, Order, Verdict, check

__all__ = ["NO_EVIDENCE", "Append", "Order", "Outcome", "Read", "Transaction", "Verdict", "check"]
