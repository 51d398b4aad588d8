"""Murmur3 of 32 bits over whole columns, with Spark's own end: the last bytes are words of their own, with a sign."""

from __future__ import annotations

from typing import Any

import numpy as np

from stretto.expressions.bytes_of import Bytes

WORD, SIGNED = np.uint32, np.int32
_C1, _C2, _C3 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


def _rotated(values: Any, by: int) -> Any:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


def _mixed(seeds: Any, words: Any) -> Any:
    seeds = seeds ^ (_rotated(words * _C1, 15) * _C2)
    return _rotated(seeds, 13) * np.uint32(5) + _C3


def _finished(hashes: Any, sizes: Any) -> Any:
    hashes = hashes ^ sizes
    hashes = (hashes ^ (hashes >> np.uint32(16))) * _F1
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _F2
    return hashes ^ (hashes >> np.uint32(16))


def of_ints(values: Any, seeds: Any) -> Any:
    return _finished(_mixed(seeds, values.view(np.uint32)), np.uint32(4))


def of_longs(values: Any, seeds: Any) -> Any:
    words = values.view(np.uint64)
    low = _mixed(seeds, (words & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    return _finished(_mixed(low, (words >> np.uint64(32)).astype(np.uint32)), np.uint32(8))


def of_bytes(data: Bytes, seeds: Any) -> Any:
    hashes, whole = seeds.copy(), data.sizes // 4
    for word in range(int(whole.max(initial=0))):
        rows = np.flatnonzero(whole > word)
        hashes[rows] = _mixed(hashes[rows], data.words(rows, 4 * word, 4).astype(np.uint32))
    for byte in range(3):
        rows = np.flatnonzero(data.sizes % 4 > byte)
        if len(rows):
            last = data.words(rows, 4 * whole[rows] + byte, 1).astype(np.uint8).view(np.int8).astype(np.int32)
            hashes[rows] = _mixed(hashes[rows], last.view(np.uint32))
    return _finished(hashes, data.sizes.astype(np.uint32))
