"""Random questions about published tables, each answer compared with Spark SQL over the same rows.

`rows` makes random rows, `asking` random questions, `comparing` compares two answers, `measuring` asks a running
cluster.
"""
