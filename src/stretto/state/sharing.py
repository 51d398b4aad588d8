"""How a state is divided among other partitions than those that it was kept by: whose an entry is, its keys say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Share(Protocol):
    """What is one partition's of a state that is kept by key."""

    @property
    def keys(self) -> pa.Schema:
        """The columns by which rows are dealt to the partitions."""

    def mine(self, columns: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        """Which entries are this partition's, given at least the key columns of each. A StorageError if one of them is
        not where such a key was kept before."""
