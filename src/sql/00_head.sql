-- The install script of jobq is made of src/sql/*.sql, in the order of their names, by scripts/install_script.awk.
-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION jobq" to load this file. \quit

-- Plain CREATE, on purpose: a schema of this name that somebody else made must not be adopted silently.
--: tables, types and views of the jobq extension
CREATE SCHEMA jobq;
