"""The systems under test: a script for each, run by the interpreter of its own environment, and what they share.

The scripts are the one place in the project that does not import stretto: their environments do not have it.
"""
