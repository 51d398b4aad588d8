"""Questions about published results and about state, in Spark SQL, while jobs run.

A question is a SELECT over a table. It is cut into its clauses here, compiled by `expressions/`, evaluated where the
rows are, and its parts are merged once. The room decides which segments are asked, who is asked, and what is done when
a worker is lost; it must not know sockets, files, Spark, nor how rows get into tables.

Read next: `clauses.py` (the text), `select.py` (what is computed of rows, of partial results and of all of them),
`broker.py` (who is asked), `shelf.py` (what a worker has, and how it answers in pieces), `copying.py` (who is to hold
what).
"""
