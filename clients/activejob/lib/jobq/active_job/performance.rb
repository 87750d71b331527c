# frozen_string_literal: true

module Jobq
  module ActiveJob
    # A job of jobq while ActiveJob performs it, in this thread: what completes it in a transaction of ActiveRecord's.
    class Performance
      KEY = :jobq_performance
      attr_reader :job

      # nil, or that of this job: jobs that it performs in passing are none.
      def self.of(active_job)
        current = Thread.current.thread_variable_get(KEY)
        current if current&.performs?(active_job)
      end

      def initialize(job, active_job_id, database)
        @job, @active_job_id, @database = job, active_job_id, database
      end

      def run
        before = Thread.current.thread_variable_get(KEY)
        Thread.current.thread_variable_set(KEY, self)
        yield
      ensure
        Thread.current.thread_variable_set(KEY, before)
      end

      def performs?(active_job)
        active_job.job_id == @active_job_id
      end

      # A transaction in which the block and the completion commit together, or neither. complete_first: what the block enqueues
      # may need the unique key of this job.
      def completing(complete_first: false)
        within = @database.transaction_open?
        done = false
        value = @database.transaction do
          complete if complete_first
          yield.tap do
            complete unless complete_first
            done = true
          end
        end
        raise Fail, "perform was rolled back" unless done

        @job.ended = :completed unless within
        value
      end

      private

      # Unless it is already, by a retry_job in the same transaction or before.
      def complete
        before = @job.ended
        return if before && finished?

        @job.ended = :verify   # until the commit has been answered; from before, so that no heartbeat waits for that
        @database.rows(*@job.completion)
      rescue ::ActiveRecord::ActiveRecordError => e
        @job.ended = before unless Connection.unanswered?(e)   # else nobody knows whether that transaction still has the job's row
        raise unless Jobq.lost_lease?(e)

        raise Lost, e.message
      end

      def finished?
        %w[finished gone].include?(@database.value(Statements::HEARTBEAT, @job.id.to_s, @job.lease.to_s, nil))
      end
    end
  end
end
