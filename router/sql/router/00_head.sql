-- The install script of jobq_router. A router is a database that has no jobs of its own and passes the calls of jobq on to
-- shards. router/scripts/cluster_script.awk makes the script from router/sql/router/*.sql, from router/sql/router/routes, which says where
-- each call goes, and from the install script of jobq, which has the signatures of the calls.
-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION jobq_router" to load this file. \quit

-- The schema can have the same name as on a shard, because a database either is a router or has jobs, never both.
--: the types and views of jobq; the views cover all shards
CREATE SCHEMA jobq;
--@ types

--: the tables and functions that find the shards of a call
CREATE SCHEMA jobq_router;
