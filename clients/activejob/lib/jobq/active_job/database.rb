# frozen_string_literal: true

module Jobq
  module ActiveJob
    # ActiveRecord's own connection. Statements are part of its open transaction.
    class Database
      # libpq's names for settings that have other names in a database configuration.
      RENAMED = { username: :user, database: :dbname }.freeze

      # record: the class whose connection is used, or its name.
      def initialize(record)
        @record = record
      end

      def record
        @record.is_a?(String) ? @record.constantize : @record
      end

      # Returns the rows. Bypasses the query cache, which would answer an enqueue with the ID of an earlier identical one, and
      # clears it.
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

      # Runs the block in a transaction, or in the open one.
      def transaction(&block)
        record.transaction(&block)
      end

      def transaction_open?
        with_connection(&:transaction_open?)
      end

      # Releases the connection after a job, so that idle threads of a worker hold no connection.
      def release
        ::ActiveRecord::Base.connection_handler.clear_active_connections!
      end

      # Returns the libpq parameters for the connections of a worker.
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
