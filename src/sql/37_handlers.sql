-- Functions for handlers, which are functions of the database that run jobs.

--: set the handler of a kind: a function or procedure that takes the job as jsonb, and the role that runs it; returns true if
--: the call changed the handler
CREATE FUNCTION jobq_set_handler(
        queue text,
        kind text,
        handler regprocedure,
        run_as regrole DEFAULT NULL,
        max_executors integer DEFAULT 1,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        settings text[] DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: remove the handler of a kind; a job that it is already running can finish; returns false if the kind had no handler
CREATE FUNCTION jobq_drop_handler(queue text, kind text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: for the view jobq.handlers: the state of a handler, and the reason if it cannot run jobs now
CREATE FUNCTION jobq.handler_state(queue text, kind text, handler text, run_as text, settings text[])
    RETURNS TABLE (state text, reason text, executors integer, running integer)
    AS 'MODULE_PATHNAME', 'jobq_handler_state'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp ROWS 1;
