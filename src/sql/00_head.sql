-- scripts/install_script.awk makes the install script of jobq from the files in src/sql, in the order of their names.

-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION jobq" to load this file. \quit

-- IF NOT EXISTS is deliberately missing, because the extension must not take over a schema with this name that another role has
-- created.
--: tables, types, and views of the jobq extension
CREATE SCHEMA jobq;
