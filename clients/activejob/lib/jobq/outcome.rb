# frozen_string_literal: true

module Jobq
  # The report of an attempt, derived from the value that its handler returned or the exception that it raised. Needs no server.
  #   what       :complete, :fail, :snooze, :release; :verify: the handler has completed the job in a transaction that may not have
  #              committed, so the worker asks the server; :nothing: no report is needed, and text says why
  #   alone      send without other reports, because a batch with it was rejected or collided
  #   sent       sent before, but the answer is unknown
  #   collisions number of times the report collided with another transaction; not_before: earliest time of the next try
  #   error      the exception of a failed attempt; details: what Failures adds to the report, as JSON
  #   conflict   the SQLSTATE if the handler's own transaction ended with 40001 or 40P01
  Outcome = Struct.new(:what, :text, :result, :retry_in, :retry, :alone, :sent, :collisions, :not_before, :conflict,
                       :error, :details, keyword_init: true) do
    def self.of(what, text = nil, result: nil, retry_in: nil, retry_again: true, error: nil)
      new(what: what, text: text, result: result, retry_in: retry_in, retry: retry_again, alone: false, sent: false, collisions: 0,
          not_before: -Float::INFINITY, error: error)
    end

    def self.of_return(value, ended)
      return of(:verify) if ended == :verify
      return of(:nothing, ended.to_s) if ended
      return of(:complete) if value.nil?

      of(:complete, result: Parameters.json(value))
    rescue JSON::JSONError, EncodingError, SystemStackError => e
      of(:fail, Parameters.text("the result is no JSON: #{e.message}"), error: e)
    end

    # Returns the outcome for an exception. reason: why the handler was asked to stop, if it was.
    def self.of_error(error, reason, ended)
      return of(:verify, describe(error), error: error).tap { |unknown| unknown.conflict = Conflicts.of(error) } if ended == :verify
      return of(:nothing, ended.to_s) if ended
      return of(:nothing, "lost") if reason == :lost || Jobq.lost_lease?(error)

      case error
      when Stopping, Release then of(:release)
      when Cancelled then of(:fail, "cancelled")
      when Snooze then of(:snooze, retry_in: error.delay)
      when Fail then of(:fail, message_of(error), retry_in: error.retry_in, retry_again: error.retry, error: error)
      else of(:fail, describe(error), error: error).tap { |failed| failed.conflict = Conflicts.of(error) }
      end
    end

    def self.describe(error)
      message = message_of(error)
      message.empty? ? error.class.to_s : "#{error.class}: #{message}"
    end

    # Returns the error's message, or an empty string if reading the message fails, because the job must not hang.
    def self.message_of(error)
      Parameters.text(error.message)
    rescue Exception # rubocop:disable Lint/RescueException
      ""
    end

    # Returns the outcome, marked for another try.
    def again(alone:, sent:)
      dup.tap { |again| again.alone, again.sent = self.alone || alone, self.sent || sent }
    end

    # Returns the outcome for another try after a collision. It is sent alone, so that other reports do not wait for the same
    # lock.
    def collided(not_before)
      again(alone: true, sent: false).tap { |again| again.collisions, again.not_before = collisions + 1, not_before }
    end

    # Returns the failure to report after the server has rejected this outcome. A failure keeps its delay.
    def refused(why)
      noun = { complete: "result", snooze: "snooze", release: "release" }.fetch(what, "failure")
      failed = Outcome.of(:fail, "the #{noun} was refused: #{why}", retry_in: what == :fail ? retry_in : nil, retry_again: self.retry)
      failed.again(alone: true, sent: sent)
    end

    # Returns whether a character of the text does not exist in the encoding of the database (22P05, 22021).
    def unstorable?(error)
      what == :fail && !(text.ascii_only? && details.to_s.ascii_only?) && %w[22P05 22021].include?(Jobq.sqlstate(error))
    end

    # Returns the same failure with "?" instead of each character that is not ASCII.
    def in_ascii
      dup.tap { |ascii| ascii.text, ascii.details = [text, details].map { |given| given&.gsub(/[^[:ascii:]]/, "?") } }
    end

    # Returns the same outcome without details.
    def without_details
      dup.tap { |bare| bare.details = nil }
    end

    # Returns whether a heartbeat's answer confirms that an earlier report has arrived. gone: the queue keeps no finished jobs.
    def self.finished?(state)
      %w[finished gone].include?(state)
    end
  end

  # Jobs whose own transaction has collided with another one (SQLSTATE 40001 or 40P01). The worker gives such a job back without
  # counting the attempt, at most MOST times in a row, so that a job that always collides ends.
  class Conflicts
    MOST = 10
    REMEMBERED = 1000

    # Returns the SQLSTATE of a collision, or nil for other errors.
    def self.of(error)
      state = Jobq.sqlstate(error)
      state if %w[40001 40P01].include?(state)
    end

    def initialize
      @times, @lock = {}, Mutex.new
    end

    # Returns the outcome to report for an attempt that had this outcome.
    def judge(job, outcome)
      return outcome if outcome.what == :verify   # the server knows the outcome

      @lock.synchronize do
        times = @times.delete(job.id).to_i
        return outcome unless outcome.conflict && times < MOST

        @times.clear if @times.size >= REMEMBERED   # removes entries of jobs that other workers have completed
        @times[job.id] = times + 1
      end
      Outcome.of(:release, outcome.text).tap { |release| release.conflict = outcome.conflict }
    end
  end
end
