"""Checkpoints as they are stored: the manifest, the files that it names, and what to do when some are damaged.

A checkpoint is complete when its manifest is there, and the manifest is written last. Files are named by who wrote them
and when, so nobody ever writes over a file of another: what a worker writes after it was replaced is named by no
manifest and counts for nothing. This room must never know who takes a checkpoint and when, nor what time it is.

Read next: `manifest.py`, then `store.py`.
"""

from stretto.checkpoints.manifest import ActorRecord, Manifest, Piece
from stretto.checkpoints.store import CheckpointStore, Files

__all__ = ["ActorRecord", "CheckpointStore", "Files", "Manifest", "Piece"]
