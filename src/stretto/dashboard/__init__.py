"""The page: what happens on a cluster and why, live and as a file, and the same as JSON and for Prometheus.

    with Cluster.on_spark(spark, page=True) as cluster:
        print(cluster.page.url)

Observations and records of decisions come in, and nothing else is read. `History` keeps them in bounded memory;
`views.py` makes plain data of it, which is the JSON of the API, what the page draws, and what a report has inside. So
the live page and the report of a finished run, of a cluster and of the simulator, are one code base. What runs knows
nothing of it.

Read next: `history.py` (what is kept), `views.py` (what is shown), `web.py` (a request from its path to its answer),
`live.py` (the page of a cluster), `report.py` (the page as one file), `assets/` (the page itself, with no build step).
"""
