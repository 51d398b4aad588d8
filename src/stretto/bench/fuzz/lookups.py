"""Keeps what PySpark looks up in Java by name, time and again.

Each look-up of a class is a search in hundreds of archives, and PySpark makes dozens of them to raise one error of
Java's. Here errors are answers, and the searches would take a fifth of Java's time.
"""

from __future__ import annotations

from typing import Any

_CLASSES = (
    "PythonUtils",
    "PythonSQLUtils",
    "PythonErrorUtils",
    "functions",
    "org.apache.spark.SparkThrowableHelper",
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.sql.classic.SparkSession",
)
"""Names that PySpark asks for as a whole."""
_PATH, _TESTED = ("py4j", "reflection", "TypeUtil"), "isInstanceOf"
_METHODS = {
    "PythonUtils": ("toSeq",),
    "PythonErrorUtils": ("getQueryContext", "getCondition", "getMessageParameters"),
    "org.apache.spark.SparkThrowableHelper": ("getMessage",),
    "org.apache.spark.util.Utils": ("exceptionString",),
    "org.apache.spark.sql.functions": ("col",),
    "org.apache.spark.sql.internal.SQLConf": ("get",),
    "org.apache.spark.sql.classic.SparkSession": ("getActiveSession", "setActiveSession"),
}


def keep_lookups(jvm: Any) -> None:
    """Looks up what PySpark needs most, once: py4j asks Java only for what its objects do not have."""
    for name in _CLASSES:
        found = _kept(jvm, name)
        for method in _METHODS.get(name, ()):
            _kept(found, method)
    place = jvm
    for name in (*_PATH, _TESTED):
        place = _kept(place, name)


def _kept(of: Any, name: str) -> Any:
    found = getattr(of, name)
    setattr(of, name, found)
    return found
