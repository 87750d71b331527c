# frozen_string_literal: true

require "logger"

module Jobq
  # Serves one queue or several queues. Each handler runs in a thread.
  #   handlers     { "kind" => proc that takes a job }, where the kind "" handles jobs without a kind; or an object with keys and fetch
  #   connection   libpq's parameters as a Hash, or a callable that returns them; default: PGHOST and so on
  #   error_details, on_error: see class Failures
  #   options      the options in class Options
  class Worker
    attr_reader :options

    def initialize(handlers:, connection: {}, logger: Worker.standard_logger, error_details: true, on_error: nil, **options)
      @options = Options.new(**options)
      @handlers, @given, @log = handlers, connection, logger
      @failures = Failures.new(logger, error_details: error_details, on_error: on_error)
      @connections = Connections.new(connection, "jobq #{(@options.named_queues + @options.given_patterns).join(',')} #{@options.worker_id} handler")
      @work, @threads, @when_over = Thread::Queue.new, [], -> {}
    end

    def self.standard_logger
      Logger.new($stderr, progname: "jobq")
    end

    # Connects and starts working in threads, until stop is called. Installs no signal handlers. A thread calls when_over at the
    # end.
    def start(&when_over)
      raise "the worker has already been started" if @core
      raise OptionError, 'option "handlers" must name at least one kind' if @handlers.keys.empty?

      core = Core.new(@options, @handlers.keys, @given, @log, begin_job: method(:begin_job), run_job: method(:run_job),
                                                              when_over: when_over || -> {}, failures: @failures)
      @core = core   # before start, because the threads use it at once
      begin
        core.start
      rescue StandardError
        @core = nil
        raise
      end
      @log.info("#{@options.worker_id}: serves queue #{@options.queue_names}, #{@options.slots} slots, kinds " \
                "#{@handlers.keys.sort.join(', ')}; leaves jobs of other kinds to other workers")
    end

    # Stops claiming. Handlers may continue for the grace period. A second call ends the grace period.
    def stop
      @core&.stop
    end

    def stopping?
      !@core.nil? && @core.hand.stopping?
    end

    # Waits until the worker has stopped, at most timeout seconds. Returns whether it has stopped, and raises the error that ended
    # it.
    def join(timeout = nil)
      return true unless @core
      return false unless @core.join(timeout)

      @connections.close unless left_handlers?
      raise @core.error if @core.error

      true
    end

    # Returns whether everything has been reported.
    def clean?
      @core.nil? || @core.clean?
    end

    # Returns whether handlers that were given up when the grace period ended are still running.
    def left_handlers?
      !@core.nil? && @core.hand.running?
    end

    private

    # ---- called by the claiming thread

    def begin_job(row)
      Job.new(row, @connections, @options.heartbeat_timeout)
    end

    def run_job(job)
      if @threads.size < @options.slots
        @threads << Thread.new { handle_all }.tap { |thread| thread.name = "jobq slot #{@threads.size + 1}" }
      end
      @work << job
    end

    # ---- a slot

    def handle_all
      loop do
        job = @work.pop
        @core.job_ended(job, outcome_of(job))
      end
    end

    def outcome_of(job)
      value = @handlers.fetch(job.kind).call(job.read)
      Outcome.of_return(value, job.ended)
    rescue Exception => e # rubocop:disable Lint/RescueException -- what a handler throws is its job's
      Outcome.of_error(e, job.cancelled, job.ended)
    end
  end
end
