-- The install script of jobq is made by concatenating src/sql/*.sql in the order of their names.
-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION jobq" to load this file. \quit

-- Plain CREATE, on purpose: a schema of this name that somebody else made must not be adopted silently.
CREATE SCHEMA jobq;
COMMENT ON SCHEMA jobq IS 'tables, types and views of the jobq extension';
