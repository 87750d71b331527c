"""Settings of the test project. Django creates a test database on the server that PGHOST, PGPORT, and PGUSER select."""

import os

SECRET_KEY = "of the tests"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": os.environ.get("PGDATABASE", "postgres"),
        "HOST": os.environ["PGHOST"], "PORT": os.environ.get("PGPORT", ""), "USER": os.environ.get("PGUSER", ""),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
    },
}
if "TEST_DATABASE" in os.environ:
    DATABASES["default"]["NAME"] = os.environ["TEST_DATABASE"]
DATABASES["lite"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
INSTALLED_APPS = ["jobq_django", "shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
