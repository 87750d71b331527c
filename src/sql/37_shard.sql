-- Functions that set and return the number of this database if it is a shard of a cluster.

--: make this database a shard of a cluster; the ids of all its jobs then contain the shard number; fails if the database has jobs
--: with other ids; returns false if the database already has this number
CREATE FUNCTION jobq_set_shard(shard_id integer)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the shard number of this database, which each of its job ids contains (id % 1024); NULL if the database is not a shard
CREATE FUNCTION jobq_shard_id()
    RETURNS integer
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;
