-- A role is stored by its OID, so it keeps its queues when it is renamed. A dump contains the name of the role instead, so after a
-- restore, the role with this name has these queues.
--: the queues that each role may use if jobq_grant has restricted the role to some queues; written by jobq_grant and jobq_revoke
CREATE TABLE jobq.queue_grants (
    role    pg_catalog.regrole NOT NULL,
    profile text NOT NULL,  --: "producer", "worker", or "operator"
    queue   text NOT NULL,
    PRIMARY KEY (role, profile, queue),
    CONSTRAINT queue_grants_profile_choice CHECK (profile IN ('producer', 'worker', 'operator')),
    CONSTRAINT queue_grants_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63)
);

-- A dump omits the rows of dropped roles, because their OIDs may belong to other roles on another server.
SELECT pg_catalog.pg_extension_config_dump('jobq.queue_grants',
    'WHERE role::pg_catalog.oid IN (SELECT oid FROM pg_catalog.pg_roles)');

CREATE TRIGGER invalidate_caches AFTER INSERT OR UPDATE OR DELETE ON jobq.queue_grants FOR EACH ROW
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches_on_truncate AFTER TRUNCATE ON jobq.queue_grants FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.invalidate_caches();
ALTER TABLE jobq.queue_grants ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.queue_grants ENABLE ALWAYS TRIGGER invalidate_caches_on_truncate;
