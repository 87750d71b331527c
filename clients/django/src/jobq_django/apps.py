"""The application jobq_django."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class JobqConfig(AppConfig):
    name = "jobq_django"
    verbose_name = "jobq"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        autodiscover_modules("tasks")
