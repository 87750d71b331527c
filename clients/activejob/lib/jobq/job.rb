# frozen_string_literal: true

require "monitor"
require "time"

module Jobq
  # The job that a handler receives: the columns of the claim, and methods that work on the job.
  class Job
    NUMBERS = %w[id lease attempt max_attempts priority version].freeze
    TEXTS = %w[queue kind].freeze
    VALUES = %w[payload progress metadata].freeze
    TIMES = %w[run_at created_at].freeze
    attr_reader(*(NUMBERS + TEXTS + VALUES + TIMES), :cancelled, :heartbeat_every, :committing, :lines)
    # For the worker. ended: outcome, if the handler or the server has already ended the job. committing: a step is about to lock
    # the job's row until its commit. hand: where the worker keeps the job.
    attr_accessor :beat_at, :progress_at, :progress_under_way, :abandoned, :ended, :result, :hand

    def initialize(row, connections, heartbeat_timeout)
      NUMBERS.each { |name| set(name, Integer(row[name])) }
      TEXTS.each { |name| set(name, row[name]) }
      @texts = row.slice(*VALUES)
      TIMES.each { |name| set(name, Time.at(Rational(row[name]))) }
      @heartbeat_every = [Float(row["heartbeat_seconds"]), heartbeat_timeout && heartbeat_timeout / 3].compact.min
      @connections = connections
      @beat_at, @progress_at, @unreported = 0.0, -Float::INFINITY, nil
      @committing = false
      @lines = Lines.new
      @changed = Monitor.new
      @stopped = @changed.new_cond
    end

    # Parses the job's values. Called in the slot's thread, so that an error of the parser fails only this job.
    def read
      @texts.each { |name, text| set(name, Parameters.parsed(text)) }
      self
    end

    # Reports progress with the next heartbeat, within about a second; only the last value is sent. The next attempt can read it.
    def set_progress(value)
      text = Parameters.json(value)
      @changed.synchronize { @unreported = text }
      @hand&.progressed
    end

    # Writes a line to the log of the job, which jobq_log() and the dashboard show. level: debug, info, warning, or error. The lines
    # are sent with the next heartbeat, or before the report of the job.
    def log(text, level = "info")
      @lines.add(text, level)
      nil
    end

    # Raises Cancelled, Lost, or Stopping if the handler should stop.
    def check
      reason = cancelled
      raise STOPS.fetch(reason), reason.to_s if reason
    end

    # Sleeps. Raises the same exceptions as check if the handler should stop while it sleeps.
    def pause(seconds)
      @changed.synchronize { @stopped.wait(seconds) unless @cancelled }
      check
    end

    # Provides the handler with its own connection, reusing the connection of a finished handler if possible.
    def connection
      connection = @connections.take
      begin
        yield connection
      ensure
        @connections.give(connection)
      end
    end

    # Opens a transaction in which the block's SQL and the completion of the job commit together, or not at all. The result of the
    # job is the argument, or the value that the block assigns to job.result.
    def completing(result = nil)
      @result = result
      connection do |own|
        own.transaction do
          value = yield own
          statement = completion(@result)
          begin_ending   # until the commit is answered
          own.rows(*statement)
          value
        end.tap { @ended = :completed }
      rescue PG::Error => e
        @ended = nil unless Connection.unanswered?(e)   # without an answer, the transaction may still hold the job's row
        raise unless Jobq.lost_lease?(e)

        raise Lost, e.message
      end
    end

    # Sends the log lines, because lines that arrive after the completion count as late. Then stops the heartbeats of this job. Called
    # before the statement that completes the job, because a heartbeat would wait for the commit.
    def begin_ending
      @hand&.flush(self)
      @ended = :verify
      @hand&.settle(self)
    end

    # Returns the statement that completes the job, and its parameters, for the caller's transaction. The caller must call
    # begin_ending before running it. When the handler has ended, the worker asks the server whether that transaction has committed.
    def completion(result = nil)
      [Statements::COMPLETE_HELD, id.to_s, lease.to_s, result.nil? ? nil : Parameters.json(result)]
    end

    # Calls the block once, even if the job is retried. The block's writes on the given connection commit together with its
    # result. Later attempts return the saved result without calling the block.
    def step(name)
      connection do |own|
        saved = own.rows(Statements::STEP, id.to_s, lease.to_s, name).first
        raise STOPS.fetch(saved["state"].to_sym), "step #{name}" if %w[lost cancel].include?(saved["state"])
        return Parameters.parsed(saved["result"]) unless saved["state"] == "run"

        own.transaction do
          value = yield own
          text = value.nil? ? nil : Parameters.json(value)
          @beaten_at, @committing = @beat_at, true   # no heartbeat may wait for the commit, which may come late
          @hand&.settle(self)
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

    # Asks the handler to stop. The first reason is kept, except that :lost replaces any other.
    def stop(reason)
      @changed.synchronize do
        @cancelled = reason if @cancelled.nil? || reason == :lost
        @stopped.broadcast
      end
    end

    def progress_is_new?
      !@unreported.nil?
    end

    # Returns progress that has not been reported, at most once.
    def take_progress(now)
      @changed.synchronize do
        taken, @unreported = @unreported, nil
        @progress_at, @progress_under_way = now, true if taken
        taken
      end
    end

    # Keeps progress whose report failed, unless there is newer progress.
    def give_progress_back(text)
      @changed.synchronize { @unreported ||= text }
    end

    def to_s
      "job #{id} of kind #{kind.inspect}, attempt #{attempt}"
    end

    private

    # Ends the commit of a step. A heartbeat that was skipped is sent now.
    def committed
      committing, @committing = @committing, false
      return unless committing

      @beat_at = -Float::INFINITY if @beat_at != @beaten_at
      @hand&.progressed   # progress may have been delayed, too
    end

    def set(name, value)
      instance_variable_set(:"@#{name}", value)
    end
  end
end
