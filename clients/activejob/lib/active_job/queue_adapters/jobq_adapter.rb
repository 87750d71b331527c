# frozen_string_literal: true

module ActiveJob
  module QueueAdapters
    # Enqueues jobs on ActiveRecord's connection, as part of its open transaction.
    #   config.active_job.queue_adapter = :jobq
    #   config.active_job.queue_adapter = ActiveJob::QueueAdapters::JobqAdapter.new(record: "QueueRecord")   # another database
    class JobqAdapter < (const_defined?(:AbstractAdapter) ? const_get(:AbstractAdapter) : Object)
      # Options that a retry does not keep, because its dependencies are already met, because a job expires only before its first
      # attempt, and because the batch may have been sealed.
      SETTLED = %w[depends_on on_dependency_failure expires_at expires_in batch_id].freeze
      # Keeps a retry from expiring even if the queue has the setting expires_in.
      NEVER = { "expires_in" => "0" }.freeze
      KEPT_KEY = %w[unique_key on_conflict unique_for].freeze
      attr_reader :database

      def initialize(record: "ActiveRecord::Base")
        super()
        @database = Jobq::ActiveJob::Database.new(record)
      end

      def enqueue(job)
        put([job])
      end

      # Enqueues a job for later. The time is taken from the job's scheduled_at.
      def enqueue_at(job, _timestamp)
        put([job])
      end

      # Enqueues the jobs of perform_all_later and returns their number.
      def enqueue_all(jobs)
        put(jobs)
        jobs.size
      end

      # Returns false, because jobs commit and roll back together with the transaction.
      def enqueue_after_transaction_commit?
        false
      end

      # Returns the callback of a batch, which is a job or a hash, as an object for jobq_create_batch. jobq enqueues the callback
      # when the batch has ended, so it has no run_at.
      def callback(job)
        job.is_a?(Hash) ? job : spec_of(job, again: false).except("run_at")
      end

      private

      # Enqueues the jobs. If a job enqueues itself while it is performed, as retry_on does, its completion and the new job commit
      # together.
      def put(jobs)
        performance = jobs.filter_map { |job| Jobq::ActiveJob::Performance.of(job) }.first
        if performance
          performance.completing(complete_first: true) { insert(jobs, performance) }
        else
          insert(jobs, nil)
        end
      end

      def insert(jobs, performance)
        specs = jobs.map { |job| spec_of(job, again: performance&.performs?(job)) }
        rows = @database.rows(Jobq::Statements::ENQUEUE_JOBS, Jobq::Parameters.json(specs))
        jobs.zip(rows) do |job, row|
          job.provider_job_id = row["job_id"]
          job.jobq_duplicate = !row["is_new"]
          job.successfully_enqueued = true if job.respond_to?(:successfully_enqueued=)
        end
      end

      def spec_of(job, again:)
        options = job.jobq_options
        options = options.except(*SETTLED, *(KEPT_KEY if options.key?("unique_for"))).merge(NEVER) if again
        options.merge({ "queue" => job.queue_name, "kind" => job.class.name, "payload" => job.serialize,
                        "priority" => job.priority, "run_at" => time_of(job.scheduled_at) }.compact)
      end

      # Returns the time as text. Before ActiveJob 7.1, scheduled_at is a number.
      def time_of(at)
        at && (at.is_a?(Numeric) ? Time.at(at) : at).utc.iso8601(6)
      end
    end
  end
end
