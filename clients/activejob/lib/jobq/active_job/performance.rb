# frozen_string_literal: true

module Jobq
  module ActiveJob
    # A job that ActiveJob is performing in this thread. Completes the job in a transaction of ActiveRecord.
    class Performance
      KEY = :jobq_performance
      attr_reader :job

      # Returns the performance of this job, or nil, for example for another job that runs inside it with perform_now.
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

      # Commits the block together with the completion of the job, or neither. complete_first: completes the job before the block,
      # because the block may enqueue a job with the same unique key.
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

      # Completes the job, unless it is already completed, for example by a retry_job in the same transaction.
      def complete
        before = @job.ended
        return if before && finished?

        @job.begin_ending
        @database.rows(*@job.completion)
      rescue ::ActiveRecord::ActiveRecordError => e
        @job.ended = before unless Connection.unanswered?(e)   # without an answer, the transaction may still hold the job's row
        raise unless Jobq.lost_lease?(e)

        raise Lost, e.message
      end

      def finished?
        %w[finished gone].include?(@database.value(Statements::HEARTBEAT, @job.id.to_s, @job.lease.to_s, nil))
      end
    end
  end
end
