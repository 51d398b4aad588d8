"""What all tests share: how Hypothesis searches, and how Java compiles.

In continuous integration (the variable CI is set) the same examples are drawn each time, so that a red run stays red
when it is repeated. Elsewhere each run searches anew and remembers what it found in `.hypothesis/`.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No limit of time in either: on a busy machine a slow example is no bug; pytest-timeout catches what hangs.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", PATIENT, derandomize=True)
settings.register_profile("local", PATIENT)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Spark's JVM lives for minutes here: its second compiler would take more time than it saves (half of all that a session
# takes to start and to answer its first queries), and one thread collects its garbage faster than several on few cores.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
