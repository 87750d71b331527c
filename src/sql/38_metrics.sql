-- Metrics for monitoring systems.

--: metrics: jobs in the queues, totals of what happened to jobs, histograms of waiting and running times, background processes
CREATE FUNCTION jobq_metrics()
    RETURNS TABLE (name text, labels jsonb, value double precision)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the metrics in the text format of Prometheus
CREATE FUNCTION jobq_prometheus()
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: reset the totals and histograms of this database; returns the time of the reset, or NULL if jobq does
--: not keep totals, because it is not preloaded
CREATE FUNCTION jobq_reset_metrics()
    RETURNS timestamptz
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: all metrics with name, type, labels, and help text
CREATE FUNCTION jobq.metric_families()
    RETURNS TABLE (name text, type text, labels text, help text)
    AS 'MODULE_PATHNAME', 'jobq_metric_families'
    LANGUAGE C VOLATILE PARALLEL SAFE;
