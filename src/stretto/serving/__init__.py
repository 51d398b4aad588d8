"""HTTP in the driver: the methods of an app's entities as requests, `POST /Account/ann/transfer` with JSON.

    with served(job, port=8080) as server:
        print(server.url)

The server has a thread and an event loop of its own. A request is a call of an entity, awaited there; the rest of the
room is about who may ask, how much, and what they are told when it cannot be done. It knows nothing of Spark.

Read next: `web.py` (a request from its path to its answer), `guard.py` (who may ask), `connections.py` (how much and
how long), `server.py` (the life of the server), `openapi.py` and `page.py` (the API as a document, and as a page).
"""

from stretto.serving.limits import Limits
from stretto.serving.server import Server, served

__all__ = ["Limits", "Server", "served"]
