# frozen_string_literal: true

# A jobq worker in Ruby that uses pg. Copy this file. Contract: clients/CONTRACT.md.
#
#   worker = Jobq::Worker.new(queue: 'emails', slots: 4)
#   worker.handle('welcome') { |job| job.completing { |conn| conn.exec_params('INSERT ...'); { sent: true } } }
#   exit worker.run
#
# A process can run only one worker, because run installs signal handlers. Start a process for each queue.
#
# Jobq::Worker.from_environment reads the options from environment variables such as JOBQ_QUEUE; new uses only its arguments. Both
# connect with PGHOST and so on, or with connection: { host: ... }.
#
# Each handler runs in a thread. One thread claims jobs and waits in the server; another sends heartbeats and reports. exec_params
# creates no named prepared statement, so PgBouncer in transaction mode needs no setting. If C code holds Ruby's lock, no other
# thread can run; then a child process sends the heartbeats.
require 'json'
require 'pg'
require 'securerandom'
require 'socket'

module Jobq
  class OptionError < ArgumentError; end

  # The attempt has failed. The job is retried after retry_in seconds, by default after the queue's backoff; with final: true,
  # never.
  class Fail < StandardError
    attr_reader :retry_in, :final

    def initialize(message, retry_in: nil, final: false)
      super(message)
      @retry_in = retry_in
      @final = final
    end
  end

  # Gives the job back, to run again after the delay. The attempt is not counted.
  class Snooze < StandardError
    attr_reader :delay

    def initialize(delay)
      super("snoozed for #{delay} s")
      @delay = delay
    end
  end

  # Not a StandardError, so that a rescue clause of a handler does not keep it from stopping. reason: cancel, lost, or stopping.
  class Stop < Exception # rubocop:disable Lint/InheritException
    attr_reader :reason

    def initialize(reason)
      super("the handler should stop: #{reason}")
      @reason = reason
    end
  end

  # The job sleeps or waits, and has been given back.
  class Waiting < Exception; end # rubocop:disable Lint/InheritException

  class Broken < StandardError; end

  LOST = 'JQ001'

  def self.sqlstate(error)
    error.respond_to?(:result) && error.result ? error.result.error_field(PG::Result::PG_DIAG_SQLSTATE) : nil
  end

  def self.json(value)
    JSON.generate(value, max_nesting: 0)
  end

  def self.read(text)
    text && JSON.parse(text, max_nesting: 0)
  end

  # The job that a handler receives.
  class Job
    attr_reader :id, :lease, :kind, :payload, :attempt, :progress, :metadata, :cancelled
    attr_accessor :beat_at, :reporting, :done, :new_progress

    def initialize(row, worker)
      @worker = worker
      @id = row['id'].to_i
      @lease = row['lease'].to_i
      @kind = row['kind']
      @attempt = row['attempt'].to_i
      @texts = row.slice('payload', 'progress', 'metadata')
      @heartbeat_seconds = row['heartbeat_seconds'].to_f
      @beat_at = Jobq::Worker.now
      @mutex = Mutex.new
      @stopped = ConditionVariable.new
    end

    # Parses the job's values. Called in the handler's thread, so that an error of the parser fails only this job.
    def read
      @payload, @progress, @metadata = @texts.values.map { |text| Jobq.read(text) }
      self
    end

    def interval(*others)
      [@heartbeat_seconds, *others.compact].min
    end

    # Reports progress with a heartbeat, within about a second.
    def report_progress(value)
      @new_progress = Jobq.json(value)
    end

    # Raises Stop if the handler should stop.
    def check
      raise Stop, @cancelled if @cancelled
    end

    # Sleeps. Raises Stop if the handler should stop while it sleeps.
    def pause(seconds)
      @mutex.synchronize { @stopped.wait(@mutex, seconds) unless @cancelled }
      check
    end

    def stop(reason)
      @mutex.synchronize do
        @cancelled = reason if @cancelled.nil? || reason == 'lost'
        @stopped.broadcast
      end
    end

    # Returns false if a report has already begun.
    def begin_report
      @mutex.synchronize { !@reporting && (@reporting = true) }
    end

    # Returns a connection of the job's own, which is closed when the handler has ended.
    def connection
      @connection = nil if @connection&.finished?
      @connection ||= @worker.connect
    end

    def close
      @connection&.close unless @connection&.finished?
    end

    # Commits the writes of the block together with the completion of the job, or neither. The block returns the result.
    def completing
      believing_loss do
        connection.transaction do |conn|
          result = Jobq.json(yield(conn))
          conn.exec_params('SELECT jobq_complete($1, $2, $3::jsonb, must_hold => true)', [id, lease, result])
        end
      end
      @done = true
      nil
    end

    # Calls the block once, even if the job is retried: its writes commit together with its result.
    def step(name)
      state, result = connection.exec_params('SELECT state, result FROM jobq_step($1, $2, $3)', [id, lease, name]).values.first
      return Jobq.read(result) if state == 'done'

      gone(state) unless state == 'run'
      believing_loss do
        connection.transaction do |conn|
          value = Jobq.json(yield(conn))
          saved = conn.exec_params('SELECT result FROM jobq_step_done($1, $2, $3, $4::jsonb)', [id, lease, name, value])
          Jobq.read(saved.getvalue(0, 0))
        end
      end
    end

    # Returns the payload of a signal. The job occupies no worker while it waits.
    def wait_for(event)
      state, payload = connection.exec_params('SELECT state, payload FROM jobq_await($1, $2, $3)', [id, lease, event]).values.first
      raise Waiting if state == 'waiting'

      gone(state) unless state == 'ready'
      Jobq.read(payload)
    end

    private

    def gone(state)
      stop(state == 'lost' ? 'lost' : 'cancel')
      check
    end

    def believing_loss
      yield
    rescue PG::Error => e
      raise unless Jobq.sqlstate(e) == LOST

      gone('lost')
    end
  end

  # A child process that sends heartbeats while C code holds Ruby's lock (GVL), so that no thread of the worker runs. The worker
  # tells it through a pipe which jobs run and which heartbeats it has sent. The child sends heartbeats that are a quarter of an
  # interval late. The child ends when the pipe is closed, and so together with the worker.
  class StandIn
    LATE = 1.25 # in intervals
    IDLE = 60 # seconds after which the child closes its connection
    READY_WITHIN = 10 # seconds
    # The handler's transaction may lock the row, and the heartbeats of other jobs must not wait for it.
    BRIEFLY = <<~SQL
      WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true)) SELECT jobq_heartbeat($1, $2) FROM briefly
    SQL

    def initialize(settings)
      reader, @pipe = IO.pipe
      ready, answer = IO.pipe
      Process.detach(spawn(RbConfig.ruby, __FILE__, in: reader, out: answer, pgroup: true))
      [reader, answer].each(&:close)
      @mutex = Mutex.new
      say(Jobq.json(settings))
      ready.wait_readable(READY_WITHIN) # claim nothing before the child can send heartbeats
      ready.close
    end

    # Called before the handler begins.
    def begin(job, interval)
      say("+ #{job.lease} #{job.id} #{interval} #{job.beat_at}")
    end

    def beaten(job)
      say("* #{job.lease} #{job.beat_at}")
    end

    def ended(job)
      say("- #{job.lease}")
    end

    # Runs the child process. It ignores signals that are sent to the process group of the worker.
    def self.run(input)
      %w[TERM INT].each { |name| trap(name, 'IGNORE') }
      parent = Process.ppid
      settings = JSON.parse(input.gets || exit!, symbolize_names: true)
      jobs = {} # lease -> id, interval, time of the last heartbeat
      mutex = Mutex.new
      Thread.new { listen(input, jobs, mutex) }
      say_ready
      connection = used_at = nil
      while Process.ppid == parent
        sleep 0.1
        late = mutex.synchronize { jobs.select { |_, job| Worker.now - job[2] > LATE * job[1] } }
        if late.any?
          connection = beat(late, connection, settings)
          used_at = Worker.now
        elsif connection && Worker.now - used_at > IDLE
          connection = connection.close
        end
      end
    end

    def self.listen(input, jobs, mutex)
      while (line = input.gets)
        what, lease, *values = line.split
        mutex.synchronize do
          case what
          when '+' then jobs[lease] = [values[0], values[1].to_f, values[2].to_f]
          when '*' then jobs[lease] && jobs[lease][2] = values[0].to_f
          else jobs.delete(lease)
          end
        end
      end
      exit!
    end

    def self.say_ready
      $stdout.syswrite("ready\n")
    rescue SystemCallError
      nil # the worker has stopped waiting
    ensure
      $stdout.reopen(File::NULL)
    end

    # Sends the heartbeats. Returns the connection if it still works.
    def self.beat(jobs, connection, settings)
      connection ||= PG.connect(settings)
      jobs.each do |lease, job|
        connection.exec_params(BRIEFLY, [job[0], lease])
        job[2] = Worker.now - (LATE - 1) * job[1] # due again after an interval
      rescue PG::LockNotAvailable
        next
      end
      connection
    rescue PG::Error
      connection&.close
      sleep 1
      nil
    end
    private_class_method :listen, :say_ready, :beat

    private

    def say(line)
      @mutex.synchronize { @pipe&.puts(line) }
    rescue SystemCallError
      @pipe = nil
    end
  end

  class Worker
    # SQLSTATEs that require a new connection, or another try (40001, 40P01), which a new connection also provides.
    CONNECTION = /\A(08|53|57|58|25006|40001|40P01)/.freeze

    # Maximum number of times that the worker gives a job back because the job's own transaction collided with another one. The
    # next collision counts as a failed attempt, so that a job that always collides ends.
    MOST_CONFLICTS = 10
    CONFLICT = %w[40001 40P01].freeze

    # Length in seconds of a wait that cannot be woken or that uses a pooler.
    SHORT_WAIT = 2.0
    # Seconds between two checks for jobs of the queue that the worker does not claim.
    LOOKS_EVERY = 600
    OTHERS = <<~SQL
      SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind)
      FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n
            FROM jobq.lane_directory d WHERE d.queue = $1 AND d.kind <> ALL ($2::text[]) GROUP BY d.kind) counted WHERE n > 0
    SQL

    # A character of the text does not exist in the encoding of the database.
    UNSTORABLE = %w[22P05 22021].freeze

    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def self.from_environment
      options = {}
      { queue: :to_s, worker_id: :to_s, slots: :Integer, heartbeat_timeout: :Float, heartbeat_interval: :Float, wait_timeout: :Float,
        grace: :Float }.each do |name, type|
        text = ENV.fetch("JOBQ_#{name.upcase}", '')
        next if text.empty?

        options[name] = type == :to_s ? text : Kernel.send(type, text)
      rescue ArgumentError
        raise OptionError, "option \"#{name}\" must be a number; it is #{text.inspect}"
      end
      new(**options)
    end

    def initialize(queue: 'default', slots: 1, worker_id: nil, heartbeat_timeout: nil, heartbeat_interval: nil, wait_timeout: 30.0,
                   grace: 25.0, connection: {}, log: $stderr)
      worker_id ||= "#{Socket.gethostname}-#{Process.pid}-#{SecureRandom.hex(4)}"
      unless slots.is_a?(Integer) && slots.between?(1, 1000)
        raise OptionError, "option \"slots\" must be an integer from 1 to 1000; it is #{slots.inspect}"
      end
      { heartbeat_timeout: heartbeat_timeout, heartbeat_interval: heartbeat_interval, wait_timeout: wait_timeout,
        grace: grace }.each do |name, value|
        least = name.start_with?('heartbeat') ? 0.01 : 0
        next if (value.nil? && least.positive?) || (value.is_a?(Numeric) && value >= least && value <= 365 * 86_400)

        raise OptionError, "option \"#{name}\" must be a number of seconds, at least #{least}; it is #{value.inspect}"
      end
      raise OptionError, 'option "worker_id" must not begin with "backend:"' if worker_id.start_with?('backend:')

      @queue = queue
      @slots = slots
      @worker_id = worker_id
      @heartbeat_timeout = heartbeat_timeout
      @heartbeat_interval = heartbeat_interval
      @wait_timeout = wait_timeout
      @grace = grace
      @settings = { connect_timeout: 10, keepalives_idle: 30, keepalives_interval: 10, keepalives_count: 3, tcp_user_timeout: 30_000,
                    client_encoding: 'UTF8', fallback_application_name: "jobq #{queue}"[0, 63] }.merge(connection)
      @log = log
      @handlers = {}
      @mutex = Mutex.new
      @changed = ConditionVariable.new
      @running = {}
      @look_at = 0 # time of the next check for jobs of other kinds
      @polls = 0 # number of polls in a row
      @conflicts = {} # number of collisions of the job's own transaction, by job ID
      @beats_mutex = Mutex.new
      @asides = Queue.new
    end

    # Registers the handler of a kind. The kind '' stands for jobs without a kind.
    def handle(kind, &block)
      @handlers[kind] = block
    end

    # Works until SIGTERM or SIGINT and returns the exit status. The process should end then, because abandoned handlers still
    # run.
    def run
      raise OptionError, 'option "handlers" must name at least one kind' if @handlers.empty?

      open
      say "serves queue #{@queue.inspect}, kinds #{@handlers.keys.sort.join(', ')}; leaves jobs of other kinds to other workers"
      signals, sender = IO.pipe
      %w[TERM INT].each { |name| trap(name) { sender.write_nonblock('.') } }
      @stand_in = start_stand_in
      @claimer = Thread.new { claim_all(sender) }
      Thread.new { heartbeat_until_it_ends(sender) }
      Thread.new { run_asides }
      signals.readpartial(1)
      say 'stopping, no more claims'
      @mutex.synchronize do
        @stopping = true
        @changed.broadcast
      end
      @asides << -> { attempt { |conn| conn.exec_params('SELECT jobq_wake($1)', [@worker_id]) } }
      await(signals)
      clean = give_back
      say 'stopped'
      clean && @failure.nil? ? 0 : 1
    end

    def connect
      connection = PG.connect(@settings)
      connection.set_notice_processor { |text| say text.strip }
      connection
    end

    private

    def say(text)
      @log.puts "#{@worker_id}: #{text}"
      nil
    end

    # Opens the first connections and fails if one of them fails.
    def open
      @claims = connect
      @beats = connect
      @pooled = @beats.exec('SELECT pg_backend_pid()').getvalue(0, 0).to_i != @beats.backend_pid
      @wait_timeout = [@wait_timeout, SHORT_WAIT].min if @pooled
      @beats.exec_params('SELECT jobq_wake($1)', [@worker_id])
    rescue PG::ObjectNotInPrerequisiteState
      @wait_timeout = [@wait_timeout, SHORT_WAIT].min # not preloaded: waits cannot be woken
    rescue PG::UndefinedFunction => e
      raise "jobq is not in this database: #{e.message}"
    end

    def held
      @mutex.synchronize { @running.values }
    end

    # Waits until there are no jobs in hand, the grace period is over, or another signal arrives.
    def await(signals)
      deadline = Worker.now + @grace
      until held.empty? && !@claimer.alive?
        left = deadline - Worker.now
        return if left <= 0 || signals.wait_readable([left, 0.05].min)
      end
    end

    # Ends the handlers after the grace period. Handlers that check for cancellation get a second to stop; then the jobs of the
    # other handlers are released. Waits for the reports of handlers that have ended.
    def give_back
      jobs = held
      jobs.each { |job| job.stop('stopping') }
      deadline = Worker.now + 1
      sleep 0.02 while held.any? && Worker.now < deadline
      left = held.select(&:begin_report)
      @give_up_at = Worker.now + 5
      clean = nil
      @asides << lambda do
        clean = left.count { |job| !ending(job) { release(job) } }.zero?
      end
      deadline = Worker.now + 6
      sleep 0.02 while (clean.nil? || held.any?) && Worker.now < deadline
      held.each { |job| could_not_report(job) }
      clean && !@unreported
    end

    def could_not_report(job)
      @unreported = true
      say "job #{job.id} of kind #{job.kind} could not be reported"
    end

    # Releases the job. Returns whether the server has answered.
    def release(job)
      answer = attempt { |conn| conn.exec_params('SELECT jobq_release($1, $2)', [job.id, job.lease]).getvalue(0, 0) }
      say "job #{job.id} of kind #{job.kind}: released, its handler has not stopped" if answer == 't'
      answer
    rescue PG::Error => e
      say "job #{job.id} of kind #{job.kind} could not be released: #{e.message.strip}"
      nil
    end

    # Runs calls for which the caller must not wait, because a pooler without a server does not answer. The thread starts with the
    # worker, because it may be impossible to start a thread when jobs must be given back.
    def run_asides
      loop do
        @asides.pop.call
      rescue StandardError => e
        say "aside: #{e.message.strip}"
      end
    end

    # ---- connections

    def broken?(connection, error)
      return true if connection.nil? || connection.finished? || connection.status != PG::CONNECTION_OK

      state = Jobq.sqlstate(error)
      state.nil? || state.match?(CONNECTION)
    end

    def beats
      @beats_mutex.synchronize do
        @beats ||= connect
        begun = Worker.now
        yield(@beats).tap { answered(Worker.now - begun) }
      rescue PG::Error => e
        raise unless broken?(@beats, e)

        say "the connection is broken, trying again: #{e.message.strip}"
        @beats&.close unless @beats&.finished?
        @beats = nil
        raise Broken
      end
    end

    # Returns at least half of the pause, at random, so that workers whose connections broke together do not reconnect together.
    def about(pause)
      pause * rand(0.5..1.0)
    end

    # Repeats the block until the server answers. Returns nil if it gives up.
    def attempt(&block)
      pause = 0.1
      begin
        beats(&block)
      rescue Broken
        return nil if @give_up_at && Worker.now > @give_up_at

        sleep about(pause)
        pause = [pause * 2, 5].min
        retry
      end
    end

    # ---- claims

    def claim_all(sender)
      claim_until_stopped
    rescue Exception => e # rubocop:disable Lint/RescueException
      @failure = e
      say "claims have ended: #{e.message.strip}"
    ensure
      sender.write_nonblock('.') if @failure
    end

    def claim_until_stopped
      pause = 0.1
      until @stopping
        begin
          room = @mutex.synchronize do
            @changed.wait(@mutex) while @running.size >= @slots && !@stopping
            @slots - @running.size
          end
          break if @stopping

          @claims ||= connect
          claim(room)
          pause = 0.1
        rescue StandardError => e
          unless broken?(@claims, e)
            @failure = e
            say "the claim was refused: #{e.message.strip}"
            break
          end
          say "no connection for claims, trying again: #{e.message.strip}"
          @claims&.close unless @claims&.finished?
          @claims = nil
          @mutex.synchronize { @changed.wait(@mutex, about(pause)) unless @stopping }
          pause = [pause * 2, 5].min
        end
      end
    end

    def array(texts)
      PG::TextEncoder::Array.new.encode(texts)
    end

    # Logs which jobs wait in the queue that have no kind, or a kind without a handler here. Reads at most a thousand jobs of each
    # lane. If the role cannot read the tables, only the first check runs.
    def look_for_others(kinds)
      return if Worker.now < @look_at

      @look_at = Worker.now + LOOKS_EVERY
      found = @claims.exec_params(OTHERS, [@queue, kinds]).getvalue(0, 0)
      say "jobs that this worker does not claim are waiting in queue #{@queue.inspect}: #{found}" if found
    rescue PG::InsufficientPrivilege
      @look_at = Float::INFINITY
    rescue PG::Error
      nil # the claim will notice a broken connection
    end

    def claim(room)
      kinds = array(@handlers.keys)
      look_for_others(kinds)
      begun = Worker.now
      rows = @claims.exec_params(<<~SQL, [@queue, @worker_id, room, kinds, @heartbeat_timeout && "#{@heartbeat_timeout} s"])
        SELECT id, lease, kind, payload, attempt, progress, metadata, heartbeat_seconds
        FROM jobq_claim($1, $2, $3::int, $4::text[], heartbeat_timeout => $5::interval)
      SQL
      answered(Worker.now - begun)
      rows.each { |row| start(Job.new(row, self)) }
      return @polls = 0 if rows.ntuples.positive?
      return wait(kinds, room) unless polls?

      @polls += 1
      @mutex.synchronize { @changed.wait(@mutex, [0.05 * 2**[@polls - 1, 10].min, 1].min) unless @stopping }
    end

    # ---- small pools: see clients/CONTRACT.md

    # Makes a worker behind a pooler poll for a while if an answer was late, because waits may hold all connections of the pool.
    def answered(took)
      return unless @pooled && took > 0.25

      intervals = held.map { |job| interval(job) }
      intervals += [@heartbeat_interval, @heartbeat_timeout && @heartbeat_timeout / 3.0].compact
      return unless took > ((intervals.min || 4) / 4.0).clamp(0.25, 1)

      begins = @polls_until.nil?
      @polls_until = Worker.now + rand(60.0..120.0)
      return unless begins

      say "#{'warning: ' unless @has_polled}answers take #{took.round(1)} s behind the connection pooler, whose pool may have fewer " \
          'connections than there are workers: polling instead of waiting'
      @has_polled = true
    end

    def polls?
      return false if @polls_until.nil?
      return true if Worker.now < @polls_until

      @polls_until = nil
      @polls = 0
      say 'answers are fast again: waiting instead of polling'
      false
    end

    def wait(kinds, room)
      @claims.exec_params('CALL jobq_wait($1::text, $2::interval, $3::text[], worker_id => $4::text, batch => $5::int)',
                          [@queue, "#{@wait_timeout} s", kinds, @worker_id, room])
    rescue PG::QueryCanceled => e
      return if @wait_canceled

      @wait_canceled = true
      setting = @claims.exec('SHOW statement_timeout').getvalue(0, 0)
      say "the server canceled a wait: #{e.message.strip}. The setting statement_timeout of this role or database is #{setting}, " \
          "and wait_timeout is #{@wait_timeout} s."
    end

    def start(job)
      stopping = @mutex.synchronize do
        @running[job.lease] = job
        @stopping
      end
      return give_back_unbegun(job) if stopping

      @stand_in&.begin(job, interval(job))
      Thread.new { ending(job) { conclude(job, *call(job)) } }
    rescue ThreadError => e
      say "job #{job.id} of kind #{job.kind} could not be started, and is given back: #{e.message}"
      @failure = e
      @stopping = true
      give_back_unbegun(job)
    end

    def give_back_unbegun(job)
      job.reporting = true
      @asides << -> { ending(job) { report(job, 'released', 'SELECT jobq_release($1, $2)', []) } }
    end

    def ending(job)
      yield
    ensure
      @stand_in&.ended(job)
      @mutex.synchronize do
        @running.delete(job.lease)
        @changed.broadcast
      end
    end

    def call(job)
      value = @handlers.fetch(job.kind).call(job.read)
      [value.nil? ? nil : Jobq.json(value), nil]
    rescue Exception => e # rubocop:disable Lint/RescueException
      [nil, e]
    ensure
      job.close
    end

    # ---- reports

    # Reports the outcome of a handler.
    def conclude(job, result, error)
      return if !job.begin_report || job.done || error.is_a?(Waiting)
      return say("job #{job.id} of kind #{job.kind}: the lease is lost") if job.cancelled == 'lost'

      if job.new_progress
        report(job, 'progress', "SELECT jobq_heartbeat($1, $2, $3::jsonb) IN ('held', 'cancel')", [job.new_progress])
      end
      refused = report_end(job, result, error) or return
      what = { NilClass => 'result', Snooze => 'snooze' }.fetch(error.class, 'failure')
      text = "the #{what} was refused: #{refused.message}"
      return fail_job(job, text) unless error.is_a?(Fail)

      # If the server rejects the report twice, the delay may be the reason.
      fail_job(job, text, error.retry_in, error.final) && error.retry_in && fail_job(job, text, nil, error.final)
    end

    def report_end(job, result, error)
      case error
      when nil then report(job, 'completed', 'SELECT jobq_complete($1, $2, $3::jsonb)', [result])
      when Snooze then report(job, 'snoozed', 'SELECT jobq_snooze($1, $3::interval, $2)', ["#{error.delay} s"])
      when Fail then fail_job(job, error.message, error.retry_in, error.final)
      when Stop
        error.reason == 'cancel' ? fail_job(job, 'cancelled') : report(job, 'released', 'SELECT jobq_release($1, $2)', [])
      else
        return report(job, 'released', 'SELECT jobq_release($1, $2)', []) if gives_back?(job, error)

        fail_job(job, "#{error.class}: #{error.message}")
      end
    end

    # Returns whether the job runs again without counting the attempt, because its own transaction ended with 40001 or 40P01.
    def gives_back?(job, error)
      state = [error, error.cause].filter_map { |one| Jobq.sqlstate(one) }.first
      @mutex.synchronize do
        times = @conflicts.delete(job.id).to_i
        return false unless CONFLICT.include?(state) && times < MOST_CONFLICTS

        @conflicts.clear if @conflicts.size > 1000 # removes entries of jobs that other workers have completed
        @conflicts[job.id] = times + 1
      end
      say "job #{job.id} of kind #{job.kind}: its transaction collided with another one (SQLSTATE #{state}), so it is given back: " \
          "#{@conflicts[job.id]} of #{MOST_CONFLICTS} times"
      true
    end

    def fail_job(job, message, retry_in = nil, final = false)
      message = message.encode('UTF-8', invalid: :replace, undef: :replace).scrub('?').delete("\0")
      say "job #{job.id} of kind #{job.kind}, attempt #{job.attempt}#{message == 'cancelled' ? ': ' : ', has failed: '}#{message}"
      refused = send_failure(job, message, retry_in, final)
      return refused unless UNSTORABLE.include?(Jobq.sqlstate(refused))

      send_failure(job, message.gsub(/[^[:ascii:]]/, '?'), retry_in, final)
    end

    def send_failure(job, message, retry_in, final)
      report(job, 'failed', 'SELECT jobq_fail($1, $2, $3, $4::interval, $5::boolean) IS NOT NULL',
             [message, retry_in && "#{retry_in} s", !final])
    end

    # Returns the error with which the server rejected the report, or nil.
    def report(job, what, statement, values)
      tries = 0
      state = attempt do |conn|
        tries += 1
        taken = conn.exec_params(statement, [job.id, job.lease, *values]).getvalue(0, 0) == 't'
        # Maybe an earlier try succeeded, but its answer was lost.
        taken ? 'finished' : conn.exec_params('SELECT jobq_heartbeat($1, $2)', [job.id, job.lease]).getvalue(0, 0)
      end
      return could_not_report(job) if state.nil?

      # gone: the queue keeps no finished jobs
      arrived = state == 'finished' || (state == 'gone' && tries > 1)
      say "job #{job.id} of kind #{job.kind}: #{arrived ? what : 'the lease is lost'}" if !arrived || what == 'released'
    rescue PG::Error => e
      say "job #{job.id}: the report was refused: #{e.message.strip}"
      e
    end

    # ---- heartbeats

    def start_stand_in
      StandIn.new(@settings)
    rescue SystemCallError => e
      say "could not start the process that sends heartbeats while C code holds Ruby's lock: #{e.message}"
    end

    # Without heartbeats the worker must not claim more jobs.
    def heartbeat_until_it_ends(sender)
      heartbeat_all
    rescue Exception => e # rubocop:disable Lint/RescueException
      @failure = e
      say "heartbeats have ended: #{e.message.strip}"
      sender.write_nonblock('.')
    end

    def heartbeat_all
      pause = 0.1
      loop do
        sleep 0.05
        reported, live = held.reject { |job| job.cancelled == 'lost' }.partition(&:reporting)
        due = live.select { |job| due?(job) }
        progressed = live.select { |job| job.new_progress && (Worker.now - job.beat_at > 0.5 || due?(job)) }
        # Send the heartbeats of all jobs before progress, because progress may fail if its shard is down, and must not delay
        # heartbeats.
        beat(due) if due.any?
        reported.each { |job| beat_briefly(job) if due?(job) }
        progressed.each { |job| beat_with_progress(job) unless job.cancelled == 'lost' }
        pause = 0.1
      rescue Broken
        sleep about(pause)
        pause = [pause * 2, 5].min
      rescue StandardError, NoMemoryError => e
        sleep 1
        say "heartbeats were refused: #{e.message.strip}"
      end
    end

    def due?(job)
      Worker.now - job.beat_at >= interval(job)
    end

    def interval(job)
      job.interval(@heartbeat_interval, @heartbeat_timeout && @heartbeat_timeout / 3.0)
    end

    def beat(jobs)
      rows = beats do |conn|
        conn.exec_params('SELECT state FROM jobq_heartbeat_many($1::bigint[], $2::bigint[])',
                         [array(jobs.map(&:id)), array(jobs.map(&:lease))])
      end
      jobs.zip(rows.column_values(0)) { |job, state| heard(job, state) }
    end

    # Keeps the lease of a job whose report is in flight, and ignores the answer, because the report finds out the same. Waits
    # only briefly, because an unanswered report may still lock the row, and the heartbeats of other jobs must not wait.
    def beat_briefly(job)
      job.beat_at = Worker.now
      beats { |conn| conn.exec_params(<<~SQL, [job.id, job.lease]) }
        WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true)) SELECT jobq_heartbeat($1, $2) FROM briefly
      SQL
      @stand_in&.beaten(job)
    rescue PG::LockNotAvailable
      nil
    end

    def beat_with_progress(job)
      beats do |conn|
        next if job.reporting # the report sends the progress

        progress = job.new_progress
        state = conn.exec_params('SELECT jobq_heartbeat($1, $2, $3::jsonb)', [job.id, job.lease, progress]).getvalue(0, 0)
        job.new_progress = nil if job.new_progress.equal?(progress)
        heard(job, state)
      rescue PG::Error => e
        raise if broken?(conn, e)

        job.new_progress = nil if job.new_progress.equal?(progress)
        say "progress of job #{job.id} was refused: #{e.message.strip}"
      end
    end

    def heard(job, state)
      job.beat_at = Worker.now
      @stand_in&.beaten(job)
      return if job.reporting || %w[held finished].include?(state)

      job.stop(state == 'cancel' ? 'cancel' : 'lost')
    end
  end
end

Jobq::StandIn.run($stdin) if $PROGRAM_NAME == __FILE__
