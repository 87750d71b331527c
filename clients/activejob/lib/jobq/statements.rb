# frozen_string_literal: true

module Jobq
  # SQL statements of workers and steps.
  module Statements
    # Times are returned as seconds since 1970, because Ruby may misread the day or the time zone in the database's DateStyle.
    CLAIMED = "id, lease, queue, kind, payload, attempt, max_attempts, priority, version, extract(epoch FROM run_at) AS run_at, " \
              "extract(epoch FROM created_at) AS created_at, progress, metadata, heartbeat_seconds"
    CLAIM = <<~SQL
      SELECT #{CLAIMED} FROM jobq_claim($1::text, $2::text, $3::int, $4::text[], $5::int[], $6::text[], $7::interval, $8::jsonb)
    SQL
    COMPLETE_AND_CLAIM = <<~SQL
      SELECT #{CLAIMED} FROM jobq_complete_and_claim($9::bigint[], $10::bigint[], $11::jsonb[],
                                                     $1::text, $2::text, $3::int, $4::text[], $5::int[], $6::text[], $7::interval,
                                                     worker_info => $8::jsonb)
    SQL
    WAIT = "CALL jobq_wait($1::text, $2::interval, $3::text[], $4::int[], $5::text[], $6::text, $7::int, $8::jsonb)"
    # For a worker that serves several queues.
    ANY = "worker_id => $2::text, batch => $3::int, kinds => $4::text[], versions => $5::int[], capabilities => $6::text[], " \
          "heartbeat_timeout => $7::interval, worker_info => $8::jsonb, " \
          "queues => $1::text[], patterns => $9::text[], batches => $10::int[], weights => $11::int[], oldest_first => $12::boolean"
    CLAIM_ANY = "SELECT #{CLAIMED} FROM jobq_claim_any(#{ANY})"
    COMPLETE_AND_CLAIM_ANY = "SELECT #{CLAIMED} FROM jobq_complete_and_claim_any($13::bigint[], $14::bigint[], $15::jsonb[], #{ANY})"
    WAIT_ANY = "CALL jobq_wait_any($1::text[], $2::interval, $3::text[], $4::int[], $5::text[], $6::text, $7::int, worker_info => $8::jsonb, " \
               "patterns => $9::text[], batches => $10::int[])"
    WAITS = [WAIT, WAIT_ANY].freeze
    # Counts at most a thousand jobs of each lane.
    OTHERS = <<~SQL
      SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind) AS found
      FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n
            FROM jobq.lane_directory d WHERE (d.queue = ANY ($1::text[]) OR d.queue LIKE ANY ($2::text[])) AND d.kind <> ALL ($3::text[]) GROUP BY d.kind) counted WHERE n > 0
    SQL
    WAKE = "SELECT jobq_wake($1::text)"

    HEARTBEAT = "SELECT jobq_heartbeat($1::bigint, $2::bigint, $3::jsonb)"
    # A short lock_timeout, for this statement only: an open transaction may lock the row, and heartbeats of other jobs must not
    # wait.
    BRIEFLY = "WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))"
    HEARTBEAT_BRIEFLY = "#{BRIEFLY} SELECT jobq_heartbeat($1::bigint, $2::bigint, NULL) FROM briefly"
    HEARTBEAT_MANY = "SELECT job_id, state FROM jobq_heartbeat_many($1::bigint[], $2::bigint[], $3::jsonb)"
    # The table of the log lines may be locked, too.
    WRITE_LOG = "WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true)) " \
                "SELECT (jobq_write_log($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::double precision[])).stored FROM briefly"
    COMPLETE_MANY = "SELECT job_id, completed AS taken FROM jobq_complete_many($1::bigint[], $2::bigint[], $3::jsonb[])"
    COMPLETE_HELD = "SELECT jobq_complete($1::bigint, $2::bigint, $3::jsonb, must_hold => true)"
    FAIL = "SELECT jobq_fail($1::bigint, $2::bigint, $3::text, $4::interval, $5::boolean, $6::jsonb)"
    FAIL_WITHOUT_DETAILS = "SELECT jobq_fail($1::bigint, $2::bigint, $3::text, $4::interval, $5::boolean)"   # an older server
    RELEASE_MANY = "SELECT job_id, released AS taken FROM jobq_release_many($1::bigint[], $2::bigint[])"
    RELEASE_BRIEFLY = "#{BRIEFLY} SELECT (jobq_release_many($1::bigint[], $2::bigint[])).released AS taken FROM briefly"
    SNOOZE = "SELECT jobq_snooze($1::bigint, $2::interval, $3::bigint)"
    ENQUEUE_JOBS = "SELECT job_id, is_new FROM jobq_enqueue_jobs($1::jsonb)"

    STEP = "SELECT state, result FROM jobq_step($1::bigint, $2::bigint, $3::text)"
    STEP_DONE = "SELECT state, result FROM jobq_step_done($1::bigint, $2::bigint, $3::text, $4::jsonb)"

    module_function

    # Returns the parameters $1 to $8 of a claim, or $1 to $12 of a claim from several queues. rooms: the free slots of the queues.
    def claim_parameters(options, kinds, batch, worker_info, rooms = nil)
      [rooms ? Parameters.array(rooms.keys) : options.queue, options.worker_id, batch.to_s, Parameters.array(kinds),
       Parameters.array(options.versions), Parameters.array(options.capabilities), Parameters.interval(options.heartbeat_timeout), worker_info,
       *(room_parameters(options, rooms) + order_parameters(options, rooms) if rooms)]
    end

    # The number of a pattern applies to each queue that it selects. A pattern does not select the queues in `rooms`.
    def room_parameters(options, rooms)
      [(Parameters.array(options.patterns.keys) if options.patterns.any?), Parameters.array(rooms.values + options.patterns.values)]
    end

    def order_parameters(options, rooms)
      patterns = Patterns.new(options.patterns)
      weights = rooms.keys.map { |queue| options.queues[queue] || patterns.slots_of(queue) } + options.patterns.values
      [(Parameters.array(weights) if options.queue_order == "random"), (options.queue_order == "oldest").to_s]
    end

    def wait_parameters(options, kinds, batch, timeout, worker_info, rooms = nil)
      [rooms ? Parameters.array(rooms.keys) : options.queue, Parameters.interval(timeout), Parameters.array(kinds), Parameters.array(options.versions),
       Parameters.array(options.capabilities), options.worker_id, batch.to_s, worker_info, *(room_parameters(options, rooms) if rooms)]
    end
  end
end
