"""Checkpoints in storage: the manifest, the files that it names, and how damage is detected.

A checkpoint is complete when its manifest exists, and the manifest is written last. A file's name contains its writer
and its checkpoint, so no writer overwrites a file of another: no manifest names the files that a worker writes after it
was replaced. This room must never know who takes a checkpoint and when, nor what time it is.

Read next: `manifest.py`, `log.py`, then `store.py`.
"""

from stretto.checkpoints.manifest import ActorRecord, Manifest, Piece
from stretto.checkpoints.store import CheckpointStore, Files

__all__ = ["ActorRecord", "CheckpointStore", "Files", "Manifest", "Piece"]
