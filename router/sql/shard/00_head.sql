-- The install script of jobq_shard, an extension that a database has in addition to jobq if it is a shard of a cluster. It contains
-- the functions that routers (router/sql/router) call. router/scripts/cluster_script.awk makes the script from
-- router/sql/shard/*.sql.

-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION jobq_shard" to load this file. \quit

--: the tables and functions that a shard has for the routers of its cluster
CREATE SCHEMA jobq_shard;
