"""Getafix's evaluation (thesis 4.4) in virtual time: clients ask about recent hours of a table, whose segments have as
many copies as a way to replicate gives them.

What decides is production code (`stretto.segments`); nodes and loads are a model of queues. Read next: `workload.py`
(what is asked), `queues.py` (one run), `figures.py` (what is compared).
"""
