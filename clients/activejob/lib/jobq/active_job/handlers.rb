# frozen_string_literal: true

module Jobq
  module ActiveJob
    # The handlers of a Jobq::Worker. Each kind is the name of a job class.
    class Handlers
      attr_reader :keys

      # kinds: names of job classes; default: all loaded job classes that this adapter enqueues.
      def initialize(database, kinds = nil)
        @database = database
        @keys = kinds || Handlers.loaded
      end

      def self.loaded
        ::ActiveJob::Base.descendants.select do |one|
          one.name && one.queue_adapter.is_a?(::ActiveJob::QueueAdapters::JobqAdapter)
        end.map(&:name).sort
      end

      def fetch(_kind)
        method(:perform)
      end

      # Performs the job. The return value of perform is not stored as a result.
      def perform(job)
        data = Handlers.job_data(job)
        Performance.new(job, data["job_id"], @database).run { ::ActiveJob::Base.execute(data) }
        nil
      ensure
        @database.release
      end

      # Returns the data that ActiveJob deserializes. Earlier attempts in jobq count as executions. The payload of a job that SQL
      # or a schedule has enqueued needs only "arguments". The class and the queue always come from the job, not from its payload,
      # because roles are granted queues and workers claim kinds: a producer must not choose another class, or the queue of the
      # retry.
      def self.job_data(job)
        payload = job.payload.is_a?(Hash) ? job.payload : { "arguments" => Array(job.payload) }
        defaults = {
          "job_id" => "jobq-#{job.id}", "priority" => job.priority,
          "arguments" => [], "executions" => 0, "exception_executions" => {}, "enqueued_at" => job.created_at.utc.iso8601(6)
        }
        data = defaults.merge(payload)
        data.merge("job_class" => job.kind, "queue_name" => job.queue, "provider_job_id" => job.id,
                   "executions" => data["executions"].to_i + job.attempt - 1)
      end
    end
  end
end
