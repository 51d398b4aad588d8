"""The systems under test: one script per system, run by the interpreter of its own environment, and shared modules.

The scripts do not import stretto, because their environments do not have it (except `stretto_peer`).
"""
