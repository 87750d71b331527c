-- Errors of calls to shards.

--: the error of a call to a shard
CREATE TYPE jobq_router.fault AS (shard integer, state text, message text, detail text, hint text);

-- The note is a session setting that contains the current time in seconds. It is a number, because no setting of the session
-- changes how numbers are written or read. It is not the time at which the note expires, so that the note does not last longer if
-- the clock is set back.
--: make the note "what" in this session
CREATE FUNCTION jobq_router.note(what text) RETURNS void
    LANGUAGE sql VOLATILE AS $$
SELECT set_config('jobq_router.' || $1, extract(epoch FROM clock_timestamp())::numeric::text, false)
$$;

--: return whether this session has made the note "what" within the last "span"
CREATE FUNCTION jobq_router.has_noted(what text, span interval) RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
SELECT coalesce(extract(epoch FROM clock_timestamp())::numeric - nullif(current_setting('jobq_router.' || $1, true), '')::numeric
                    BETWEEN 0 AND extract(epoch FROM $2)::numeric, false)
$$;

--: return the message of a shard without the prefix that PL/Proxy adds
CREATE FUNCTION jobq_router.said(message text) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
SELECT btrim(regexp_replace(regexp_replace($1, '^[[:alnum:]_.]+[(][0-9]+[)]: [[].*?[]] REMOTE [^[:space:]]+: ', ''), '^PL/Proxy function .*?[(][0-9]+[)]: ', ''), E' \n')
$$;

--: return how long a session passes over a shard that could not be reached: the setting jobq_router.pass_over (default: 2 seconds)
CREATE FUNCTION jobq_router.pass_over() RETURNS interval
    LANGUAGE sql STABLE AS $$
SELECT coalesce(nullif(current_setting('jobq_router.pass_over', true), ''), '2 s')::interval
$$;

--: make this session pass over a shard for a while
CREATE FUNCTION jobq_router.note_down(shard integer) RETURNS void
    LANGUAGE sql VOLATILE AS $$
SELECT jobq_router.note('down_' || $1)
$$;

-- PL/Proxy adds a prefix to the message if the shard canceled the call, but not if this session was canceled.
--: return whether the call was canceled in this session before the shard answered
CREATE FUNCTION jobq_router.is_silent(f jobq_router.fault) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
SELECT $1.state = '57014' AND jobq_router.said($1.message) = $1.message
$$;

-- The note is a prepared statement, because the error that follows rolls back the settings of the session, but not its prepared
-- statements. PostgreSQL records when a statement was prepared.
--: make this session avoid a shard or queue for a while, because a call was canceled while it waited for the shard or queue
CREATE FUNCTION jobq_router.note_silent(what text) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    note text := 'jobq_router_silent_' || $1;
BEGIN
    IF EXISTS (SELECT FROM pg_prepared_statements p WHERE p.name = note) THEN
        EXECUTE 'DEALLOCATE ' || note;
    END IF;
    EXECUTE format('PREPARE %s AS SELECT %s', note, extract(epoch FROM clock_timestamp() - statement_timestamp()));
END
$$;

-- The factor limits the share of its time in which the session waits for a shard that does not answer.
--: return whether this session avoids a shard or queue because of note_silent: for ten times as long as the canceled call had
--: waited, but at most for a minute
CREATE FUNCTION jobq_router.was_silent(what text) RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
SELECT EXISTS (SELECT FROM pg_prepared_statements p, CAST(substring(p.statement FROM '[0-9.]+$') AS numeric) waited
               WHERE p.name = 'jobq_router_silent_' || $1
                 AND extract(epoch FROM clock_timestamp() - p.prepare_time) - waited BETWEEN 0 AND least(waited * 10, 60))
$$;

--: return whether this session passes over a shard
CREATE FUNCTION jobq_router.is_down(shard integer) RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
SELECT jobq_router.has_noted('down_' || $1, jobq_router.pass_over())
$$;

--: return whether this session doubts that a shard will answer, because it passes over the shard (is_down) or avoids it
--: (was_silent)
CREATE FUNCTION jobq_router.is_doubtful(shard integer) RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
SELECT jobq_router.is_down($1) OR jobq_router.was_silent('shard_' || $1)
$$;

-- PL/Proxy reports all errors of a connection as internal errors. If such an error occurs during a call, the shard may or may not
-- have executed the call. If another database answers at the address of a shard (JQR03), the shard itself has not been reached.
--: return what an error means: "map" (the router and the shard have different maps), "unreached" (the shard has done nothing),
--: "lost" (the shard may or may not have executed the call), "busy" (a lock could not be acquired in time), or "error" (the shard
--: rejected the call)
CREATE FUNCTION jobq_router.meaning(state text, message text) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
SELECT CASE WHEN $1 IN ('JQR01', 'JQR02') OR $2 LIKE 'Pl/Proxy: cluster not found: %' THEN 'map'
            WHEN $1 = 'XX000' AND $2 ~ '^PL/Proxy function .*([]] PQconnect(Start|Poll): |connect timeout to: )' THEN 'unreached'
            WHEN $1 = 'XX000' AND $2 ~ '^PL/Proxy function ' THEN 'lost'
            WHEN $1 IN ('57P01', 'JQR03') THEN 'unreached'
            WHEN $1 IN ('57P02', '57P03') THEN 'lost'
            WHEN $1 = '55P03' THEN 'busy'
            ELSE 'error' END
$$;

--: raise the error of a call, with the message of the shard or with a message that says what happened to the connection
CREATE FUNCTION jobq_router.raise(f jobq_router.fault) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    means  text := jobq_router.meaning(f.state, f.message);
    says   text := jobq_router.said(f.message);
    detail text := regexp_replace(f.detail, '^Remote detail: ', '');
    hint   text := regexp_replace(f.hint, '^Remote hint: ', '');
BEGIN
    IF jobq_router.is_silent(f) THEN
        PERFORM jobq_router.note_silent('shard_' || f.shard);
        RAISE '%', says USING ERRCODE = f.state, DETAIL = format('Shard %s had not answered.', f.shard), HINT = 'The call may or may not have been executed on this shard.';
    ELSIF f.state = 'JQR03' THEN
        RAISE 'the connection of shard % leads to another database', f.shard USING ERRCODE = 'sqlclient_unable_to_establish_sqlconnection',
            DETAIL = upper(left(says, 1)) || substr(says, 2) || '.', HINT = 'The call was not executed. Correct the connection of the shard with jobq_alter_shard().';
    ELSIF means = 'unreached' THEN
        RAISE 'shard % cannot be reached', f.shard USING ERRCODE = 'sqlclient_unable_to_establish_sqlconnection', DETAIL = concat_ws(E'\n', says, nullif(detail, '')),
            HINT = 'The call was not executed on this shard. The jobs of the shard must wait until it can be reached.';
    ELSIF means = 'lost' THEN
        RAISE 'the connection to shard % was lost', f.shard USING ERRCODE = 'transaction_resolution_unknown', DETAIL = concat_ws(E'\n', says, nullif(detail, '')),
            HINT = 'The call may or may not have been executed on this shard.';
    ELSIF detail <> '' AND hint <> '' THEN
        RAISE '%', says USING ERRCODE = f.state, DETAIL = detail, HINT = hint;
    ELSIF detail <> '' THEN
        RAISE '%', says USING ERRCODE = f.state, DETAIL = detail;
    ELSIF hint <> '' THEN
        RAISE '%', says USING ERRCODE = f.state, HINT = hint;
    END IF;
    RAISE '%', says USING ERRCODE = f.state;
END
$$;

--: call jobq_shard.require_map on a shard
CREATE FUNCTION jobq_router.at_require_map(integer, bigint) RETURNS integer
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT 1 FROM jobq_shard.require_shard($1) s, jobq_shard.require_map($2); $$;

--: call jobq_shard.require_shard on a shard
CREATE FUNCTION jobq_router.at_require_shard(integer) RETURNS integer
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT 1 FROM jobq_shard.require_shard($1); $$;

-- A router that has only the old address of a shard cannot learn the new address from that shard. Another shard may have a newer
-- map with the new address.
--: ask another shard for a newer map, because a shard cannot be reached; return whether this router now has a newer map
CREATE FUNCTION jobq_router.has_news(shard integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    mine  bigint := (SELECT m.version FROM jobq_router.map m);
    other integer := (SELECT s.shard_id FROM jobq_router.shards s WHERE s.shard_id <> shard AND NOT jobq_router.is_down(s.shard_id) ORDER BY jobq_router.is_doubtful(s.shard_id), random() LIMIT 1);
BEGIN
    IF other IS NOT NULL THEN
        PERFORM jobq_router.at_require_map(other, mine);
    END IF;
    RETURN false;
EXCEPTION WHEN OTHERS THEN
    IF jobq_router.meaning(SQLSTATE, SQLERRM) = 'map' THEN
        PERFORM jobq_router.agree(other);
    END IF;
    RETURN (SELECT m.version FROM jobq_router.map m) > mine;
END
$$;

-- For calls that are tried again if the shard has not executed them: with a newer map, or on another shard if the job can go to any
-- shard.
--: return if the call must be tried again after this error; otherwise, raise the error
CREATE FUNCTION jobq_router.try_again(try integer, elsewhere boolean, f jobq_router.fault) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    means text := jobq_router.meaning(f.state, f.message);
BEGIN
    IF means = 'map' AND try < 10 THEN
        PERFORM jobq_router.agree(f.shard);
    ELSIF means = 'unreached' AND elsewhere AND try < 2000 THEN
        PERFORM jobq_router.note_down(f.shard);
    ELSIF means <> 'unreached' OR try > 1 OR NOT jobq_router.has_news(f.shard) THEN
        PERFORM jobq_router.raise(f);
    END IF;
END
$$;

-- The shards that raised no error have already committed, so the detail of the error lists them. All of these calls can be
-- repeated.
--: raise the first of these errors, if there are any
CREATE FUNCTION jobq_router.raise_first(faults jobq_router.fault[], shards integer[]) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    first jobq_router.fault := faults[1];
    done  text := array_to_string(ARRAY(SELECT s FROM unnest(shards) s WHERE s <> ALL (ARRAY(SELECT f.shard FROM unnest(faults) f))), ', ');
BEGIN
    IF cardinality(faults) > 0 THEN
        IF done <> '' THEN
            first.detail := concat_ws(' ', nullif(regexp_replace(first.detail, '^Remote detail: ', ''), ''), 'These shards have executed the call: ' || done || '.');
        END IF;
        PERFORM jobq_router.raise(first);
    END IF;
END
$$;

--: raise a warning if the shard cannot be reached; otherwise, raise its error
CREATE FUNCTION jobq_router.warn(f jobq_router.fault) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF jobq_router.meaning(f.state, f.message) NOT IN ('unreached', 'lost') THEN
        PERFORM jobq_router.raise(f);
    END IF;
    PERFORM jobq_router.note_down(f.shard);
    RAISE WARNING 'the result is incomplete because shard % cannot be reached', f.shard USING ERRCODE = '08001', DETAIL = f.message;
END
$$;
