"""SQL text to a plan: the same one that the verbs of the Python API make, so that every engine runs it.

The room reads statements itself, because no parser has this grammar: Spark's streams, Flink's window functions and
QUALIFY. Expressions in them are cut out of the text and given to the verbs of `api/` as they are, with the names of
columns replaced; so one grammar of expressions serves both. The room opens no file and starts nothing: what a table is
stored in comes from the `Formats` that its caller passes.

Read next: `words.py` and `cursor.py` (the text), `queries.py` and `statements.py` (the grammar), `tree.py` (what was
read), `scope.py` (names), `compiling.py` and `selecting.py` (trees to verbs).
"""

from stretto.sql.catalog import Formats
from stretto.sql.compiling import Compiled, columns_of, compiled
from stretto.sql.script import Script
from stretto.sql.statements import read_statements

__all__ = ["Compiled", "Formats", "Script", "columns_of", "compiled", "read_statements"]
