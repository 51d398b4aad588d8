"""Objects that are created only if they do not exist, in one request (`If-None-Match: *`), through obstore.

pyarrow.fs reads and writes checkpoints but has no such request, so obstore opens the same location here. The address,
and the credentials, region and endpoint in it, are as in pyarrow's URIs; other credentials come from the environment
and the machine's metadata service, not from profiles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pyarrow import fs

from stretto.errors import StorageError

Create = Callable[[str, bytes], bool]
"""Creates an object at a path below the directory; returns False if it existed."""


def creator_at(uri: str, filesystem: fs.FileSystem, root: str) -> Callable[[], Create] | None:
    """Returns a function that connects to the store of a URI that pyarrow has opened; None if it is no object store, as
    HDFS."""
    opens = {"s3": _s3, "gcs": _gcs, "abfs": _azure}.get(filesystem.type_name)
    if opens is None:
        return None
    return lambda: partial(create, opens(uri, filesystem, root), shown=f"{urlsplit(uri).scheme}://{root}")


def create(store: Any, path: str, content: bytes, shown: str = "") -> bool:
    """Creates an object in a store of obstore; returns False if it existed."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        obstore.put(store, path, content, mode="create")
    except AlreadyExistsError:
        return False
    except (BaseError, OSError) as error:  # A missing object is an OSError.
        message = str(error).partition("\n")[0]
        hint = "Check permissions; give credentials in the environment (such as AWS_ACCESS_KEY_ID), not in a profile."
        raise StorageError(f"cannot create {shown}/{path}", message, hint) from error
    return True


def _s3(uri: str, filesystem: fs.S3FileSystem, root: str) -> Any:
    # pyarrow has looked up the region, if the URI does not have it.
    return s3_store(uri, filesystem.region, root)


def s3_store(uri: str, region: str, root: str) -> Any:
    """Returns the bucket of a URI in pyarrow's form, in a region."""
    from obstore.store import S3Store

    parts = urlsplit(uri)
    asked = dict(parse_qsl(parts.query))
    config: dict[str, Any] = {"region": region}
    if parts.username and parts.password:
        config["access_key_id"], config["secret_access_key"] = unquote(parts.username), unquote(parts.password)
    endpoint = asked.get("endpoint_override")
    if endpoint:
        config["endpoint"] = endpoint if "://" in endpoint else f"{asked.get('scheme', 'https')}://{endpoint}"
    bucket, _, prefix = root.partition("/")
    client: Any = {"allow_http": asked.get("scheme") == "http"}
    return S3Store(bucket, prefix=prefix or None, client_options=client, **config)


def _gcs(uri: str, filesystem: fs.FileSystem, root: str) -> Any:
    from obstore.store import GCSStore

    bucket, _, prefix = root.partition("/")
    return GCSStore(bucket, prefix=prefix or None)


def _azure(uri: str, filesystem: fs.FileSystem, root: str) -> Any:
    from obstore.store import AzureStore

    parts = urlsplit(uri)
    key: Any = {"account_key": unquote(parts.password)} if parts.password else {}
    place = f"{parts.username}@{parts.hostname}" if parts.username else parts.netloc
    return AzureStore.from_url(f"{parts.scheme}://{place}{parts.path}", **key)
