"""The social network of thesis 6.7.3 (after DeathStarBench) on shared objects: posts, and two timelines of each user.

`network.py` has who follows whom and the requests, `functions.py` what serves them, `model.py` what must come out.
"""
