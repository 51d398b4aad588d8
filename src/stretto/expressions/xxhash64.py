"""XxHash64 over whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from stretto.expressions.bytes_of import Bytes

WORD, SIGNED = np.uint64, np.int64
_P1, _P2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_P3, _P4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
#: Texts of so many bytes and more are taken in four lanes of eight bytes.
_STRIPE = 32


def _rotated(values: Any, by: int) -> Any:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _round(lane: Any, words: Any) -> Any:
    return _rotated(lane + words * _P2, 31) * _P1


def _finished(hashes: Any) -> Any:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _with_int(hashes: Any, words: Any) -> Any:
    return _rotated(hashes ^ (words * _P1), 23) * _P2 + _P3


def _with_long(hashes: Any, words: Any) -> Any:
    return _rotated(hashes ^ _round(np.uint64(0), words), 27) * _P1 + _P4


def of_ints(values: Any, seeds: Any) -> Any:
    return _finished(_with_int(seeds + _P5 + np.uint64(4), values.view(np.uint32).astype(np.uint64)))


def of_longs(values: Any, seeds: Any) -> Any:
    return _finished(_with_long(seeds + _P5 + np.uint64(8), values.view(np.uint64)))


def of_bytes(data: Bytes, seeds: Any) -> Any:
    hashes = seeds + _P5
    long_rows = np.flatnonzero(data.sizes >= _STRIPE)
    if len(long_rows):
        hashes[long_rows] = _striped(data, long_rows, seeds[long_rows])
    hashes = hashes + data.sizes.astype(np.uint64)
    begun = data.sizes // _STRIPE * _STRIPE
    left = data.sizes - begun
    for word in range(3):
        rows = np.flatnonzero(left // 8 > word)
        hashes[rows] = _with_long(hashes[rows], data.words(rows, begun[rows] + 8 * word, 8))
    begun, left = begun + left // 8 * 8, left % 8
    rows = np.flatnonzero(left >= 4)
    hashes[rows] = _with_int(hashes[rows], data.words(rows, begun[rows], 4))
    begun, left = begun + left // 4 * 4, left % 4
    for byte in range(3):
        rows = np.flatnonzero(left > byte)
        hashes[rows] = _rotated(hashes[rows] ^ (data.words(rows, begun[rows] + byte, 1) * _P5), 11) * _P1
    return _finished(hashes)


def _striped(data: Bytes, rows: Any, seeds: Any) -> Any:
    """Returns the hashes of what is in whole stripes of 32 bytes."""
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    stripes = data.sizes[rows] // _STRIPE
    for stripe in range(int(stripes.max())):
        there = np.flatnonzero(stripes > stripe)
        for number, lane in enumerate(lanes):
            lane[there] = _round(lane[there], data.words(rows[there], _STRIPE * stripe + 8 * number, 8))
    hashes = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    for lane in lanes:
        hashes = (hashes ^ _round(np.uint64(0), lane)) * _P1 + _P4
    return hashes
