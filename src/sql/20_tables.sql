-- Tables, their indexes, and their triggers. CREATE EXTENSION runs this file; upgrades do not run it again.

-- jobq identifies lanes (sets of jobs that the same workers can claim), groups, limits, and round-robin keys by numbers. These
-- numbers are hashes (SipHash-2-4) of the names, keyed with this secret. If the hashes had no key, a producer could choose names in
-- one queue whose numbers collide with numbers of another queue. Each database has its own secret, and jobq recomputes the numbers
-- in rows that come from another database, so pg_dump does not need to dump the secret. Row-level security hides the secret from
-- members of pg_read_all_data.
--: the secret for the hashes of lanes, groups, limits, and round-robin keys in this database; one row, whose secret never changes
CREATE TABLE jobq.hash_secret (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret      bytea NOT NULL  --: 16 random bytes
                DEFAULT pg_catalog.substr(pg_catalog.sha256(pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
                                                            || pg_catalog.uuid_send(pg_catalog.gen_random_uuid())), 1, 16)
                CHECK (pg_catalog.octet_length(secret) = 16),
    numbered_in bigint  --: trigger epoch of jobq.jobs (a number that changes whenever the definitions of its triggers change) in
                        --: which the background duty "repair" last ensured that the numbers in all jobs were computed with this
                        --: secret
);
INSERT INTO jobq.hash_secret DEFAULT VALUES;
ALTER TABLE jobq.hash_secret ENABLE ROW LEVEL SECURITY;

--: raises an error if plain SQL tries to change or delete the secret
CREATE FUNCTION jobq.keep_secret() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_keep_secret'
    LANGUAGE C;

--: the number of a lane: a hash of queue, kind, version, the set of required capabilities, and the set of named limits
CREATE FUNCTION jobq.lane_of(queue text, kind text, version integer, requires text[], limits text[] DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME', 'jobq_lane_of'
    LANGUAGE C STABLE PARALLEL SAFE;

--: the number of a group: a hash of queue and group_key
CREATE FUNCTION jobq.group_of(queue text, group_key text)
    RETURNS bigint
    AS 'MODULE_PATHNAME', 'jobq_group_of'
    LANGUAGE C STABLE PARALLEL SAFE;

--: the position of a concurrency key among the keys that take turns if the queue setting round_robin is on: a hash of the key; NULL
--: counts as the empty key
CREATE FUNCTION jobq.round_robin_key_of(concurrency_key text)
    RETURNS bigint
    AS 'MODULE_PATHNAME', 'jobq_round_robin_key_of'
    LANGUAGE C STABLE PARALLEL SAFE;

-- The WHEN conditions of jobq's triggers call this function.
--: returns false in jobq's own statements, so that the triggers do not fire for them; otherwise, returns true
CREATE FUNCTION jobq.by_hand()
    RETURNS boolean
    AS 'MODULE_PATHNAME', 'jobq_by_hand'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: returns the value unchanged or, in some of jobq's own INSERT statements, in a form that lets the server store the value in the
--: TOAST table
CREATE FUNCTION jobq.apart(value jsonb)
    RETURNS jsonb
    AS 'MODULE_PATHNAME', 'jobq_apart'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Columns whose names begin with an underscore are internal: jobq derives their values from other columns, or stores its own state
-- in them. Users can read these columns, but must never write them. The derived columns are neither generated columns nor protected
-- by CHECK constraints, because the server would parse each generation expression and each CHECK constraint again for every
-- statement. This takes 3 to 4 microseconds per expression, which would add up to half the cost of completing a job. jobq's own
-- statements set the derived columns. When a user executes INSERT, COPY, or UPDATE, the triggers below set these columns, and check
-- what CHECK constraints would check.
--
-- A new release keeps the order of the columns and adds new columns at the end (CONTRIBUTING.md, "Add a column of jobq.jobs"). The
-- fixed-width columns that are never NULL come first, without alignment gaps, so that the server knows their offsets. This speeds
-- up updates, which compare all indexed columns of the old and the new version of a row. The other columns that never change after
-- the insert come next. The columns that a claim or a completion writes come last, because the WAL record of an update contains
-- only the bytes between the common prefix and the common suffix of the two versions.
--
-- The fillfactors are low because a claim writes a new version of the job's row, and inserts an entry for this version into the
-- primary key index. If an index page is full, each insertion first searches the page for old entries that it can remove, which
-- costs ten times as much as the insertion itself.
--: all jobs: waiting, running, and finished
CREATE TABLE jobq.jobs (
    -- columns that the producer sets
    -- Scans use the largest bigint as the end of all ids, so it is not an id.
    id                  bigint GENERATED BY DEFAULT AS IDENTITY (MAXVALUE 9223372036854775806) PRIMARY KEY WITH (fillfactor = 60),  --: id of the job
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),  --: when the job was enqueued
    run_at              timestamptz NOT NULL,  --: the job does not run before this time; among jobs of the same priority, those
                                               --: with an earlier run_at run first
    _lane               bigint NOT NULL,  --: number of the lane (see jobq.lane_of); a lane is the set of jobs that have the same
                                          --: queue, kind, version, "requires", and "limits"
    version             integer NOT NULL DEFAULT 0,  --: version of the payload's format; a worker can choose which versions it
                                                     --: claims
    max_attempts        integer NOT NULL,  --: maximum number of attempts before the job fails permanently
    priority            smallint NOT NULL DEFAULT 0,  --: -32768 to 32767; jobs with lower numbers run first
    queue               text NOT NULL,  --: name of the queue, 1 to 63 bytes
    kind                text NOT NULL DEFAULT '',  --: kind of work, up to 255 bytes; a worker can choose which kinds it claims
    payload             jsonb NOT NULL DEFAULT '{}',  --: the input of the job
    metadata            jsonb,  --: any data that the producer wants to keep with the job
    requires            text[],  --: capabilities that a worker must have to claim the job
    heartbeat_timeout   interval,  --: time without a heartbeat after which the worker is presumed dead; NULL if the queue's setting
                                   --: applies
    max_runtime         interval,  --: maximum run time of one attempt, regardless of heartbeats; NULL if the queue's setting
                                   --: applies
    unique_key          text COLLATE "C",  --: key that no other unfinished job of the queue has, up to 1024 bytes; the column keeps
                                           --: the key after the job has finished
    unique_for          interval,  --: how long unique_key stays reserved after the job has finished
    group_key           text,  --: key of up to 1024 bytes; jobs of the queue that have the same key run one at a time, in the order
                               --: of their ids
    concurrency_key     text,  --: key of up to 255 bytes whose limits apply to the job; if the queue setting round_robin is on, the
                               --: keys take turns
    _round_robin_key    bigint,  --: hash of concurrency_key, which determines when the key has its turn; NULL if the queue setting
                                 --: round_robin has never been on
    -- internal flags, placed here because they fit into an alignment gap
    _holds_key          boolean,  --: true while the job holds its unique_key (at most until it finishes), and is therefore in the
                                  --: unique index; otherwise NULL
    _ready              boolean,  --: true while the job is pending and therefore in the claim index; otherwise NULL
    _due                boolean,  --: true while the job is scheduled, or is blocked with a timeout, so that the background duty
                                  --: "promote" finds it; otherwise NULL
    _rescue_indexed     boolean,  --: true while the job is in the indexes that the background duty "rescue" uses; otherwise NULL
    -- columns that contain the state of the job
    status              jobq.job_status NOT NULL,  --: status of the job; the comment on the type explains each status
    attempts            integer NOT NULL DEFAULT 0,  --: number of attempts so far; a claim adds one, and a release, a snooze, or a
                                                     --: wait subtracts one
    lost_attempts       integer NOT NULL DEFAULT 0,  --: number of attempts in which the worker disappeared while it held no other
                                                     --: job; reset when the job saves a step or an operator retries the job; the
                                                     --: job fails permanently when this number reaches the queue's max_lost
    started_at          timestamptz,  --: when the latest attempt was claimed
    last_heartbeat      timestamptz,  --: when the worker sent its last heartbeat or, if it has sent none, claimed the job
    finished_at         timestamptz,  --: when the job completed, failed permanently, or was canceled
    cancel_requested_at timestamptz,  --: when the cancellation of the running job was requested
    worker_id           text,  --: the worker that last claimed the job
    error               text,  --: the last error
    progress            jsonb,  --: the last progress that a worker reported with a heartbeat
    result              jsonb,  --: the result that the worker passed when it completed the job
    dead_from           text,  --: for a dead letter, the queue in which the job failed, and to which jobq_redrive returns it
    lease               bigint,  --: random number that identifies the current claim of the job; NULL if no worker holds the job
    -- other internal columns
    _completed_lease    bigint,  --: the lease under which the job was last completed
    _company_lease      bigint,  --: lease of this job that was lost, or whose heartbeats stopped, at the same time as leases of
                                 --: other jobs of the same worker; NULL if there is none
    _claim_xid          xid8,  --: the transaction that last claimed the job; only this transaction can report on the job without
                               --: passing the lease
    _lease_timeout      interval,  --: the heartbeat timeout of the current claim; NULL means 60 seconds
    _must_end_at        timestamptz,  --: for a running job, when its attempt must end (started_at + max_runtime), or NULL if there
                                      --: is no limit; for a job that waits for a signal or for other jobs, when the wait ends, or
                                      --: infinity if there is no timeout
    _queue_slot         bigint,  --: the slot that a running job holds under the limit of its queue (hash of the limit, and number
                                 --: of the slot); NULL if it holds none
    _key_slot           bigint,  --: the slot that a running job holds under the limit of its concurrency_key (hash of the limit,
                                 --: and number of the slot); NULL if it holds none
    _slot_seq           bigint,  --: sequence number of the job's slots: each job that takes a slot gets a higher number than the
                                 --: jobs that held the slot before
    _group_waiting      bigint,  --: number of the group (jobq.group_of) while the job waits for earlier jobs of its group;
                                 --: otherwise NULL
    _group_active       bigint,  --: number of the group from the time the job becomes the head of its group (the job that may run)
                                 --: until it finishes; otherwise NULL
    _steps              bigint,  --: number of the job's last step in jobq.steps; NULL if the job has no steps
    expires_at          timestamptz,  --: when jobq cancels the job if no worker has claimed it; NULL if the job does not expire,
                                      --: and after the first claim
    batch_id            bigint,  --: the batch that the job has joined; NULL if there is none
    _kind_slot          bigint,  --: the slot that a running job holds under the limit of its kind (hash of the limit, and number
                                 --: of the slot); NULL if it holds none
    _limit_slot1        bigint,  --: the slot that a running job holds under the first of its named limits, in byte order; NULL if
                                 --: it holds none
    _limit_slot2        bigint,  --: the slot that a running job holds under the second of its named limits; NULL if it holds none
    limits              text[]  --: names of at most two named limits toward which the job counts; a name does not limit the job
                                --: unless the limit exists and includes the queue
) WITH (fillfactor = 60,
        toast_tuple_target = 300,
        autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.1);

-- Keeps short values in the row. With the default storage, if a row already has values in the TOAST table, the server would move
-- the short values there, too, whenever a new version of the row is longer than toast_tuple_target.
ALTER TABLE jobq.jobs
    ALTER COLUMN queue SET STORAGE MAIN,
    ALTER COLUMN kind SET STORAGE MAIN,
    ALTER COLUMN unique_key SET STORAGE MAIN,
    ALTER COLUMN group_key SET STORAGE MAIN,
    ALTER COLUMN concurrency_key SET STORAGE MAIN,
    ALTER COLUMN worker_id SET STORAGE MAIN,
    ALTER COLUMN dead_from SET STORAGE MAIN;

-- The claim index. Its predicate uses _ready instead of status, so that a completion changes no indexed column and can be a HOT
-- update.
CREATE INDEX jobs_ready_idx ON jobq.jobs (_lane, priority, run_at, id) WHERE _ready;
-- The claim index of queues that have the setting round_robin, ordered by the hash of the concurrency key. Jobs whose queue has
-- never had this setting have no round-robin key, so they are not in the index.
CREATE INDEX jobs_round_robin_idx ON jobq.jobs (_lane, _round_robin_key, priority, run_at, id) WHERE _round_robin_key IS NOT NULL AND _ready;
-- Used by the background duty "promote" to find the jobs that are due.
CREATE INDEX jobs_due_idx ON jobq.jobs (run_at, id) WHERE _due;
-- Used by the background duty "expire" to find the jobs that have expired.
CREATE INDEX jobs_expiry_idx ON jobq.jobs (expires_at, id) WHERE expires_at IS NOT NULL;
-- Used to count the members of a batch, and by the background duty "batches" to find a member that has not ended.
CREATE INDEX jobs_batch_idx ON jobq.jobs (batch_id, id) WHERE batch_id IS NOT NULL;
-- Used by heartbeats to find the running jobs of a worker, and by the background duty "rescue" to find the other jobs of a worker
-- when the lease of one of its jobs has expired. Contains only jobs that a worker holds under a lease.
CREATE INDEX jobs_rescue_idx ON jobq.jobs (worker_id, id) WHERE _rescue_indexed;
-- Used by the background duty "rescue" to find the running jobs. The index is ordered by id, so that the duty can remember ranges
-- in which all entries belong to jobs that have ended.
CREATE INDEX jobs_running_idx ON jobq.jobs (id) WHERE _rescue_indexed;
-- Ensures that each queue has at most one unfinished job per unique key. Jobs without a key are not in the index. The index
-- compares bytes, so that a change in the operating system's collations cannot corrupt it.
CREATE UNIQUE INDEX jobs_unique_idx ON jobq.jobs (unique_key, queue COLLATE "C") WHERE _holds_key;
-- These indexes are used to find the running jobs that hold slots of limits. Each job that takes a slot gets a higher _slot_seq
-- than the previous holders of the slot, so a claim can skip the old entries of the slot. The indexes are deliberately not unique:
-- see docs/internals/blocking.md.
CREATE INDEX jobs_queue_slot_idx ON jobq.jobs (_queue_slot, _slot_seq) WHERE _queue_slot IS NOT NULL;
CREATE INDEX jobs_key_slot_idx ON jobq.jobs (_key_slot, _slot_seq) WHERE _key_slot IS NOT NULL;
CREATE INDEX jobs_kind_slot_idx ON jobq.jobs (_kind_slot, _slot_seq) WHERE _kind_slot IS NOT NULL;
-- A named limit can be the first limit of one job and the second limit of another, so a claim looks for its slots in both indexes.
CREATE INDEX jobs_limit_slot1_idx ON jobq.jobs (_limit_slot1, _slot_seq) WHERE _limit_slot1 IS NOT NULL;
CREATE INDEX jobs_limit_slot2_idx ON jobq.jobs (_limit_slot2, _slot_seq) WHERE _limit_slot2 IS NOT NULL;
-- Used to find the next claimable job of a concurrency key when the limit of the key has a free slot again.
CREATE INDEX jobs_key_idx ON jobq.jobs (_lane, concurrency_key COLLATE "C", priority, run_at, id)
    WHERE concurrency_key IS NOT NULL AND _ready;

-- These indexes are used to find the waiting jobs of a group, and the head of the group, which is the job that may run. Jobs
-- without a group are not in the indexes. The indexes do not ensure that a group has only one head, because for each new head, a
-- unique index would have to check the entries of all former heads that an old transaction might still see. Deduplication is off,
-- because a group has many such entries, and the search for entries that can be removed would always read the whole posting list.
CREATE INDEX jobs_group_waiting_idx ON jobq.jobs (_group_waiting, id) WHERE _group_waiting IS NOT NULL;
CREATE INDEX jobs_group_active_idx ON jobq.jobs (_group_active) WITH (deduplicate_items = off) WHERE _group_active IS NOT NULL;

-- Contains only queues that have been created, altered, or paused. A setting that is NULL takes its default value. The table in
-- src/core/queue_settings.h lists the settings with their defaults and bounds.
--: queues with their own settings; all other queues use the defaults
CREATE TABLE jobq.queue_settings (
    queue             text PRIMARY KEY CONSTRAINT queue_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    paused            boolean NOT NULL DEFAULT false,  --: if true, no jobs of the queue are claimed
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    --@ each setting: {name} {type}{check}  --: {text}
);

-- Contains only kinds that jobq_alter_kind has changed. The same table in src/core/queue_settings.h lists the settings.
--: kinds of a queue with their own settings, written by jobq_alter_kind; a setting that is NULL takes the value of the queue
CREATE TABLE jobq.kind_settings (
    queue      text CONSTRAINT kind_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    kind       text CONSTRAINT kind_settings_kind_name CHECK (octet_length(kind) <= 255),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    --@ each kind_setting: {name} {type}{check},  --: {text}
    PRIMARY KEY (queue, kind)
);

-- The table has no foreign key, because with a foreign key, inserting an attempt would lock the row of the job.
--: all attempts that did not complete their job, with the reason
CREATE TABLE jobq.attempts (
    job_id      bigint NOT NULL,
    lease       bigint NOT NULL,
    attempt     integer NOT NULL,
    outcome     text NOT NULL CHECK (outcome IN ('failed', 'lost', 'released', 'snoozed', 'cancelled')),  --: how the attempt ended
    worker_id   text,
    started_at  timestamptz,
    finished_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    error       text,
    reported    boolean NOT NULL DEFAULT false,  --: true if the worker reported the outcome; false if jobq revoked the lease
    details     jsonb  --: the error class, stack trace, and other details that the worker passed to jobq_fail
);
CREATE INDEX attempts_job_idx ON jobq.attempts (job_id, lease);

-- Transactions that write lines of the same attempt take turns, so the numbers of its lines differ. The index is not unique, because a
-- check of each line would only cost time.
--: lines that workers have written about attempts with jobq_write_log, and lines that record what operators have done to a job;
--: deleted together with the job
CREATE TABLE jobq.log_lines (
    job_id     bigint NOT NULL,
    lease      bigint NOT NULL,  --: 0 for a line about an operator
    number     integer NOT NULL,  --: position of the line among the lines of the attempt, or among the lines about operators
    attempt    integer NOT NULL,  --: for a line about an operator, the number of the job's attempts at that time
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    level      text NOT NULL CHECK (level IN ('debug', 'info', 'warning', 'error', 'operator')),
    line       text NOT NULL,
    late       boolean NOT NULL DEFAULT false,  --: true if the attempt had already ended when the line arrived
    dropped    integer,  --: in the last line of an attempt that has written too many lines, the number of lines that were dropped;
                         --: NULL in all other lines
    _bytes     integer NOT NULL DEFAULT 0  --: total length of this line and the earlier lines of the attempt, in bytes
);
CREATE INDEX log_lines_job_idx ON jobq.log_lines (job_id, lease, number);

--: limits of queues, of concurrency keys, and of kinds, written by jobq_set_limit, shown by the view jobq.limits
CREATE TABLE jobq.limit_settings (
    queue        text NOT NULL,
    key          text NOT NULL DEFAULT '',  --: the concurrency_key or, if by_kind is true, the kind to which the limit applies;
                                            --: empty if by_kind is false and the limit applies to the whole queue; '*' if it
                                            --: applies to each key or kind that has no limit of its own
    max_running  integer,  --: maximum number of jobs that run at the same time; NULL if there is no limit
    rate         integer,  --: maximum number of jobs that start within the time span "per"; NULL if there is no limit
    per          interval,
    highest_slot integer NOT NULL DEFAULT 1048574,  --: no running job holds a slot whose number is higher than both this value and
                                                    --: max_running; 1048575 if jobs might also be running without a slot
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    by_kind      boolean NOT NULL DEFAULT false,  --: true if the limit applies to a kind
    PRIMARY KEY (queue, key, by_kind),
    CONSTRAINT limit_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    CONSTRAINT limit_settings_key_name CHECK (octet_length(key) <= 255),
    CONSTRAINT limit_settings_max_running_range CHECK (max_running BETWEEN 0 AND 1000000),
    CONSTRAINT limit_settings_rate_positive CHECK (rate >= 1),
    CONSTRAINT limit_settings_rate_has_span CHECK ((rate IS NULL) = (per IS NULL)),
    CONSTRAINT limit_settings_per_range CHECK (per > interval '0' AND per <= interval '365 days'),
    CONSTRAINT limit_settings_not_nothing CHECK (max_running IS NOT NULL OR rate IS NOT NULL)
);

-- The table has no index on "queues", because it has few rows, and each session caches the limits of the queues that it uses.
--: named limits, which jobs of several queues share, written by jobq_set_named_limit, shown by the view jobq.named_limits
CREATE TABLE jobq.named_limit_settings (
    name         text PRIMARY KEY CONSTRAINT named_limit_settings_name_length CHECK (octet_length(name) BETWEEN 1 AND 63),
    queues       text[] NOT NULL,  --: the member queues, whose jobs can join the limit
    max_running  integer,  --: maximum number of jobs that run at the same time; NULL if there is no limit
    rate         integer,  --: maximum number of jobs that start within the time span "per"; NULL if there is no limit
    per          interval,
    highest_slot integer NOT NULL DEFAULT 1048574,  --: as in jobq.limit_settings
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT named_limit_settings_queues_check CHECK (
        pg_catalog.cardinality(queues) BETWEEN 1 AND 100 AND pg_catalog.array_length(queues, 2) IS NULL
        AND pg_catalog.array_position(queues, NULL) IS NULL),
    CONSTRAINT named_limit_settings_max_running_range CHECK (max_running BETWEEN 0 AND 1000000),
    CONSTRAINT named_limit_settings_rate_positive CHECK (rate >= 1),
    CONSTRAINT named_limit_settings_rate_has_span CHECK ((rate IS NULL) = (per IS NULL)),
    CONSTRAINT named_limit_settings_per_range CHECK (per > interval '0' AND per <= interval '365 days'),
    CONSTRAINT named_limit_settings_not_nothing CHECK (max_running IS NOT NULL OR rate IS NOT NULL)
);

-- A limit counts the running jobs that hold its slots. A job can run without a slot even though a limit applies to it, because it
-- was already running when the limit was set, or because plain SQL has set its status to "processing". The tick (one round of the
-- duties of the background worker) gives such jobs slots, and deletes the row of this table when no more such jobs can appear.
--: contains a row while the tick must look for running jobs that should hold a slot of a limit but do not
CREATE TABLE jobq.unslotted (
    asked_xid  xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),  --: the transaction that inserted the row
    before_xid xid8  --: when all transactions with ids lower than this value have ended, the tick looks one last time for running
                     --: jobs without a slot; NULL if the tick has not yet seen that the transaction asked_xid has ended
);

-- The table has no unique index, because two producers that add the same lane at the same time must not wait for each other, and a
-- second row for a lane is harmless. It has no generated column, because in a published table such a column would be part of the
-- replica identity, which PostgreSQL 18 rejects.
--: the lanes in use: each distinct combination of queue, kind, version, requires, and limits
CREATE TABLE jobq.lane_directory (
    lane     bigint NOT NULL,  --: jobq.lane_of(queue, kind, version, requires, limits); a trigger sets it in rows written with
                               --: plain SQL
    queue    text NOT NULL,
    kind     text NOT NULL,
    version  integer NOT NULL,
    requires text[],
    entered_at  timestamptz NOT NULL DEFAULT clock_timestamp(),  --: when a producer added the lane
    retiring    boolean NOT NULL DEFAULT false,  --: if true, the next producer that uses the lane adds it to the table again, and
                                                 --: the tick deletes this row as soon as that is safe
    changed_xid xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),  --: the transaction that wrote this version of the row;
                                                                        --: sessions read only the rows that are new to them
    limits   text[]
);
-- Sessions use the first index to find the new rows of a queue, and the second index to find the lanes of a kind. The tick uses the
-- third index to find the rows of a lane.
CREATE INDEX lane_directory_new_idx ON jobq.lane_directory (queue, changed_xid);
CREATE INDEX lane_directory_kind_idx ON jobq.lane_directory (queue, kind);
CREATE INDEX lane_directory_lane_idx ON jobq.lane_directory (lane);

--: progress of the deletion of unused lanes, kept between ticks; one row
CREATE TABLE jobq.lane_retirement (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    marked_xid  xid8,  --: the transaction that marked lanes as retiring; NULL if no lane is retiring
    wait_for    xid8,  --: the marked lanes are deleted after all transactions with ids lower than this value have ended
    deleted_xid xid8  --: rows of jobq.lane_directory whose changed_xid is less than or equal to this value may have been deleted
);
INSERT INTO jobq.lane_retirement DEFAULT VALUES;

-- The keys are in a separate table, because a key can stay reserved after its job has been deleted. The table has no unique index,
-- so that a transaction that ends a job never waits or fails because of the key. If a key has several rows, the row with the latest
-- kept_until counts.
--: unique keys that unique_for reserves after their jobs have finished; delete a row to free its key
CREATE TABLE jobq.kept_keys (
    queue      text COLLATE "C" NOT NULL,
    unique_key text COLLATE "C" NOT NULL,
    job_id     bigint NOT NULL,  --: the job that had the key; it may have been deleted
    kept_until timestamptz NOT NULL  --: when the key becomes free; the tick deletes the row later
);
CREATE INDEX kept_keys_key_idx ON jobq.kept_keys (unique_key, queue);
CREATE INDEX kept_keys_until_idx ON jobq.kept_keys (kept_until);

--: what the tick remembers from one round to the next; one row
CREATE TABLE jobq.tick_state (
    only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    prune_after  bigint NOT NULL DEFAULT 0,  --: id up to which the duty "prune" has read the jobs in its current scan, which
                                             --: started at the oldest job
    lap_after    bigint NOT NULL DEFAULT 0,  --: id up to which the duty "prune" has read the jobs in its slow scan of the whole
                                             --: table
    unindexed_found_for timestamptz,  --: if jobq is not preloaded, the start time of the server when the tick last looked for
                                      --: running jobs that are missing from the indexes of the duty "rescue"
    unindexed_found_in  bigint  --: if jobq is not preloaded, the trigger epoch (see numbered_in of jobq.hash_secret) when the tick
                                --: last looked for these jobs
);
INSERT INTO jobq.tick_state DEFAULT VALUES;

-- These tables have no key. With REPLICA IDENTITY FULL, the extension can delete and update rows even if the tables are published
-- (CREATE PUBLICATION ... FOR ALL TABLES). Without a publication, this costs nothing.
ALTER TABLE jobq.attempts REPLICA IDENTITY FULL;
ALTER TABLE jobq.log_lines REPLICA IDENTITY FULL;
ALTER TABLE jobq.unslotted REPLICA IDENTITY FULL;
ALTER TABLE jobq.lane_directory REPLICA IDENTITY FULL;
ALTER TABLE jobq.kept_keys REPLICA IDENTITY FULL;

-- Makes pg_dump include the rows of these tables.
SELECT pg_catalog.pg_extension_config_dump('jobq.jobs', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.jobs_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.queue_settings', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.kind_settings', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.attempts', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.log_lines', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.lane_directory', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.limit_settings', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.named_limit_settings', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.kept_keys', '');

-- fill_job and note_restore are not SECURITY DEFINER, because they check which role has executed the statement. After this check,
-- fill_job switches to the owner.
--: checks the rows of an INSERT or COPY into jobq.jobs, fills in missing values, and clears the columns that the role is not
--: allowed to set
CREATE FUNCTION jobq.fill_job() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_fill_job'
    LANGUAGE C;
--: updates the counters after an INSERT or COPY into jobq.jobs, and notifies waiting workers
CREATE FUNCTION jobq.count_job() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_count_job'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
--: recomputes the hashes in rows that are written to jobq.jobs while session_replication_role is replica, as in logical replication
--: workers
CREATE FUNCTION jobq.renumber_job() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_renumber_job'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
--: sets the number of the lane in rows of jobq.lane_directory that are inserted or updated with plain SQL, including COPY
CREATE FUNCTION jobq.number_lane() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_number_lane'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
--: notifies waiting workers of jobs that are written while session_replication_role is replica, as in logical replication workers
CREATE FUNCTION jobq.tell_job() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_tell_job'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
--: checks the changes that an UPDATE makes to jobq.jobs, and then sets the columns that depend on other columns
CREATE FUNCTION jobq.follow_job() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_follow_job'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
--: deletes the attempts, log lines, steps, signals, and edges of jobs that DELETE or TRUNCATE has removed from jobq.jobs, and counts
--: the deleted members of batches; after TRUNCATE, also deletes all batches and all rows of jobq.kept_keys
CREATE FUNCTION jobq.forget_job() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_forget_job'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
--: invalidates the data that sessions have cached from the table on which the trigger is defined
CREATE FUNCTION jobq.invalidate_caches() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_invalidate_caches'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

--: if a session with the owner's privileges restores a dump, keeps the tick from changing jobs until that session disconnects or
--: has been idle for a minute
CREATE FUNCTION jobq.note_restore() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_note_restore'
    LANGUAGE C;

CREATE TRIGGER note_restore BEFORE INSERT ON jobq.jobs FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
-- The duty "prune" deletes log lines without a job, so it must wait until the jobs have been restored.
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.log_lines FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
CREATE TRIGGER fill_job BEFORE INSERT ON jobq.jobs FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.fill_job();
CREATE TRIGGER count_job AFTER INSERT ON jobq.jobs FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.count_job();
-- This is an AFTER trigger, because a BEFORE UPDATE trigger would make every update lock its row first, which writes a WAL record.
-- The argument is the oldest version of the library that handles this table correctly.
CREATE TRIGGER follow_job AFTER UPDATE ON jobq.jobs FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.follow_job('1.0');

-- If session_replication_role is replica, the following triggers fire instead of the triggers above. They do not fill in missing
-- values. They replace the hashes, because hashes that were computed in another database are wrong here. They also send the
-- notifications without which claims could miss jobs.
CREATE TRIGGER renumber_job BEFORE INSERT OR UPDATE ON jobq.jobs FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.renumber_job();
ALTER TABLE jobq.jobs ENABLE REPLICA TRIGGER renumber_job;
CREATE TRIGGER tell_job AFTER INSERT OR UPDATE ON jobq.jobs FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.tell_job();
ALTER TABLE jobq.jobs ENABLE REPLICA TRIGGER tell_job;

CREATE TRIGGER forget_job AFTER DELETE ON jobq.jobs FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.forget_job();
CREATE TRIGGER forget_jobs AFTER TRUNCATE ON jobq.jobs FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.forget_job();

CREATE TRIGGER invalidate_caches AFTER INSERT OR UPDATE OR DELETE ON jobq.queue_settings FOR EACH ROW
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches_on_truncate AFTER TRUNCATE ON jobq.queue_settings FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches AFTER INSERT OR UPDATE OR DELETE ON jobq.kind_settings FOR EACH ROW
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches_on_truncate AFTER TRUNCATE ON jobq.kind_settings FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER number_lane BEFORE INSERT OR UPDATE ON jobq.lane_directory FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.number_lane();
ALTER TABLE jobq.lane_directory ENABLE ALWAYS TRIGGER number_lane;
-- jobq's own statements may change the row of the secret, because the background duty "repair" sets numbered_in.
CREATE TRIGGER keep_secret BEFORE UPDATE OR DELETE ON jobq.hash_secret FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.keep_secret();
CREATE TRIGGER keep_secret_on_truncate BEFORE TRUNCATE ON jobq.hash_secret FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.keep_secret();
CREATE TRIGGER invalidate_caches AFTER INSERT OR DELETE ON jobq.hash_secret FOR EACH ROW
    EXECUTE FUNCTION jobq.invalidate_caches();
ALTER TABLE jobq.hash_secret ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.hash_secret ENABLE ALWAYS TRIGGER keep_secret;
ALTER TABLE jobq.hash_secret ENABLE ALWAYS TRIGGER keep_secret_on_truncate;
-- jobq's own changes to jobq.lane_directory do not invalidate the whole cache, because jobq announces each changed lane separately.
CREATE TRIGGER invalidate_caches AFTER INSERT OR UPDATE OR DELETE ON jobq.lane_directory FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches_on_truncate AFTER TRUNCATE ON jobq.lane_directory FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.invalidate_caches();
--: makes the tick look for running jobs without a slot after plain SQL has changed a limit
CREATE FUNCTION jobq.limits_changed() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_limits_changed'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE TRIGGER limits_changed AFTER INSERT OR UPDATE OR DELETE ON jobq.limit_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.limits_changed();
ALTER TABLE jobq.limit_settings ENABLE ALWAYS TRIGGER limits_changed;
CREATE TRIGGER invalidate_caches AFTER INSERT OR UPDATE OR DELETE ON jobq.limit_settings FOR EACH ROW
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches_on_truncate AFTER TRUNCATE ON jobq.limit_settings FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.invalidate_caches();
ALTER TABLE jobq.limit_settings ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.limit_settings ENABLE ALWAYS TRIGGER invalidate_caches_on_truncate;
CREATE TRIGGER limits_changed AFTER INSERT OR UPDATE OR DELETE ON jobq.named_limit_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.limits_changed();
ALTER TABLE jobq.named_limit_settings ENABLE ALWAYS TRIGGER limits_changed;
CREATE TRIGGER invalidate_caches AFTER INSERT OR UPDATE OR DELETE ON jobq.named_limit_settings FOR EACH ROW
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches_on_truncate AFTER TRUNCATE ON jobq.named_limit_settings FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.invalidate_caches();
ALTER TABLE jobq.named_limit_settings ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.named_limit_settings ENABLE ALWAYS TRIGGER invalidate_caches_on_truncate;
ALTER TABLE jobq.queue_settings ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.queue_settings ENABLE ALWAYS TRIGGER invalidate_caches_on_truncate;
ALTER TABLE jobq.kind_settings ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.kind_settings ENABLE ALWAYS TRIGGER invalidate_caches_on_truncate;
ALTER TABLE jobq.lane_directory ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.lane_directory ENABLE ALWAYS TRIGGER invalidate_caches_on_truncate;
