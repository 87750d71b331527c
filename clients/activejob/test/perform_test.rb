# frozen_string_literal: true

require_relative "helper"

class Recording < ActiveJob::Base
  self.abstract_class = true if respond_to?(:abstract_class=)

  def note(name)
    Effect.create!(job: job_id, name: name.to_s)
  end
end

class EffectJob < Recording
  def perform(name)
    note("#{name} #{executions} #{provider_job_id}")
  end
end

class RetriedJob < Recording
  class Busy < StandardError; end
  jobq max_attempts: 3
  retry_on Busy, wait: 1.hour, attempts: 3

  def perform(errors)
    note(executions)
    error = errors[executions - 1]
    raise error.constantize, "at #{executions}" if error
  end
end

class UniqueJob < RetriedJob
  jobq unique_key: "one"
end

class KeptKeyJob < RetriedJob
  jobq unique_key: "one", unique_for: 1.hour
end

class DiscardedJob < Recording
  discard_on ZeroDivisionError
  def perform
    1 / 0
  end
end

class ExactJob < Recording
  include Jobq::ActiveJob::Transactional
  rescue_from(ZeroDivisionError) do |_error|
    note("rescued after #{Effect.where(job: job_id).count} with #{self.class.connection_open?}")
    retry_job if executions == 1
  end

  def self.connection_open?
    ActiveRecord::Base.connection.transaction_open?
  end

  def perform(what)
    note("written")
    case what
    when "steal" then Effect.connection.execute("SELECT 1") && Thief.steal(jobq_job.id)
    when "divide" then 1 / 0 if executions == 1
    when "rollback" then raise ActiveRecord::Rollback
    when "retry" then retry_job(wait: 1.hour) if executions == 1
    end
  end
end

# In the given number of executions, collides in its transaction (see the trigger in the test), either in a statement or at the
# commit.
class CollidingJob < Recording
  jobq max_attempts: 1

  class << self
    attr_accessor :calls
  end

  def perform(times, moment)
    call = self.class.calls += 1
    ActiveRecord::Base.transaction do
      Effect.connection.execute("SET CONSTRAINTS ALL IMMEDIATE") if moment == "statement"
      note(call > times ? "done" : "collides #{call.odd? ? '40001' : '40P01'}")
    end
  end
end

class CollidingExactJob < CollidingJob
  include Jobq::ActiveJob::Transactional
end

class RegretJob < Recording
  def perform
    return note("done") unless executions == 1

    ActiveRecord::Base.transaction do
      note("begun")
      retry_job(wait: 1.hour)
      raise ActiveRecord::Rollback
    end
  end
end

class PatientJob < Recording
  def perform
    note("started")
    jobq_job.set_progress({ "percent" => 50 })
    loop { jobq_job.pause(0.05) }
  end
end

class LoggingJob < Recording
  include Jobq::ActiveJob::Transactional

  def perform(ending)
    jobq_job.log("one")
    jobq_job.log("two", :warning)
    raise "no" if ending == "fails"
  end
end

module Thief
  # Ends the lease and claims the job for another worker.
  def self.steal(id)
    other = Jobq::Connection.new({}, "thief")
    other.rows("UPDATE jobq.jobs SET status = 'pending' WHERE id = $1::bigint", id.to_s)
    other.rows("SELECT id FROM jobq_claim((SELECT queue FROM jobq.jobs WHERE id = $1::bigint), 'thief', heartbeat_timeout => '1 day')",
               id.to_s)
  ensure
    other&.close
  end
end

class PerformTest < JobqTest
  def effects
    Effect.uncached { Effect.order(:name).pluck(:name) }
  end

  def test_a_job_is_performed_and_knows_its_id
    job = later(EffectJob, "a")
    work
    finish(job)
    assert_equal(["a 1 #{job.provider_job_id}"], effects)
  end

  def test_jobs_that_sql_enqueues_are_performed
    id = ask("SELECT jobq_enqueue($1::text, $2::jsonb, kind => 'EffectJob')", @queue, '{"arguments": ["from SQL"]}')
    work
    becomes("completed", "SELECT status FROM jobq.jobs WHERE id = $1::bigint", id)
    assert_equal(["from SQL 1 #{id}"], effects)
  end

  def test_a_payload_chooses_neither_the_class_nor_the_queue
    id = ask("SELECT jobq_enqueue($1::text, $2::jsonb, kind => 'RetriedJob')", @queue,
             { arguments: [["RetriedJob::Busy"]], job_class: "EffectJob", queue_name: "other" }.to_json)
    work
    becomes("completed", "SELECT status FROM jobq.jobs WHERE id = $1::bigint", id)
    finish_all(%w[completed completed])
    assert_equal(%w[1 2], effects)
  end

  def test_times_do_not_depend_on_the_datestyle
    seen = Queue.new
    ask("SELECT jobq_enqueue($1::text, kind => 'seen', run_at => $2::timestamptz)", @queue, "2020-12-05 10:00:00.000001+00")
    @worker = Jobq::Worker.new(handlers: { "seen" => ->(job) { seen << job.run_at } }, queue: @queue, logger: Logger.new(File::NULL),
                               connection: { options: "-c datestyle=SQL,DMY -c timezone=Asia/Kolkata" })
    @worker.start
    assert_equal("2020-12-05T10:00:00.000001Z", Timeout.timeout(LIMIT) { seen.pop }.utc.iso8601(6))
  end

  def test_jobs_of_other_kinds_are_not_claimed
    ask("SELECT jobq_enqueue($1::text, kind => 'NoSuchJob')", @queue)
    job = later(EffectJob, "a")
    work
    finish(job)
    assert_equal(%w[pending completed], statuses)
  end

  def test_retry_on_replaces_the_job_and_keeps_counting
    later(RetriedJob, %w[RetriedJob::Busy RetriedJob::Busy])
    work
    finish_all(%w[completed completed completed])
    assert_equal(%w[1 2 3], effects)
    assert_equal(%w[1 1 1], jobs.map { |job| job["attempts"] })
  end

  def test_other_errors_are_attempts_and_are_counted
    job = later(RetriedJob, %w[ArgumentError RetriedJob::Busy])
    work
    finish_all(%w[completed completed])
    assert_equal(%w[1 2 3], effects)
    assert_equal(%w[2 1], jobs.map { |one| one["attempts"] })
    assert_equal("ArgumentError: at 1", ask("SELECT error FROM jobq.attempts WHERE job_id = $1::bigint", job.provider_job_id))
  end

  def test_a_job_that_retry_on_gives_up_fails
    later(RetriedJob, ["RetriedJob::Busy"] * 9)
    work
    finish_all(%w[completed completed failed])
    assert_equal(%w[1 2 3 4 5], effects)
    assert_equal("RetriedJob::Busy: at 5", jobs.last["error"])
  end

  def test_a_retry_keeps_its_unique_key
    later(UniqueJob, %w[RetriedJob::Busy])
    work
    becomes("1", "SELECT count(*) FROM jobq.jobs WHERE queue = $1::text AND status = 'scheduled' AND unique_key = 'one'", @queue)
    assert(later(UniqueJob, []).jobq_duplicate?)
    finish_all(%w[completed completed])
    assert_equal(%w[1 2], effects)
  end

  def test_a_retry_does_not_conflict_with_the_key_of_its_own_job
    later(KeptKeyJob, %w[RetriedJob::Busy])
    work
    becomes("1", "SELECT count(*) FROM jobq.jobs WHERE queue = $1::text AND status = 'scheduled'", @queue)
    assert(later(KeptKeyJob, []).jobq_duplicate?)
    finish_all(%w[completed completed])
    assert_equal(%w[1 2], effects)
  end

  def test_discard_on_completes
    job = later(DiscardedJob)
    work
    finish(job)
    assert_equal(1, count)
  end

  def test_an_error_rolls_back_before_rescue_from_sees_it
    later(ExactJob, "divide")
    work
    finish_all(%w[completed completed])
    assert_equal(["rescued after 0 with false", "written"], effects)
  end

  def test_an_effect_and_the_completion_commit_together
    job = later(ExactJob, "go")
    work
    finish(job)
    assert_equal(["written"], effects)
    same = ask("SELECT e.xmin = j.xmin FROM effects e, jobq.jobs j WHERE j.id = $1::bigint", job.provider_job_id)
    assert_equal("t", same)
  end

  def test_a_lost_lease_rolls_back_the_effect
    job = later(ExactJob, "steal")
    work
    after = later(EffectJob, "after")
    finish(after)
    assert_equal(["after 1 #{after.provider_job_id}"], effects)
    assert_equal("thief", ask("SELECT worker_id FROM jobq.jobs WHERE id = $1::bigint", job.provider_job_id))
    assert_match(/job #{job.provider_job_id} of kind "ExactJob", attempt 1: the lease is lost/, @said.string)
  end

  def test_a_job_whose_transaction_collides_is_released_without_counting_the_attempt
    @server.raw.exec(<<~SQL)
      CREATE FUNCTION collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE 'in the way' USING ERRCODE = split_part(NEW.name, ' ', 2);
      END $$;
      CREATE CONSTRAINT TRIGGER collide AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.name LIKE 'collides%') EXECUTE FUNCTION collide();
    SQL
    work
    [CollidingJob, CollidingExactJob].product(%w[statement commit], [[4, "completed", 5, ["done"]], [1000, "failed", 11, []]])
                                     .each do |job_class, moment, (times, status, calls, written)|
      job_class.calls = 0
      Effect.delete_all
      job = later(job_class, times, moment)
      finish(job, status)
      attempts = ask("SELECT attempts FROM jobq.jobs WHERE id = $1::bigint", job.provider_job_id)
      assert_equal(["1", calls, written], [attempts, job_class.calls, effects], "#{job_class} #{moment} #{status}")
    end
    assert_equal([56, 4], [/its transaction collided/, /has failed/].map { |words| @said.string.lines.grep(words).size }, @said.string)
  ensure
    @server.raw.exec("DROP FUNCTION IF EXISTS collide CASCADE")
  end

  def test_a_rollback_in_perform_fails_the_attempt
    job = later(ExactJob, "rollback", jobq: { max_attempts: 1 })
    work
    finish(job, "failed")
    assert_equal([], effects)
    assert_equal("perform was rolled back", jobs.first["error"])
  end

  def test_a_retry_within_the_transaction_commits_with_it
    later(ExactJob, "retry")
    work
    finish_all(%w[completed completed])
    assert_equal(%w[written written], effects)
    assert_empty(@said.string.lines.grep(/lost|failed/))
  end

  def test_a_retry_that_was_rolled_back_is_a_failed_attempt
    later(RegretJob)
    work
    finish_all(%w[completed])
    assert_equal(["done"], effects)
    assert_equal("2", jobs.first["attempts"])
  end

  def test_a_job_learns_of_its_cancellation_and_reports_progress
    job = later(PatientJob)
    work(heartbeat_interval: 0.2)
    becomes('{"percent": 50}', "SELECT progress FROM jobq.jobs WHERE id = $1::bigint", job.provider_job_id)
    ask("SELECT jobq_cancel($1::bigint)", job.provider_job_id)
    finish(job, "cancelled")
  end

  LINES = "SELECT string_agg(line, ' ' ORDER BY number) FROM jobq.log_lines WHERE job_id = $1::bigint AND NOT late"

  def test_log_lines_arrive_in_order_and_before_the_end
    completed, failed = later(LoggingJob, "completes"), later(LoggingJob, "fails")
    work
    finish(completed, "completed")
    finish(failed, "scheduled")   # the next attempt is due after a pause
    [completed, failed].each { |job| becomes("one two", LINES, job.provider_job_id) }
  end

  def test_a_rejected_line_does_not_fail_the_job
    job = later(LoggingJob, "completes")
    ask("ALTER TABLE jobq.log_lines ADD CONSTRAINT nothing CHECK (job_id <> #{Integer(job.provider_job_id)})")
    work
    finish(job, "completed")
    becomes(nil, LINES, job.provider_job_id)
  ensure
    ask("ALTER TABLE jobq.log_lines DROP CONSTRAINT nothing")
  end

  def test_without_a_worker_a_transactional_job_has_a_transaction
    ExactJob.perform_now("rollback")
    assert_equal([], effects)
    ExactJob.perform_now("go")
    assert_equal(["written"], effects)
  end
end
