-- The install script of jobq_router. A router is a database that has no jobs of its own, and passes calls to jobq's functions
-- on to shards. router/scripts/cluster_script.awk makes the script from router/sql/router/*.sql, from router/sql/router/routes,
-- which lists the route of each function, and from the install script of jobq, which defines the signatures of the functions.

-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION jobq_router" to load this file. \quit

-- The schema can have the same name as on a shard, because no database is both a router and a shard.
--: the types and views of jobq; the views cover all shards
CREATE SCHEMA jobq;
--@ types

--: the tables and functions that pass calls on to shards
CREATE SCHEMA jobq_router;
