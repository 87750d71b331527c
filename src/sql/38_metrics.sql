-- For monitoring systems.

--: metrics: what stands in the queues, what has happened to jobs, histograms of their waiting and running, what runs
CREATE FUNCTION jobq_metrics()
    RETURNS TABLE (name text, labels jsonb, value double precision)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the same as text in the exposition format of Prometheus
CREATE FUNCTION jobq_prometheus()
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: let the totals and histograms of this database begin anew; returns when they did, NULL where there are none
CREATE FUNCTION jobq_reset_metrics()
    RETURNS timestamptz
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the catalogue of the metrics: name, type, labels, help
CREATE FUNCTION jobq.metric_families()
    RETURNS TABLE (name text, type text, labels text, help text)
    AS 'MODULE_PATHNAME', 'jobq_metric_families'
    LANGUAGE C VOLATILE PARALLEL SAFE;
