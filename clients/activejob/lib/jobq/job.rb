# frozen_string_literal: true

require "monitor"
require "time"

module Jobq
  # What a handler is given: what the claim returned, and what to do with it.
  class Job
    NUMBERS = %w[id lease attempt max_attempts priority version].freeze
    TEXTS = %w[queue kind].freeze
    VALUES = %w[payload progress metadata].freeze
    TIMES = %w[run_at created_at].freeze
    attr_reader(*(NUMBERS + TEXTS + VALUES + TIMES), :cancelled, :heartbeat_every, :committing)
    # For the worker: beat_at, progress_at; ended: what it came to, if its handler or the server has seen to that. committing: a step
    # of its is about to lock its row until the commit.
    attr_accessor :beat_at, :progress_at, :progress_under_way, :abandoned, :ended, :result

    def initialize(row, connections, heartbeat_timeout, &progressed)
      NUMBERS.each { |name| set(name, Integer(row[name])) }
      TEXTS.each { |name| set(name, row[name]) }
      @texts = row.slice(*VALUES)
      TIMES.each { |name| set(name, Time.at(Rational(row[name]))) }
      @heartbeat_every = [Float(row["heartbeat_seconds"]), heartbeat_timeout && heartbeat_timeout / 3].compact.min
      @connections, @progressed = connections, progressed
      @beat_at, @progress_at, @unreported = 0.0, -Float::INFINITY, nil
      @committing = false
      @changed = Monitor.new
      @stopped = @changed.new_cond
    end

    # By the thread of its slot: whatever the parser says of them is its job's.
    def read
      @texts.each { |name, text| set(name, Parameters.parsed(text)) }
      self
    end

    # Goes out with a heartbeat, within about a second; of several the last one. The next attempt finds it.
    def set_progress(value)
      text = Parameters.json(value)
      @changed.synchronize { @unreported = text }
      @progressed.call
    end

    # Throws Cancelled, Lost or Stopping when the handler should stop.
    def check
      reason = cancelled
      raise STOPS.fetch(reason), reason.to_s if reason
    end

    # Sleeps, and throws as check does when the handler should stop meanwhile.
    def pause(seconds)
      @changed.synchronize { @stopped.wait(seconds) unless @cancelled }
      check
    end

    # A connection of its own. Those of ended handlers are used again.
    def connection
      connection = @connections.take
      begin
        yield connection
      ensure
        @connections.give(connection)
      end
    end

    # A transaction in which the block's SQL and the completion of the job commit together, or neither. The result of the job is
    # the argument, or what the block assigns to job.result.
    def completing(result = nil)
      @result = result
      connection do |own|
        own.transaction do
          value = yield own
          statement = completion(@result)
          @ended = :verify   # until the commit has been answered; from before, so that no heartbeat waits for that
          own.rows(*statement)
          value
        end.tap { @ended = :completed }
      rescue PG::Error => e
        @ended = nil unless Connection.unanswered?(e)   # else nobody knows whether that transaction still has the job's row
        raise unless Jobq.lost_lease?(e)

        raise Lost, e.message
      end
    end

    # The statement that completes it, with its parameters, for a transaction of the caller's. Who runs it says so before: job.ended =
    # :verify. Whether that transaction has committed is asked when the handler has ended.
    def completion(result = nil)
      [Statements::COMPLETE_HELD, id.to_s, lease.to_s, result.nil? ? nil : Parameters.json(result)]
    end

    # Calls the block once, however often the job is tried: what it writes on the connection that it is given is committed with
    # its result. Later attempts get the result.
    def step(name)
      connection do |own|
        saved = own.rows(Statements::STEP, id.to_s, lease.to_s, name).first
        raise STOPS.fetch(saved["state"].to_sym), "step #{name}" if %w[lost cancel].include?(saved["state"])
        return Parameters.parsed(saved["result"]) unless saved["state"] == "run"

        own.transaction do
          value = yield own
          text = value.nil? ? nil : Parameters.json(value)
          @beaten_at, @committing = @beat_at, true   # no heartbeat waits for the commit, which may come late
          Parameters.parsed(own.rows(Statements::STEP_DONE, id.to_s, lease.to_s, name, text).first["result"])
        end
      rescue PG::Error => e
        raise unless Jobq.lost_lease?(e)

        raise Lost, e.message
      ensure
        committed
      end
    end

    # ---- for the worker

    # The first reason stays, except that :lost replaces the others.
    def stop(reason)
      @changed.synchronize do
        @cancelled = reason if @cancelled.nil? || reason == :lost
        @stopped.broadcast
      end
    end

    def progress_is_new?
      !@unreported.nil?
    end

    # What is to be reported, once.
    def take_progress(now)
      @changed.synchronize do
        taken, @unreported = @unreported, nil
        @progress_at, @progress_under_way = now, true if taken
        taken
      end
    end

    # It has not arrived; a newer one replaces it.
    def give_progress_back(text)
      @changed.synchronize { @unreported ||= text }
    end

    def to_s
      "job #{id} of kind #{kind.inspect}, attempt #{attempt}"
    end

    private

    # What has passed the job over comes at once.
    def committed
      committing, @committing = @committing, false
      return unless committing

      @beat_at = -Float::INFINITY if @beat_at != @beaten_at
      @progressed.call   # its progress may have waited, too
    end

    def set(name, value)
      instance_variable_set(:"@#{name}", value)
    end
  end
end
