"""Creates the extension in the database JOBQ_DATABASE. If the role may not create extensions, a superuser must create it before."""

from django.contrib.postgres.operations import CreateExtension
from django.db import migrations

from jobq_django.database import alias


class CreateJobq(CreateExtension):
    """Creates the extension. Reversing the migration keeps the extension, because dropping it would delete all jobs."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.alias == alias():
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        pass


class Migration(migrations.Migration):
    dependencies = []
    operations = [CreateJobq("jobq")]
