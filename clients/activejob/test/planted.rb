# frozen_string_literal: true

# Plants the defect named in JOBQ_PLANTED into the adapter, for planted_test.rb. Each defect is a mistake that a developer might
# make.

module Planted
  Adapter = ActiveJob::QueueAdapters::JobqAdapter
  Database = Jobq::ActiveJob::Database
  Performance = Jobq::ActiveJob::Performance
  Handlers = Jobq::ActiveJob::Handlers

  DEFECTS = {
    # Commits the new job before the completion.
    "retry_in_two_transactions" => lambda do
      Performance.prepend(Module.new do
        def completing(complete_first: false)
          return super unless complete_first

          yield.tap { complete }
        end
      end)
    end,
    # Commits the completion before the new job.
    "retry_after_completion" => lambda do
      Performance.prepend(Module.new do
        def completing(complete_first: false)
          return super unless complete_first

          complete
          yield
        end
      end)
    end,
    "enqueue_before_completion" => lambda do
      Performance.prepend(Module.new do
        def completing(complete_first: false)
          super(complete_first: false)
        end
      end)
    end,
    "retry_with_the_kept_key" => -> { Adapter.const_set(:KEPT_KEY, []) },
    "through_the_query_cache" => lambda do
      Database.define_method(:rows) do |statement, *texts|
        binds = texts.map { |text| ActiveRecord::Relation::QueryAttribute.new("", text, ActiveModel::Type::Value.new) }
        record.connection.select_all(statement, "jobq", binds).to_a
      end
    end,
    "on_a_connection_of_its_own" => lambda do
      Database.define_method(:rows) do |statement, *texts|
        Thread.new do
          record.connection_pool.with_connection do |connection|
            binds = texts.map { |text| ActiveRecord::Relation::QueryAttribute.new("", text, ActiveModel::Type::Value.new) }
            connection.exec_query(statement, "jobq", binds).to_a
          end
        end.value
      end
    end,
    "executions_of_the_payload" => lambda do
      data = Handlers.method(:job_data)
      Handlers.define_singleton_method(:job_data) { |job| data.call(job).merge("executions" => job.payload["executions"].to_i) }
    end,
    "blind_completion" => lambda do
      Jobq::Job.prepend(Module.new do
        def completion(result = nil)
          super.tap { |call| call[0] = call[0].sub("must_hold => true", "must_hold => false") }
        end
      end)
    end,
    "transaction_around_rescue" => lambda do
      Handlers.prepend(Module.new do
        def perform(job)
          ActiveRecord::Base.transaction { super }
        end
      end)
    end,
    "rollback_unseen" => lambda do
      Performance.define_method(:completing) { |**, &block| @database.transaction { block.call.tap { complete } } }
    end,
    "believes_its_commit" => lambda do
      Performance.prepend(Module.new do
        def complete
          super
          @job.ended = :completed
        end
      end)
    end
  }.freeze

  DEFECTS.fetch(ENV["JOBQ_PLANTED"]).call if ENV["JOBQ_PLANTED"]
end
