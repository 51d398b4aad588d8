"""Java's regular expressions, translated to Python's `re`, and to RE2 where that finds the same and is faster.

Spark's RLIKE, regexp_* and split take the patterns of java.util.regex, whose `$`, `.`, `\\b`, `(?i)` and classes mean
other things than those of RE2 or Python: `translation.py` returns a pattern of which every part is spelled out. What
has no exact translation is refused by name. This package knows nothing of Arrow, Spark or expressions.

Read `syntax.py` (the tree), then `parsing.py`, `python_form.py` and `re2_form.py`.
"""

from stretto.expressions.java_regex.re2_form import Re2Pattern
from stretto.expressions.java_regex.replacement import BadReplacement, Replacement, parse_replacement
from stretto.expressions.java_regex.syntax import BadPattern, UnsupportedPattern
from stretto.expressions.java_regex.translation import JavaPattern, java_pattern, joined

__all__ = [
    "BadPattern",
    "BadReplacement",
    "JavaPattern",
    "Re2Pattern",
    "Replacement",
    "UnsupportedPattern",
    "java_pattern",
    "joined",
    "parse_replacement",
]
