-- Of which database these jobs are. CREATE EXTENSION adds a row (jobq.announce); a dump brings another, a template copy and
-- a base backup have that of the original. Without a key, so that no dump fails to restore.
--: the database whose jobs these are; where it is another than this one they are left alone until jobq_adopt()
CREATE TABLE jobq.identity (
    system_identifier bigint NOT NULL,  --: of the server, as pg_control_system() says it
    database          oid NOT NULL,
    major_version     integer NOT NULL,  --: of the server: pg_upgrade gives it another identifier
    data_directory    bigint NOT NULL,  --: the mark that the data directory had when the jobs were adopted; 0: none
    copied            boolean NOT NULL DEFAULT false,  --: found in a copy, and not adopted since
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
