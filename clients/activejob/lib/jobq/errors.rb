# frozen_string_literal: true

# What a handler throws to say what shall become of its job, and what it is thrown when it shall stop.
module Jobq
  LEASE_LOST = "JQ001"

  class OptionError < ArgumentError; end

  # The attempt has failed: retried after retry_in seconds, or the queue's backoff; with retry: false for good.
  class Fail < StandardError
    attr_reader :retry_in, :retry

    def initialize(message = "", retry_in: nil, retry: true)
      super(message)
      @retry_in = Jobq.checked_delay("retry_in", retry_in)
      @retry = binding.local_variable_get(:retry)
      raise ArgumentError, "retry must be true or false; it is #{@retry.inspect}" unless [true, false].include?(@retry)
    end
  end

  # Those below are no StandardError: neither a rescue of a handler nor a rescue_from keeps them from it.

  # Not now: the job is given back for later, and the attempt is not counted.
  class Snooze < Exception # rubocop:disable Lint/InheritException
    attr_reader :delay

    def initialize(delay)
      super("snoozed for #{delay}")
      @delay = Jobq.checked_delay("delay", delay)
    end
  end

  # Not here: the job is given back at once, and the attempt is not counted.
  class Release < Exception; end # rubocop:disable Lint/InheritException

  # The handler shall stop.
  class Stop < Exception; end # rubocop:disable Lint/InheritException
  # Somebody asked to cancel the job.
  class Cancelled < Stop; end
  # The lease is gone: another worker may have the job by now.
  class Lost < Stop; end
  # The worker stops, and its grace is over.
  class Stopping < Stop; end

  STOPS = { cancel: Cancelled, lost: Lost, stopping: Stopping }.freeze

  # Where the handler throws it: a report with anything else could not be sent. Durations of ActiveSupport are numbers; points in
  # time are none, though they have to_f.
  def self.checked_delay(name, delay)
    return delay if delay.nil? || delay.is_a?(String)
    return delay if delay.respond_to?(:to_f) && !delay.respond_to?(:to_time)

    raise ArgumentError, "#{name} must be a number of seconds, or an interval's text; it is #{delay.inspect}"
  end

  # nil: the server has not said anything. Of pg, or of an ORM that has wrapped it.
  def self.sqlstate(error)
    [error, error.cause].compact.each do |one|
      next unless one.is_a?(PG::Error) && one.result   # others may have a result of another kind

      return one.result.error_field(PG::PG_DIAG_SQLSTATE)
    end
    nil
  end

  def self.lost_lease?(error)
    error.is_a?(Lost) || sqlstate(error) == LEASE_LOST
  end
end
