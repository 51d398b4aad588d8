"""The entities of an app on their way to the coordinator: their storage is opened, their code is shipped."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.api.app import App
from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator.events import EntitiesSubmitted, EntityPlan
from stretto.operators.windows import Duration
from stretto.protocol.entities import Pace
from stretto.runtime.entities.code import EntityCode
from stretto.runtime.entities.opening import opened_entities, paced
from stretto.transactions.catalog import Catalog


@dataclass
class OpenedEntities:
    """The entities of an app, before they are hosted: in so many places, under the name of a job."""

    job: str
    app: str
    code: EntityCode
    catalog: Catalog
    places: int
    pace: Pace
    store: CheckpointStore | None
    plan: EntityPlan | None

    def submitted(self, digest: str) -> EntitiesSubmitted:
        """Returns the request to host them; `digest` names their code."""
        return EntitiesSubmitted(self.job, self.app, digest, self.places, self.pace, self.plan)


def opened(job: str, app: App, uri: str | None, every: Duration | None, workers_wanted: int) -> OpenedEntities:
    """Returns the entities of an app with their storage, if they are kept. Raises what is wrong with them."""
    places = app.parallelism or max(1, workers_wanted)
    code = EntityCode.of(app.name, app.entities, app.emitted_schemas)
    catalog = code.own_catalog()
    store, plan = (None, None) if uri is None else opened_entities(app.name, catalog, uri, places)
    if plan is not None and plan.manifest.entities is not None:
        places = len(plan.manifest.entities.workers)
    pace = paced(every, plan is not None, app.keys_kept_us)
    return OpenedEntities(job, app.name, code, catalog, places, pace, store, plan)


def beside_streams(uri: str | None) -> str | None:
    """Returns where the entities of an app are kept that has streams too."""
    return None if uri is None else f"{uri.rstrip('/')}/entities"
