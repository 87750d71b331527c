-- The install script of jobq_router: a database that has no jobs of its own, and hands the calls of jobq on to shards.
-- scripts/cluster_script.awk makes it of src/sql/router/*.sql, of src/sql/router/routes, which says where each call goes, and of the
-- install script of jobq, which says what the calls look like.
-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION jobq_router" to load this file. \quit

-- Of the name that it has on a shard: a database is a router or has jobs, not both.
--: the types and views of jobq, over all shards
CREATE SCHEMA jobq;
--@ types

--: how calls of jobq find their shards
CREATE SCHEMA jobq_router;
