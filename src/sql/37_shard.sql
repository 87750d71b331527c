-- Which shard of a cluster this database is.

--: make this database a shard: the ids of its jobs carry the number; refused while it has jobs of other ids; false when it was that already
CREATE FUNCTION jobq_set_shard(shard_id integer)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the shard that this database is, and the ids of its jobs carry (id % 1024); NULL: none
CREATE FUNCTION jobq_shard_id()
    RETURNS integer
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;
