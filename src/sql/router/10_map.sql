-- The map: which shard has what. Changed by functions only (70_change.sql), each time as a whole with a new version.

--: the version of the map that this router has; one row
CREATE TABLE jobq_router.map (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  bigint NOT NULL DEFAULT 0,
    cluster  uuid  --: whose map it is; its first change makes it up
);
INSERT INTO jobq_router.map DEFAULT VALUES;

-- The connection is also that of the server jobq_shard_N of the foreign data wrapper plproxy, where PL/Proxy reads it.
--: the shards: id % 1024 of a job is the shard_id of the one that has it
CREATE TABLE jobq_router.shards (
    shard_id   integer PRIMARY KEY CONSTRAINT shards_id_range CHECK (shard_id BETWEEN 0 AND 1023),
    connection text NOT NULL,  --: how libpq reaches it; without a password, which belongs into a user mapping
    weight     integer NOT NULL DEFAULT 1 CONSTRAINT shards_weight_range CHECK (weight BETWEEN 1 AND 1000),  --: its share of keys, queues and jobs without keys
    state      text NOT NULL DEFAULT 'active' CONSTRAINT shards_state_choice CHECK (state IN ('active', 'draining'))  --: draining: gets no new keys, queues or jobs without keys
);

-- A key that moves: was_on has the shards that may have unfinished jobs of it. They are asked first, in that order.
--: the home of each bucket of keys and of queues (bucket_of)
CREATE TABLE jobq_router.buckets (
    bucket   integer PRIMARY KEY CONSTRAINT buckets_range CHECK (bucket BETWEEN 0 AND 1023),
    shard_id integer NOT NULL,
    was_on   integer[] NOT NULL DEFAULT '{}'
);

--: queues that are not simply on the shard of their bucket
CREATE TABLE jobq_router.queues (
    queue     text PRIMARY KEY CONSTRAINT queues_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    spread    boolean NOT NULL,  --: its jobs are on all shards, those of a key on one
    spread_by text CONSTRAINT queues_spread_by_choice CHECK (spread_by IN ('unique_key', 'group_key', 'concurrency_key')),  --: which key decides where a job has several; NULL: such jobs are refused
    shard_id  integer,  --: the shard that was chosen for a queue that is not spread
    was_on    integer[] NOT NULL DEFAULT '{}',
    CONSTRAINT queues_place CHECK (spread = (shard_id IS NULL))
);

-- Not the version: where a dump is restored the shards may be further, and the first call takes their map over.
SELECT pg_catalog.pg_extension_config_dump('jobq_router.shards', '');
SELECT pg_catalog.pg_extension_config_dump('jobq_router.buckets', '');
SELECT pg_catalog.pg_extension_config_dump('jobq_router.queues', '');


--: the name of a shard for PL/Proxy
CREATE FUNCTION jobq_router.server(shard integer) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$ SELECT 'jobq_shard_' OPERATOR(pg_catalog.||) $1::pg_catalog.text $$;
--@ bucket_of jobq_router

-- Other shards are given the same, and those that come later.
--: what jobq_grant has granted on the shards
CREATE TABLE jobq_router.grants (
    role    regrole NOT NULL,
    profile text NOT NULL,
    queue   text  --: NULL: all queues
);
CREATE UNIQUE INDEX grants_key ON jobq_router.grants (role, profile, coalesce(queue, ''));
SELECT pg_catalog.pg_extension_config_dump('jobq_router.grants', 'WHERE role::pg_catalog.oid IN (SELECT oid FROM pg_catalog.pg_roles)');
