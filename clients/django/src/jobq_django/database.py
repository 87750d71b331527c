"""The database of the queue, and how a worker connects to it."""

from __future__ import annotations

from typing import Any, Dict, Optional

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import pq

# libpq's names of what Django calls otherwise.
_RENAMED = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}


def alias() -> str:
    """The setting JOBQ_DATABASE."""
    return str(getattr(settings, "JOBQ_DATABASE", DEFAULT_DB_ALIAS))


def connection(using: Optional[str] = None) -> Any:
    """Django's own, of this thread."""
    found = connections[using or alias()]
    if found.vendor != "postgresql":
        raise ImproperlyConfigured(f"database {found.alias!r} is not a PostgreSQL database; set JOBQ_DATABASE to the database of jobq")
    return found


def worker_parameters(using: Optional[str] = None) -> Dict[str, Any]:
    """Of psycopg.connect(), from DATABASES. What of OPTIONS is for Django or its driver is left out."""
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    said = connection(using).settings_dict
    found = {name: value for name, value in said.get("OPTIONS", {}).items() if name in known}
    found.update({name: str(said[key]) for key, name in _RENAMED.items() if said.get(key)})
    return found
