# frozen_string_literal: true

# Exceptions that a handler raises to decide the outcome of its job, and exceptions that are raised in a handler that should stop.
module Jobq
  LEASE_LOST = "JQ001"

  class OptionError < ArgumentError; end

  # The attempt has failed. The job is retried after retry_in seconds, by default after the queue's backoff; with retry: false,
  # never.
  class Fail < StandardError
    attr_reader :retry_in, :retry

    def initialize(message = "", retry_in: nil, retry: true)
      super(message)
      @retry_in = Jobq.checked_delay("retry_in", retry_in)
      @retry = binding.local_variable_get(:retry)
      raise ArgumentError, "retry must be true or false; it is #{@retry.inspect}" unless [true, false].include?(@retry)
    end
  end

  # The following exceptions are not StandardErrors, so that neither a handler's rescue clause nor rescue_from catches them.

  # Gives the job back, to run again after the delay. The attempt is not counted.
  class Snooze < Exception # rubocop:disable Lint/InheritException
    attr_reader :delay

    def initialize(delay)
      super("snoozed for #{delay}")
      @delay = Jobq.checked_delay("delay", delay)
    end
  end

  # Gives the job back, to run again at once, for example on another worker. The attempt is not counted.
  class Release < Exception; end # rubocop:disable Lint/InheritException

  # The handler should stop.
  class Stop < Exception; end # rubocop:disable Lint/InheritException
  # Cancellation of the job was requested.
  class Cancelled < Stop; end
  # The lease is lost. Another worker may be running the job.
  class Lost < Stop; end
  # The worker is stopping, and its grace period has ended.
  class Stopping < Stop; end

  STOPS = { cancel: Cancelled, lost: Lost, stopping: Stopping }.freeze

  # Rejects an invalid delay when the handler raises the exception, because the worker could not report it later. ActiveSupport
  # durations count as numbers; points in time do not, although they respond to to_f.
  def self.checked_delay(name, delay)
    return delay if delay.nil? || delay.is_a?(String)
    return delay if delay.respond_to?(:to_f) && !delay.respond_to?(:to_time)

    raise ArgumentError, "#{name} must be a number of seconds, or an interval's text; it is #{delay.inspect}"
  end

  # Returns the SQLSTATE of an error of pg, or of an ORM that wraps it, or nil if the error did not come from the server.
  def self.sqlstate(error)
    [error, error.cause].compact.each do |one|
      next unless one.is_a?(PG::Error) && one.result   # errors of other libraries may have a result of another type

      return one.result.error_field(PG::PG_DIAG_SQLSTATE)
    end
    nil
  end

  def self.lost_lease?(error)
    error.is_a?(Lost) || sqlstate(error) == LEASE_LOST
  end
end
