# frozen_string_literal: true

module Jobq
  module ActiveJob
    # ActiveRecord's own connection: what is done here is part of the transaction that is open there.
    class Database
      # libpq's names of what a database configuration calls otherwise.
      RENAMED = { username: :user, database: :dbname }.freeze

      # record: the class whose connection it is, or its name.
      def initialize(record)
        @record = record
      end

      def record
        @record.is_a?(String) ? @record.constantize : @record
      end

      # Past the query cache, which would answer an enqueue with the job of an equal one; it forgets what it knows, too.
      def rows(statement, *texts)
        binds = texts.each_with_index.map do |text, index|
          ::ActiveRecord::Relation::QueryAttribute.new("$#{index + 1}", text, ::ActiveModel::Type::Value.new)
        end
        with_connection do |connection|
          found = connection.exec_query(statement, "jobq", binds).to_a
          connection.clear_query_cache
          found
        end
      end

      def value(statement, *texts)
        rows(statement, *texts).first.values.first
      end

      # Joins one that is open.
      def transaction(&block)
        record.transaction(&block)
      end

      def transaction_open?
        with_connection(&:transaction_open?)
      end

      # After a job: threads of a worker keep no connection while they are idle.
      def release
        ::ActiveRecord::Base.connection_handler.clear_active_connections!
      end

      # For connections of a worker.
      def parameters
        known = PG::Connection.conndefaults_hash.keys
        record.connection_db_config.configuration_hash.compact.transform_keys { |key| RENAMED.fetch(key, key) }.slice(*known)
      end

      def pool_size
        record.connection_pool.size
      end

      private

      def with_connection(&block)
        return record.with_connection(&block) if record.respond_to?(:with_connection)

        yield record.connection
      end
    end
  end
end
