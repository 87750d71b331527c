-- The number of this database if it is a shard of a cluster. A trigger sets the parameters of the job id sequence according to the
-- row, so that sessions cannot generate ids of other shards, and generating an id costs no more than without shards. The row is
-- needed for dumps, because a dump contains only the last value of a sequence that belongs to an extension.
--: the shard number of this database, written by jobq_set_shard; no rows if the database is not a shard
CREATE TABLE jobq.shard (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    shard_id integer NOT NULL CONSTRAINT shard_shard_id_range CHECK (shard_id BETWEEN 0 AND 1023)  --: number of the shard,
                                                                                                   --: which equals id % 1024
                                                                                                   --: for each of its jobs
);

SELECT pg_catalog.pg_extension_config_dump('jobq.shard', '');

--: makes the ids of new jobs contain the number in jobq.shard
CREATE FUNCTION jobq.follow_shard() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_follow_shard'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE TRIGGER follow_shard AFTER INSERT OR UPDATE OR DELETE ON jobq.shard FOR EACH ROW
    EXECUTE FUNCTION jobq.follow_shard();
CREATE TRIGGER follow_shard_on_truncate AFTER TRUNCATE ON jobq.shard FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.follow_shard();
ALTER TABLE jobq.shard ENABLE ALWAYS TRIGGER follow_shard;
ALTER TABLE jobq.shard ENABLE ALWAYS TRIGGER follow_shard_on_truncate;
