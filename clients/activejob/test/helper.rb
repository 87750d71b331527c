# frozen_string_literal: true

# Needs a database with jobq preloaded, selected by PGHOST, PGPORT, PGUSER, and PGDATABASE, and a superuser.

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "minitest"
require "minitest/mock"
require "tempfile"
require "timeout"
require "jobq-activejob"
require_relative "planted"

ActiveRecord::Base.establish_connection(adapter: "postgresql", pool: 20)
ActiveRecord::Base.connection.execute(<<~SQL)
  SET client_min_messages = warning;
  CREATE TABLE IF NOT EXISTS effects (job text, name text);
SQL
ActiveRecord::Base.logger = ActiveJob::Base.logger = Logger.new(File::NULL)
ActiveJob::Base.queue_adapter = :jobq

class Effect < ActiveRecord::Base; end

# Prints a line per test, and the totals.
class Lines < Minitest::AbstractReporter
  attr_reader :failed

  def initialize
    super
    @passed = @failed = 0
  end

  def record(result)
    puts "#{result.passed? ? 'ok' : 'not ok'} - #{result.klass}: #{result.name.delete_prefix('test_').tr('_', ' ')}"
    puts result.failures.map(&:message).join("\n").gsub(/^/, "# "), "# #{result.failures.first&.location}" unless result.passed?
    result.passed? ? @passed += 1 : @failed += 1
  end

  def report
    puts "#{@passed} passed, #{@failed} failed"
  end

  def passed?
    @failed.zero? && @passed.positive?
  end
end

module Minitest
  def self.plugin_lines_init(_options)
    reporter.reporters.replace([Lines.new])
  end
  extensions << "lines"
end

class JobqTest < Minitest::Test
  LIMIT = Integer(ENV.fetch("JOBQ_TEST_LIMIT", "120"))
  DUE = "UPDATE jobq.jobs SET run_at = now() - interval '1 minute' WHERE queue = $1::text AND status = 'scheduled' RETURNING id"

  def setup
    @queue = "#{self.class} #{SecureRandom.hex(4)}"
    Effect.delete_all
    @server = Jobq::Connection.new({}, "test")
  end

  def teardown
    @worker&.stop
    @worker&.stop
    @worker&.join(LIMIT)
    ask("SELECT jobq_drop_queue($1::text, force => true)", @queue)
    @server.close
    ActiveRecord::Base.connection_handler.clear_active_connections!
  end

  # Queries the database on another connection.
  def ask(statement, *parameters)
    @server.value(statement, *parameters.map { |one| one&.to_s })
  end

  def becomes(expected, statement, *parameters)
    deadline = now + LIMIT
    value = nil
    loop do
      value = ask(statement, *parameters)
      return if value == expected

      break if now > deadline
      sleep(0.02)
    end
    assert_equal(expected, value, "#{statement} #{parameters}\n#{jobs.join("\n")}")
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def jobs
    @server.rows("SELECT id, kind, status, attempts, error FROM jobq.jobs WHERE queue = $1::text ORDER BY id", @queue)
  end

  def statuses
    jobs.map { |job| job["status"] }
  end

  def count
    ask("SELECT count(*) FROM jobq.jobs WHERE queue = $1::text", @queue).to_i
  end

  def finish(job, status = "completed")
    becomes(status, "SELECT status FROM jobq.jobs WHERE id = $1::bigint", job.provider_job_id)
  end

  # Makes jobs that are scheduled for later due now, until the expected state is reached.
  def finish_all(expected)
    deadline = now + LIMIT
    until statuses == expected || now > deadline
      @server.rows(DUE, @queue)
      sleep(0.02)
    end
    assert_equal(expected, statuses, jobs.join("\n"))
  end

  def work(**options)
    @said = StringIO.new
    handlers = Jobq::ActiveJob::Handlers.new(ActiveJob::Base.queue_adapter.database)
    @worker = Jobq::Worker.new(handlers: handlers, queue: @queue, logger: Logger.new(@said),
                               connection: ActiveJob::Base.queue_adapter.database.parameters, **options)
    @worker.start
  end

  def later(job_class, *arguments, **options)
    job_class.set(queue: @queue, **options).perform_later(*arguments)
  end
end

# An error that looks like a server error, without a server.
class Refusal < PG::Error
  Result = Struct.new(:sqlstate) do
    def error_field(_field)
      sqlstate
    end
  end
  attr_reader :result

  def initialize(sqlstate)
    super(sqlstate)
    @result = Result.new(sqlstate)
  end
end
