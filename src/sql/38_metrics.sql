-- Metrics for monitoring systems.

--: the metrics: numbers of jobs in the queues, totals of job events, histograms of waiting and running times, and the state of
--: background processes
CREATE FUNCTION jobq_metrics()
    RETURNS TABLE (name text, labels jsonb, value double precision)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the metrics in the Prometheus text format
CREATE FUNCTION jobq_prometheus()
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: reset the totals and histograms of this database; returns the time of the reset, or NULL if jobq is not preloaded and
--: therefore keeps no totals
CREATE FUNCTION jobq_reset_metrics()
    RETURNS timestamptz
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: all metrics with name, type, labels, and help text
CREATE FUNCTION jobq.metric_families()
    RETURNS TABLE (name text, type text, labels text, help text)
    AS 'MODULE_PATHNAME', 'jobq_metric_families'
    LANGUAGE C VOLATILE PARALLEL SAFE;
