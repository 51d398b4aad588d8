"""hash and xxhash64: Murmur3 and XxHash64 of the values of a row, bit by bit as in Spark.

The hash of each argument is the seed of the next one, and a null leaves it as it is. All arithmetic is modulo a power
of two over whole columns; texts are taken a word at a time, all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import murmur3, types, xxhash64
from stretto.expressions.bytes_of import bytes_of_array, bytes_of_integers
from stretto.expressions.nodes import Node, Site, combine
from stretto.expressions.registry import MANY, Function
from stretto.expressions.vectors import Value, arrow_operand, reader, validity

_SEED = 42
#: Decimals of so many digits are longs in Spark.
_LONG_DIGITS = 18
_INTS = (types.BOOLEAN, types.TINYINT, types.SMALLINT, types.INT, types.DATE)
_LONGS = (types.BIGINT, types.TIMESTAMP, types.DURATION)


def _function(algorithm: Any, kind: pa.DataType) -> Function:
    def build(site: Site, *nodes: Node) -> Node:
        for node in nodes:
            _check(node, site)
        runs = [(node.run, node.type) for node in nodes]

        def run(batch: pa.RecordBatch) -> Value:
            operands = [(arrow_operand(inner(batch), source), source) for inner, source in runs]
            count = next((len(operand) for operand, _ in operands if not isinstance(operand, pa.Scalar)), None)
            hashes = np.full(1 if count is None else count, _SEED, algorithm.WORD)
            with np.errstate(over="ignore"):
                for operand, source in operands:
                    hashes = _mixed(algorithm, operand, source, hashes)
            signed = hashes.view(algorithm.SIGNED)
            return (signed[0] if count is None else signed), None

        return combine(kind, run, site, nodes)

    return Function(build, 1, MANY)


def _check(node: Node, site: Site) -> None:
    known = (*_INTS, *_LONGS, types.FLOAT, types.DOUBLE, types.STRING, types.BINARY, types.NULL)
    if node.type not in known and not types.is_decimal(node.type):
        raise site.error(f"a hash of {types.spark_type_name(node.type)}", "it is not supported", "hash its parts")


def _mixed(algorithm: Any, operand: Any, kind: pa.DataType, hashes: Any) -> Any:
    """Returns the hashes of the values with the given ones as seeds."""
    if kind == types.NULL or (isinstance(operand, pa.Scalar) and not operand.is_valid):
        return hashes
    array = pa.repeat(operand, len(hashes)) if isinstance(operand, pa.Scalar) else operand
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    mixed = _hashed(algorithm, array, kind)(hashes)
    return mixed if array.null_count == 0 else np.where(validity(array), mixed, hashes)


def _hashed(algorithm: Any, array: pa.Array, kind: pa.DataType) -> Callable[[Any], Any]:
    if kind in (types.STRING, types.BINARY):
        return lambda seeds: algorithm.of_bytes(bytes_of_array(array), seeds)
    values, valid = reader(kind)(array)
    if types.is_decimal(kind) and kind.precision > _LONG_DIGITS:
        data = bytes_of_integers(values, valid)
        return lambda seeds: algorithm.of_bytes(data, seeds)
    if kind == types.FLOAT:
        return lambda seeds: algorithm.of_ints(_bits(values, np.float32, np.int32), seeds)
    if kind == types.DOUBLE:
        return lambda seeds: algorithm.of_longs(_bits(values, np.float64, np.int64), seeds)
    if kind in _INTS:
        return lambda seeds: algorithm.of_ints(values.astype(np.int32), seeds)
    return lambda seeds: algorithm.of_longs(values.astype(np.int64), seeds)


def _bits(values: Any, kind: Any, bits: Any) -> Any:
    """Returns the bits of doubles; there is one zero and one NaN."""
    plain = np.where(values == 0, 0, np.where(np.isnan(values), np.nan, values)).astype(kind)
    return plain.view(bits)


FUNCTIONS = {
    "hash": _function(murmur3, types.INT),
    "xxhash64": _function(xxhash64, types.BIGINT),
}
