"""The extension, in the database of JOBQ_DATABASE. Where the role may not create it, somebody else has to do so before."""

from django.contrib.postgres.operations import CreateExtension
from django.db import migrations

from jobq_django.database import alias


class CreateJobq(CreateExtension):
    """Backwards it leaves the extension, and with it all jobs."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.alias == alias():
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        pass


class Migration(migrations.Migration):
    dependencies = []
    operations = [CreateJobq("jobq")]
