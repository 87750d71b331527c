-- Handlers, which are functions of the database that run the jobs of a queue. CREATE EXTENSION runs this file; upgrades do not run
-- it again.

-- Functions and roles are stored by name, because pg_upgrade fails if a table has a column of type regprocedure, and a dump of a
-- column of type regrole cannot be restored on a server without the role. jobq checks whether the function and the role exist each
-- time it uses them.
--: handlers, written by jobq_set_handler and jobq_drop_handler, shown by the view jobq.handlers
CREATE TABLE jobq.handler_settings (
    queue         text COLLATE "C" NOT NULL
                  CONSTRAINT handler_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    kind          text COLLATE "C" NOT NULL  --: kind of the jobs; empty for jobs without a kind
                  CONSTRAINT handler_settings_kind_length CHECK (octet_length(kind) <= 255),
    handler       text NOT NULL,  --: schema-qualified name of a function or procedure that takes one jsonb argument
    run_as        text NOT NULL,  --: the role that runs the handler
    max_executors integer NOT NULL DEFAULT 1  --: maximum number of the handler's jobs that run at the same time
                  CONSTRAINT handler_settings_max_executors_range CHECK (max_executors BETWEEN 1 AND 64),
    versions      integer[]  --: versions of the jobs that the handler runs; NULL for all versions
                  CONSTRAINT handler_settings_versions_list
                  CHECK (pg_catalog.array_position(versions, NULL) IS NULL AND pg_catalog.array_length(versions, 2) IS NULL),
    capabilities  text[]  --: the handler runs only jobs that require no capabilities other than these; NULL for none
                  CONSTRAINT handler_settings_capabilities_list
                  CHECK (pg_catalog.array_position(capabilities, NULL) IS NULL AND pg_catalog.array_length(capabilities, 2) IS NULL),
    settings      text[]  --: configuration settings that are in effect while the handler runs, each as name=value
                  CONSTRAINT handler_settings_settings_list
                  CHECK (pg_catalog.array_position(settings, NULL) IS NULL AND pg_catalog.array_length(settings, 2) IS NULL),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, kind)
);

-- Makes pg_dump include the rows of this table.
SELECT pg_catalog.pg_extension_config_dump('jobq.handler_settings', '');

CREATE TRIGGER invalidate_caches AFTER INSERT OR UPDATE OR DELETE ON jobq.handler_settings FOR EACH ROW
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches_on_truncate AFTER TRUNCATE ON jobq.handler_settings FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.invalidate_caches();
ALTER TABLE jobq.handler_settings ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.handler_settings ENABLE ALWAYS TRIGGER invalidate_caches_on_truncate;
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.handler_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
