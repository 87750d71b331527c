-- Calls jobq_grant. The catalog of an upgraded database is compared with that of a new database in which this script was run, too.
-- Roles exist in all databases.
SELECT NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'web') AS first \gset
\if :first
CREATE ROLE web;
CREATE ROLE mailer;
CREATE ROLE ops;
CREATE ROLE grafana;
\else
ALTER ROLE postman RENAME TO mailer;
\endif
SELECT jobq_grant('web', 'producer'), jobq_grant('mailer', 'worker', '{mail}'), jobq_grant('ops', 'operator'),
    jobq_grant('grafana', 'monitor');
ALTER ROLE mailer RENAME TO postman;
