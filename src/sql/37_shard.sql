-- The shard of a cluster that this database is.

--: make this database a shard whose number is part of its job ids; fails if it has jobs with other ids; returns false if it
--: was that shard already
CREATE FUNCTION jobq_set_shard(shard_id integer)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the number of the shard that this database is, which each job id contains (id % 1024); NULL if it is none
CREATE FUNCTION jobq_shard_id()
    RETURNS integer
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;
