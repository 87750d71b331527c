# frozen_string_literal: true

require_relative "helper"

class PlainJob < ActiveJob::Base
  def perform(*); end
end

class KeyedJob < ActiveJob::Base
  jobq unique_key: -> { "key #{arguments.first}" }, max_attempts: 7, heartbeat_timeout: 90.seconds, metadata: { "team" => "red" }
  jobq concurrency_key: ->(job) { job.arguments.last }
  def perform(*); end
end

class EnqueueTest < JobqTest
  def row(job, columns)
    @server.rows("SELECT #{columns} FROM jobq.jobs WHERE id = $1::bigint", job.provider_job_id.to_s).first
  end

  def test_a_job_is_part_of_the_transaction
    job = nil
    ActiveRecord::Base.transaction do
      job = later(PlainJob, 1)
      assert_equal(0, count)
    end
    assert_equal({ "id" => job.provider_job_id.to_s, "kind" => "PlainJob", "status" => "pending" }, row(job, "id, kind, status"))
  end

  def test_an_ambiguous_time_is_rejected
    [Date.new(2030, 1, 1), "2030-01-01 10:00", 20_301_231, 2030.5].each do |at|
      error = assert_raises(Jobq::OptionError, at.inspect) { PlainJob.set(queue: @queue, wait_until: at).perform_later }
      assert_match(/\Await_until must be .*#{Regexp.escape(at.inspect)}/, error.message)
    end
    assert_equal(0, count)
    assert_raises(ArgumentError) { later(PlainJob, jobq: { unique_key: "a", unique_for: Time.now }) }
    moment = Time.utc(2030, 1, 1, 10)
    [moment, moment.to_datetime, moment.in_time_zone("Hawaii")].each do |at|
      assert_equal("t", row(later(PlainJob, wait_until: at), "run_at = '2030-01-01 10:00Z' AS same")["same"], at.inspect)
    end
  end

  def test_a_rollback_removes_the_job
    ActiveRecord::Base.transaction do
      Effect.create!(name: "none")
      later(PlainJob, 1)
      raise ActiveRecord::Rollback
    end
    assert_raises(ZeroDivisionError) { ActiveRecord::Base.transaction { later(PlainJob, 1 / 0) } }
    assert_equal([0, 0], [count, Effect.count])
  end

  def test_a_rollback_to_a_savepoint_removes_its_jobs
    ActiveRecord::Base.transaction do
      later(PlainJob, 1)
      ActiveRecord::Base.transaction(requires_new: true) do
        later(PlainJob, 2)
        raise ActiveRecord::Rollback
      end
    end
    assert_equal(1, count)
  end

  # The payload contains the time, so the clock must stand still to get identical statements.
  def test_the_query_cache_does_not_answer_an_enqueue
    job = PlainJob.new(1).tap { |one| one.queue_name = @queue }
    ActiveRecord::Base.cache do
      same = ActiveRecord::Base.connection
      counts = -> { same.select_value("SELECT count(*) FROM jobq.jobs WHERE queue = #{same.quote(@queue)}") }
      assert_equal(0, counts.call)
      ids = Time.stub(:now, Time.now) { Array.new(2) { enqueue_anew(job) } }
      assert_equal(2, ids.uniq.size)
      assert_equal(2, counts.call)
    end
    assert_equal(2, count)
  end

  # Enqueues the payload of the first job as a new job.
  def enqueue_anew(job)
    job.provider_job_id = nil
    job.enqueue.provider_job_id
  end

  def test_time_and_priority_are_set
    at = Time.utc(2040, 2, 3, 4, 5, 6.789r)
    job = later(PlainJob, wait_until: at, priority: -5)
    assert_equal({ "status" => "scheduled", "priority" => "-5", "at" => "2040-02-03 04:05:06.789" },
                 row(job, "status, priority, run_at AT TIME ZONE 'UTC' AS at"))
  end

  def test_options_of_the_class_and_of_the_job_are_combined
    job = later(KeyedJob, 1, "ada", jobq: { max_attempts: 2, max_runtime: 1.minute })
    assert_equal({ "unique_key" => "key 1", "max_attempts" => "2", "concurrency_key" => "ada", "heartbeat_timeout" => "00:01:30",
                   "max_runtime" => "00:01:00", "team" => "red" },
                 row(job, "unique_key, max_attempts, concurrency_key, heartbeat_timeout, max_runtime, metadata->>'team' AS team"))
  end

  def test_a_job_expires_at_a_time_or_after_an_interval
    at = Time.utc(2040, 2, 3, 4, 5, 6)
    [later(PlainJob, wait_until: at - 60, jobq: { expires_in: 1.minute }), later(PlainJob, jobq: { expires_at: at })].each do |job|
      assert_equal({ "at" => "2040-02-03 04:05:06" }, row(job, "expires_at AT TIME ZONE 'UTC' AS at"))
    end
    assert_raises(ArgumentError) { later(PlainJob, jobq: { expires_at: 5 }) }
  end

  def test_a_batch_enqueues_its_callback
    batch = Jobq::ActiveJob.create_batch("import", on_success: PlainJob.new("done"), metadata: { file: "a" })
    jobs = [later(PlainJob, jobq: { batch_id: batch }), later(PlainJob, jobq: { batch_id: batch })]
    jobs.each { |job| assert_equal({ "batch_id" => batch.to_s }, row(job, "batch_id")) }
    assert_equal 2, Jobq::ActiveJob.batch(batch)["total"]
    jobs.each { |job| ActiveRecord::Base.connection.execute("SELECT jobq_cancel(#{job.provider_job_id})") }
    assert_equal [true, false, nil], [batch, batch, 10**9].map { |id| Jobq::ActiveJob.seal_batch(id) }
    assert Jobq::ActiveJob.batch(batch)["finished_at"]
    assert_nil Jobq::ActiveJob.batch(10**9)
    success = Jobq::ActiveJob.create_batch(on_success: PlainJob.new("done"), on_failure: { queue: "failures" })
    Jobq::ActiveJob.seal_batch(success)
    assert_equal [1], ActiveRecord::Base.connection.exec_query(
      "SELECT count(*)::int AS n FROM jobq.jobs WHERE kind = 'PlainJob' AND metadata->>'batch' = '#{success}'"
    ).map { |found| found["n"] }
  end

  def test_a_wrong_callback_or_id_of_a_batch_is_reported
    %i[on_complete on_success on_failure].each do |option|
      ["mails", PlainJob, [{ queue: "mails" }]].each do |value|
        error = assert_raises(Jobq::OptionError) { Jobq::ActiveJob.create_batch("import", option => value) }
        assert_equal("#{option} must be a job or a hash; it is of class #{value.class}", error.message)
      end
    end
    error = assert_raises(Jobq::OptionError) { Jobq::ActiveJob.create_batch({ "on_success" => { queue: "mails" } }) }
    assert_equal("name must be a String; it is of class Hash", error.message)
    [nil, "x", 1.5, -1, 2**63, "1\n"].each do |id|
      %i[seal_batch batch].each do |name|
        error = assert_raises(Jobq::OptionError) { Jobq::ActiveJob.public_send(name, id) }
        assert_equal("id must be the ID of a batch; it is #{id.inspect}", error.message)
      end
    end
  end

  def test_a_taken_key_is_reported
    first = later(KeyedJob, 1, "ada")
    second = later(KeyedJob, 1, "ada")
    assert_equal([false, true], [first.jobq_duplicate?, second.jobq_duplicate?])
    assert_equal(first.provider_job_id, second.provider_job_id)
    assert_equal(1, count)
  end

  def test_wrong_options_are_reported
    error = assert_raises(ArgumentError) { Class.new(ActiveJob::Base) { jobq uniqe_key: "a" } }
    assert_match(/unknown option uniqe_key; the options are batch_id, concurrency_key, /, error.message)
    assert_raises(ArgumentError) { later(PlainJob, jobq: { colour: 1 }) }
    error = assert_raises(ActiveRecord::StatementInvalid) { later(PlainJob, priority: 40_000) }
    assert_match(/argument "priority" must be between/, error.message)
    assert_equal(0, count)
  end

  def test_perform_all_later_uses_one_statement
    jobs = [KeyedJob.new(2, "bob"), PlainJob.new(1), KeyedJob.new(1, "ada"), PlainJob.new(2).tap { |job| job.scheduled_at = in_an_hour }]
    jobs.each { |job| job.queue_name = @queue }
    statements = []
    listener = ->(*, payload) { statements << payload[:sql] unless payload[:name] == "SCHEMA" }
    ActiveSupport::Notifications.subscribed(listener, "sql.active_record") do
      assert_equal(4, ActiveJob::Base.queue_adapter.enqueue_all(jobs))
    end
    assert_equal(1, statements.size)
    found = jobs.map { |job| row(job, "payload->'arguments'->>0 AS first, kind, status").values }
    assert_equal([%w[2 KeyedJob pending], %w[1 PlainJob pending], %w[1 KeyedJob pending], %w[2 PlainJob scheduled]], found)
  end

  # Before ActiveJob 7.1, scheduled_at is a number.
  def in_an_hour
    ActiveJob.version < Gem::Version.new("7.1") ? Time.now.to_f + 3600 : 1.hour.from_now
  end

  if ActiveJob.respond_to?(:perform_all_later)
    def test_perform_all_later
      jobs = [PlainJob.new(1).set(queue: @queue, wait: 1.hour, jobq: { max_attempts: 3 }), KeyedJob.new(1, "ada").set(queue: @queue)]
      ActiveRecord::Base.transaction do
        ActiveJob.perform_all_later(jobs)
        assert_equal(0, count)
      end
      assert_equal([{ "status" => "scheduled", "max_attempts" => "3" }, { "status" => "pending", "max_attempts" => "7" }],
                   jobs.map { |job| row(job, "status, max_attempts") })
      assert(jobs.all?(&:successfully_enqueued?))
    end
  end

  def test_without_prepared_statements
    record = Class.new(ActiveRecord::Base) do
      self.abstract_class = true
      def self.name
        "Unprepared"
      end
    end
    record.establish_connection(adapter: "postgresql", prepared_statements: false)
    adapter = ActiveJob::QueueAdapters::JobqAdapter.new(record: record)
    job = PlainJob.new("it's").tap { |one| one.queue_name = @queue }
    record.transaction do
      adapter.enqueue(job)
      assert_equal(0, count)
    end
    assert_equal({ "first" => "it's" }, row(job, "payload->'arguments'->>0 AS first"))
  ensure
    record&.remove_connection
  end
end
