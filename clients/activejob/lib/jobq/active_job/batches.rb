# frozen_string_literal: true

module Jobq
  # Creates and seals batches on ActiveRecord's connection, as part of its open transaction. Jobs join a batch with
  # set(jobq: { batch_id: id }).
  module ActiveJob
    module Batches
      CREATE = "SELECT jobq_create_batch($1::text, $2::jsonb, $3::jsonb, $4::jsonb, $5::jsonb) AS id"
      SEAL = "SELECT jobq_seal_batch($1::bigint) AS sealed"
      GET = "SELECT * FROM jobq_get_batch($1::bigint)"

      # Creates a batch and returns its ID. A callback is an ActiveJob job, such as ReportJob.new(1), or a hash whose keys are
      # those of jobq_enqueue_jobs.
      def create_batch(name = "", on_complete: nil, on_success: nil, on_failure: nil, metadata: nil, adapter: ::ActiveJob::Base.queue_adapter)
        specs = [on_complete, on_success, on_failure].map { |callback| callback && Parameters.json(adapter.callback(callback)) }
        adapter.database.rows(CREATE, name, *specs, metadata && Parameters.json(metadata)).first["id"]
      end

      # Seals a batch, so that no more jobs can join it. Returns false if it was already sealed, and nil if it does not exist.
      def seal_batch(id, adapter: ::ActiveJob::Base.queue_adapter)
        adapter.database.rows(SEAL, id).first["sealed"]
      end

      # Returns the columns of the view jobq.batches as a hash, or nil if the batch does not exist.
      def batch(id, adapter: ::ActiveJob::Base.queue_adapter)
        adapter.database.rows(GET, id).first
      end
    end
    extend Batches
  end
end
