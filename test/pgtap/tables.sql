-- Tables, columns, views, and types: they exist, have comments, are dumped, and can be read by the right roles.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS jobq;

CREATE TEMP VIEW relations AS SELECT * FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind IN ('r', 'v');
CREATE TEMP VIEW commented_columns AS
SELECT a.attrelid::regclass::text || '.' || a.attname AS name, col_description(a.attrelid, a.attnum) AS comment
FROM pg_attribute a WHERE a.attrelid = 'jobq.jobs'::regclass AND a.attnum > 0 AND NOT a.attisdropped;

SELECT plan(61 + (SELECT count(*)::integer FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind = 'r') + 2 * (SELECT count(*)::integer FROM relations) + (SELECT count(*)::integer FROM commented_columns));

SELECT has_schema('jobq');
SELECT isnt(obj_description('jobq'::regnamespace, 'pg_namespace'), NULL, 'the schema has a comment');
SELECT is((SELECT count(*) FROM pg_depend WHERE classid = 'pg_namespace'::regclass AND objid = 'jobq'::regnamespace AND deptype = 'e'), 1::bigint, 'the schema belongs to the extension');
SELECT isnt(obj_description('jobq.job_status'::regtype, 'pg_type'), NULL, 'the type has a comment');
SELECT tables_are('jobq', '{jobs,batch_settings,batch_counts,queue_settings,kind_settings,attempts,log_lines,lane_directory,lane_retirement,kept_keys,limit_settings,named_limit_settings,unslotted,tick_state,edges,deleted_dependencies,queue_grants,identity,schedule_settings,steps,signals,job_signals,handler_settings,shard,hash_secret}'::name[]);
SELECT views_are('jobq', '{background_workers,dependencies,lanes,limits,named_limits,queues,kinds,queue_stats,workers,schedules,batches,handlers,halted_groups,producer_queues,worker_queues,operator_queues}'::name[]);

SELECT isnt(obj_description(oid, 'pg_class'), NULL, relname || ' has a comment') FROM relations ORDER BY relname;
SELECT isnt(comment, NULL, name || ' has a comment') FROM commented_columns ORDER BY name;

-- The documented columns. There may be more.
CREATE TEMP TABLE wanted (name text, type text, nullable boolean, def boolean) ON COMMIT DROP;
INSERT INTO wanted VALUES
    ('id', 'bigint', false, false), ('queue', 'text', false, false), ('kind', 'text', false, true), ('payload', 'jsonb', false, true),
    ('priority', 'smallint', false, true), ('status', 'jobq.job_status', false, false), ('run_at', 'timestamp with time zone', false, false),
    ('attempts', 'integer', false, true), ('max_attempts', 'integer', false, false), ('lease', 'bigint', true, false), ('_completed_lease', 'bigint', true, false),
    ('worker_id', 'text', true, false), ('started_at', 'timestamp with time zone', true, false), ('last_heartbeat', 'timestamp with time zone', true, false),
    ('heartbeat_timeout', 'interval', true, false), ('created_at', 'timestamp with time zone', false, true), ('finished_at', 'timestamp with time zone', true, false),
    ('result', 'jsonb', true, false), ('error', 'text', true, false), ('progress', 'jsonb', true, false), ('version', 'integer', false, true),
    ('requires', 'text[]', true, false), ('unique_key', 'text', true, false), ('group_key', 'text', true, false), ('concurrency_key', 'text', true, false),
    ('unique_for', 'interval', true, false), ('_holds_key', 'boolean', true, false), ('_queue_slot', 'bigint', true, false), ('_key_slot', 'bigint', true, false), ('max_runtime', 'interval', true, false), ('cancel_requested_at', 'timestamp with time zone', true, false), ('metadata', 'jsonb', true, false),
    ('dead_from', 'text', true, false), ('_must_end_at', 'timestamp with time zone', true, false), ('_group_waiting', 'bigint', true, false), ('_group_active', 'bigint', true, false), ('_round_robin_key', 'bigint', true, false), ('lost_attempts', 'integer', false, true), ('_company_lease', 'bigint', true, false),
    ('expires_at', 'timestamp with time zone', true, false), ('batch_id', 'bigint', true, false), ('_kind_slot', 'bigint', true, false), ('_limit_slot1', 'bigint', true, false),
    ('_limit_slot2', 'bigint', true, false), ('limits', 'text[]', true, false);
SELECT set_has($$SELECT attname::text, format_type(atttypid, atttypmod), NOT attnotnull, atthasdef FROM pg_attribute WHERE attrelid = 'jobq.jobs'::regclass AND attnum > 0$$,
               'SELECT * FROM wanted', 'jobq.jobs has the documented columns with their types, NULLs, and defaults');
SELECT is((SELECT attidentity FROM pg_attribute WHERE attrelid = 'jobq.jobs'::regclass AND attname = 'id'), 'd'::"char", 'id is an identity column that a dump may set');
SELECT is((SELECT count(*) FROM pg_attribute WHERE attrelid = 'jobq.jobs'::regclass AND attgenerated <> ''), 0::bigint, 'no column is generated, because every statement would parse its expression');
SELECT is((SELECT count(*) FROM pg_constraint WHERE conrelid = 'jobq.jobs'::regclass AND contype NOT IN ('p', 'n')), 0::bigint, 'no CHECK or foreign key on jobq.jobs, for the same reason');
SELECT is((SELECT count(*) FROM pg_constraint WHERE confrelid = 'jobq.jobs'::regclass), 0::bigint, 'no foreign key references jobs');
SELECT col_is_pk('jobq', 'jobs', 'id', 'the primary key of jobs');
SELECT col_is_pk('jobq', 'queue_settings', 'queue', 'the primary key of queue_settings');
-- They are all generated from the table in src/core/queue_settings.h.
SELECT is((SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'jobq.queue_settings'::regclass AND attnum > 3),
          (SELECT proargnames[2:] FROM pg_proc WHERE proname = 'jobq_create_queue'), 'the settings are the arguments of jobq_create_queue, in their order');
SELECT is((SELECT proargnames FROM pg_proc WHERE proname = 'jobq_alter_queue'), (SELECT proargnames FROM pg_proc WHERE proname = 'jobq_create_queue'), 'jobq_alter_queue has the same arguments');
SELECT col_is_pk('jobq', 'kind_settings', '{queue,kind}'::name[], 'the primary key of kind_settings');
SELECT is((SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'jobq.kind_settings'::regclass AND attnum > 3),
          (SELECT proargnames[3:] FROM pg_proc WHERE proname = 'jobq_alter_kind'), 'the settings of kinds are the arguments of jobq_alter_kind, in their order');
SELECT is((SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'jobq.kinds'::regclass AND attnum > 4),
          (SELECT proargnames[3:] || 'origins'::text FROM pg_proc WHERE proname = 'jobq_alter_kind'), 'the view jobq.kinds shows all settings of kinds');
SELECT columns_are('jobq', 'attempts', '{job_id,lease,attempt,outcome,worker_id,started_at,finished_at,error,reported,details}'::name[]);
SELECT columns_are('jobq', 'log_lines', '{job_id,lease,number,attempt,written_at,level,line,late,dropped,_bytes}'::name[]);
SELECT is((SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'jobq.queues'::regclass AND attnum > 4),
          (SELECT proargnames[2:] FROM pg_proc WHERE proname = 'jobq_create_queue'), 'the view jobq.queues shows all settings');
SELECT set_has($$SELECT attname::text FROM pg_attribute WHERE attrelid = 'jobq.queue_stats'::regclass AND attnum > 0$$,
               $$SELECT unnest(enum_range(NULL::jobq.job_status)::text[] || '{queue,oldest_pending_age,oldest_heartbeat,paused,enqueued_per_second,claimed_per_second,completed_per_second,failed_per_second,lost_per_second,source}'::text[])$$, 'queue_stats has the number of jobs by status, the age of the oldest, and rates');
SELECT set_has($$SELECT attname::text FROM pg_attribute WHERE attrelid = 'jobq.background_workers'::regclass AND attnum > 0$$,
               $$SELECT unnest('{pid,database,state,last_round,last_error,last_error_at,last_error_over_at}'::text[])$$, 'background_workers has the process, its state, and its last error');
SELECT columns_are('jobq', 'workers', '{worker_id,queues,kinds,slots,client,started_at,state,running,last_claim,last_seen,info}'::name[]);
SELECT columns_are('jobq', 'batch_settings', '{id,name,metadata,on_complete,on_success,on_failure,created_by,created_at,sealed_at,finished_at,callbacks,error,_witness,_look_at}'::name[]);
SELECT columns_are('jobq', 'batch_counts', '{batch_id,completed,failed,cancelled,_folded}'::name[]);
SELECT is((SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'jobq.batches'::regclass AND attnum > 0),
          (SELECT proargnames[2:] FROM pg_proc WHERE proname = 'jobq_get_batch'), 'jobq_get_batch has the columns of the view jobq.batches');
SELECT columns_are('jobq', 'kept_keys', '{queue,unique_key,job_id,kept_until}'::name[]);
SELECT columns_are('jobq', 'steps', '{job_id,number,name,kind,state,saved_at,until,event,result,_awaited,jobs}'::name[]);
SELECT columns_are('jobq', 'signals', '{id,queue,event,payload,sent_at}'::name[]);
SELECT columns_are('jobq', 'job_signals', '{job_id,event,payload,sent_at}'::name[]);
SELECT columns_are('jobq', 'edges', '{job_id,kind,target,on_failure,active}'::name[]);
SELECT columns_are('jobq', 'dependencies', '{job_id,depends_on,on_failure,active}'::name[]);
SELECT col_is_pk('jobq', 'edges', '{job_id,kind,target}'::name[], 'the primary key of edges');
SELECT throws_ok($$INSERT INTO jobq.dependencies (job_id, depends_on) VALUES (1, 2)$$, '23514', NULL, 'a job depends only on older jobs, so there are no cycles');
SELECT throws_ok($$INSERT INTO jobq.dependencies (job_id, depends_on, on_failure) VALUES (2, 1, 'wait')$$, '23514', NULL, 'an invalid on_failure is rejected');
SELECT columns_are('jobq', 'queue_grants', '{role,profile,queue}'::name[]);
SELECT columns_are('jobq', 'identity', '{system_identifier,database,major_version,data_directory,copied,adopted_at}'::name[]);
SELECT columns_are('jobq', 'deleted_dependencies', '{job_id,result}'::name[]);
SELECT is((SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'jobq'::regnamespace), 0::bigint, 'no table has a foreign key');
SELECT is((SELECT count(*) FROM pg_index WHERE indrelid = 'jobq.kept_keys'::regclass AND indisunique), 0::bigint, 'the index on kept keys is not unique, so that keeping a key cannot fail');
SELECT has_index('jobq', 'attempts', 'attempts_job_idx', '{job_id,lease}'::name[], 'attempts has an index on job and lease');
SELECT is((SELECT count(*) FROM pg_index WHERE indrelid = 'jobq.log_lines'::regclass), 1::bigint, 'log_lines has one index, so that lines are cheap');

-- pg_dump keeps the rows.
SELECT set_eq($$SELECT unnest(extconfig)::regclass::text FROM pg_extension WHERE extname = 'jobq'$$,
              '{jobq.jobs,jobq.jobs_id_seq,jobq.batch_settings,jobq.batch_counts,jobq.queue_settings,jobq.kind_settings,jobq.attempts,jobq.log_lines,jobq.lane_directory,jobq.kept_keys,jobq.limit_settings,jobq.named_limit_settings,jobq.edges,jobq.deleted_dependencies,jobq.queue_grants,jobq.identity,jobq.schedule_settings,jobq.steps,jobq.signals,jobq.signals_id_seq,jobq.job_signals,jobq.handler_settings,jobq.shard}'::text[], 'pg_dump keeps the rows of these');
SELECT columns_are('jobq', 'hash_secret', '{only_row,secret,numbered_in}'::name[]);
SELECT is((SELECT relrowsecurity FROM pg_class WHERE oid = 'jobq.hash_secret'::regclass), true, 'the secret is hidden from members of pg_read_all_data');
SELECT is((SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = 'jobq.hash_secret'::regclass AND a.grantee <> c.relowner), 0::bigint, 'no other role has privileges on the secret');
SELECT is((SELECT relrowsecurity FROM pg_class WHERE oid = 'jobq.jobs'::regclass), false, 'jobs has no row security, because it would break dumps by other roles than the owner');
-- Frequently updated tables have suitable storage options.
SELECT ok((SELECT reloptions::text ~ 'fillfactor=60' AND reloptions::text ~ 'autovacuum_vacuum_scale_factor' FROM pg_class WHERE oid = 'jobq.jobs'::regclass), 'fillfactor and autovacuum options on jobs');
-- Triggers handle changes with plain SQL, also when the server applies replicated changes.
SELECT triggers_are('jobq', 'jobs', '{note_restore,fill_job,count_job,renumber_job,tell_job,follow_job,forget_job,forget_jobs}'::name[]);
SELECT trigger_is('jobq', 'jobs', 'fill_job', 'jobq', 'fill_job');
SELECT trigger_is('jobq', 'jobs', 'follow_job', 'jobq', 'follow_job');
SELECT is((SELECT tgenabled FROM pg_trigger WHERE tgrelid = 'jobq.jobs'::regclass AND tgname = 'tell_job'), 'R', 'changes in replica role publish claimable jobs');
SELECT is((SELECT tgenabled FROM pg_trigger WHERE tgrelid = 'jobq.jobs'::regclass AND tgname = 'renumber_job'), 'R', 'changes in replica role compute the hashes with the secret of this database');
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('jobq.queue_settings'::regclass, 'jobq.kind_settings'::regclass, 'jobq.lane_directory'::regclass, 'jobq.queue_grants'::regclass, 'jobq.identity'::regclass) AND tgenabled = 'A'), 11::bigint, 'changes of settings, lanes, grants, and identity invalidate caches in replica role, too');

-- Only the owner has privileges, and pg_monitor can read the views.
SELECT is(has_table_privilege('pg_monitor', oid, 'SELECT'), relkind = 'v' AND relname !~ '^(dependencies|(producer|worker|operator)_queues)$' OR relname IN ('attempts', 'log_lines'), 'pg_monitor and ' || relname) FROM relations ORDER BY relname;
SELECT is((SELECT count(*) FROM relations r, aclexplode(r.relacl) a WHERE a.grantee = 0), 0::bigint, 'PUBLIC has no privileges on the tables and views');
SELECT is(has_schema_privilege('pg_monitor', 'jobq', 'USAGE') AND NOT has_schema_privilege('pg_monitor', 'jobq', 'CREATE'), true, 'pg_monitor may use the schema');
SET ROLE pg_monitor;
SELECT count(*) FROM jobq.queues \gset monitor_
SELECT count(*) FROM jobq.queue_stats \gset monitor_
SELECT count(*) FROM jobq.background_workers \gset monitor_
SELECT count(*) FROM jobq.workers \gset monitor_
SELECT count(*) FROM jobq.attempts \gset monitor_
SELECT count(*) FROM jobq.log_lines \gset monitor_
RESET ROLE;
SELECT pass('pg_monitor has read every view');
SELECT is((SELECT count(*) FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname = 'jobq' AND a.grantee = 0), 0::bigint, 'PUBLIC has no privileges on the schema');

-- In published tables, rows can be updated and deleted only if they have a replica identity.
SELECT is(c.relreplident = 'f' OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary), true, c.relname || ': rows have a replica identity')
FROM pg_class c WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind = 'r' ORDER BY c.relname;
SET LOCAL client_min_messages = error;
CREATE PUBLICATION regress_jobq_everything FOR ALL TABLES;
RESET client_min_messages;
SELECT jobq_enqueue('published', kind => 'k') \g /dev/null
SELECT jobq_fail(id, lease, retry => false) FROM jobq_claim('published') \g /dev/null
SELECT lives_ok('SELECT * FROM jobq_tick(now() + interval ''60 days'')', 'all duties work if all tables are published');
SELECT lives_ok('SELECT jobq_drop_queue(''published'', force => true)', 'a queue is dropped if all tables are published');

SELECT * FROM finish();
ROLLBACK;
