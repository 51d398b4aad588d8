"""The interface by which a keyed state is divided: when its function gets other partitions, or shards move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class KeyedPart(Protocol):
    """The part of a keyed state that belongs to some of the keys: those of one partition, or of some shards."""

    @property
    def keys(self) -> pa.Schema:
        """The columns by which rows are partitioned."""

    def mine(self, columns: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        """Returns which entries belong to this part. `columns` has at least the key columns of each entry. Raises
        a StorageError if an entry's key does not belong to the partition that kept it before."""


class Surveyed(NamedTuple):
    """The key columns of all entries of a state, in one or more blocks, and its content without the entries."""

    columns: Sequence[Mapping[str, Any]]
    empty: Any


class NoKeys:
    """The part of a state that belongs to no key; it notes the keys that it is asked for."""

    def __init__(self, keys: pa.Schema) -> None:
        self.keys = keys
        self.noted: list[Mapping[str, Any]] = []

    def mine(self, columns: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        self.noted.append(columns)
        return np.zeros(len(columns[self.keys.names[0]]), np.bool_)


@dataclass(frozen=True)
class Others:
    """All entries that do not belong to a part."""

    part: KeyedPart

    @property
    def keys(self) -> pa.Schema:
        return self.part.keys

    def mine(self, columns: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        return ~self.part.mine(columns)
