-- The install script of jobq_shard, which a database with jobq has beside it where it is one shard of a cluster: what
-- the routers (src/sql/router) ask it for. scripts/cluster_script.awk makes the script of src/sql/shard/*.sql.
-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION jobq_shard" to load this file. \quit

--: what the routers of a cluster ask a shard for
CREATE SCHEMA jobq_shard;
