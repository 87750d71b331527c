"""Selects the database of the queue and makes the parameters with which a worker connects to it."""

from __future__ import annotations

from typing import Any, Dict, Optional

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import pq

# libpq's names for settings that have other names in Django.
_RENAMED = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}


def alias() -> str:
    """Returns the database alias in the setting JOBQ_DATABASE."""
    return str(getattr(settings, "JOBQ_DATABASE", DEFAULT_DB_ALIAS))


def connection(using: Optional[str] = None) -> Any:
    """Returns Django's connection for the current thread."""
    found = connections[using or alias()]
    if found.vendor != "postgresql":
        raise ImproperlyConfigured(f"database {found.alias!r} is not a PostgreSQL database; set JOBQ_DATABASE to the database of jobq")
    return found


def worker_parameters(using: Optional[str] = None) -> Dict[str, Any]:
    """Returns the parameters of psycopg.connect() from DATABASES, without the OPTIONS that only Django or its driver understands."""
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    said = connection(using).settings_dict
    found = {name: value for name, value in said.get("OPTIONS", {}).items() if name in known}
    found.update({name: str(said[key]) for key, name in _RENAMED.items() if said.get(key)})
    return found
