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
        raise OptionError, "name must be a String; it is of class #{name.class}" unless name.is_a?(String)

        specs = { on_complete: on_complete, on_success: on_success, on_failure: on_failure }.map do |option, callback|
          Batches.check_callback(option, callback)
          callback && Parameters.json(adapter.callback(callback))
        end
        adapter.database.rows(CREATE, name, *specs, metadata && Parameters.json(metadata)).first["id"]
      end

      # Seals a batch, so that no more jobs can join it. Returns false if it was already sealed, and nil if it does not exist.
      def seal_batch(id, adapter: ::ActiveJob::Base.queue_adapter)
        adapter.database.rows(SEAL, Batches.checked_id(id)).first["sealed"]
      end

      # Returns the columns of the view jobq.batches as a hash, or nil if the batch does not exist.
      def batch(id, adapter: ::ActiveJob::Base.queue_adapter)
        adapter.database.rows(GET, Batches.checked_id(id)).first
      end

      # The message does not show the callback, because it may be a misplaced payload.
      def self.check_callback(option, callback)
        return if callback.nil? || callback.is_a?(Hash) || callback.is_a?(::ActiveJob::Base)

        raise OptionError, "#{option} must be a job or a hash; it is of class #{callback.class}"
      end

      def self.checked_id(id)
        return id if (id.is_a?(Integer) || id.is_a?(String)) && /\A[0-9]{1,19}\z/.match?(id.to_s) && id.to_i < 2**63

        raise OptionError, "id must be the ID of a batch; it is #{id.inspect}"
      end
    end
    extend Batches
  end
end
