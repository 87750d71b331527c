-- Identifies the database to which the jobs belong. CREATE EXTENSION adds a row (see jobq.announce). Restoring a dump adds the row
-- of the original database. A database created from a template or a base backup contains only the row of the original database. The
-- table has no key, so that every dump can be restored.
--: the database to which the jobs belong; in any other database, the jobs do not run until jobq_adopt() is called
CREATE TABLE jobq.identity (
    system_identifier bigint NOT NULL,  --: system identifier of the database's server, as in pg_control_system()
    database          oid NOT NULL,
    major_version     integer NOT NULL,  --: major version of the database's server; needed because pg_upgrade changes the system
                                         --: identifier
    data_directory    bigint NOT NULL,  --: number that marked the data directory when the jobs were adopted; 0 if it had no mark
    copied            boolean NOT NULL DEFAULT false,  --: true in a copy of a database until jobq_adopt() is called
    adopted_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE jobq.identity REPLICA IDENTITY FULL;

SELECT pg_catalog.pg_extension_config_dump('jobq.identity', '');

CREATE TRIGGER invalidate_caches AFTER INSERT OR UPDATE OR DELETE ON jobq.identity FOR EACH ROW
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches_on_truncate AFTER TRUNCATE ON jobq.identity FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.invalidate_caches();
ALTER TABLE jobq.identity ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.identity ENABLE ALWAYS TRIGGER invalidate_caches_on_truncate;
