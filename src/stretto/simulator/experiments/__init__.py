"""The papers' experiments in virtual time, compared with the papers' figures. Each module names the figures it repeats.

An experiment compares policies and strategies. It must never change a machine.
Read next: `tenants.py` (deadlines), `comparison.py` (strategies), `send_modes.py` (who spreads an actor).
"""
