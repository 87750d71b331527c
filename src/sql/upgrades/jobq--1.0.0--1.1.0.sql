-- What has changed in src/sql since 1.0.0. CONTRIBUTING.md, "Change SQL after a release".
\echo Use "ALTER EXTENSION jobq UPDATE" to load this file. \quit

SELECT jobq.require_library();
