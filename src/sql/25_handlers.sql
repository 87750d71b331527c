-- Handlers: which function of the database runs the jobs of a queue. Runs once: an upgrade never re-runs this fragment.

-- Functions and roles by their names: a column of type regprocedure keeps pg_upgrade from running, one of type regrole a dump
-- from being restored where there is no such role. Whether they are there is looked up whenever it matters.
--: the functions that run jobs: jobq_set_handler and jobq_drop_handler write it, jobq.handlers shows it
CREATE TABLE jobq.handler_settings (
    queue         text COLLATE "C" NOT NULL
                  CONSTRAINT handler_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    kind          text COLLATE "C" NOT NULL  --: of the jobs; empty: those without a kind
                  CONSTRAINT handler_settings_kind_length CHECK (octet_length(kind) <= 255),
    handler       text NOT NULL,  --: function or procedure, schema and name as SQL writes them; it takes one jsonb
    run_as        text NOT NULL,  --: the role that runs it
    max_executors integer NOT NULL DEFAULT 1  --: so many of its jobs run at once at most
                  CONSTRAINT handler_settings_max_executors_range CHECK (max_executors BETWEEN 1 AND 64),
    versions      integer[]  --: of the jobs; NULL: any
                  CONSTRAINT handler_settings_versions_list
                  CHECK (pg_catalog.array_position(versions, NULL) IS NULL AND pg_catalog.array_length(versions, 2) IS NULL),
    capabilities  text[]  --: jobs that require no others; NULL: none
                  CONSTRAINT handler_settings_capabilities_list
                  CHECK (pg_catalog.array_position(capabilities, NULL) IS NULL AND pg_catalog.array_length(capabilities, 2) IS NULL),
    settings      text[]  --: name=value of each, in force while it runs
                  CONSTRAINT handler_settings_settings_list
                  CHECK (pg_catalog.array_position(settings, NULL) IS NULL AND pg_catalog.array_length(settings, 2) IS NULL),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, kind)
);

-- pg_dump keeps the rows.
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
