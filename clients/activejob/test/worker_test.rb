# frozen_string_literal: true

require_relative "helper"

# The worker without ActiveJob: what no scenario looks at.
class WorkerTest < JobqTest
  def work(handlers, **options)
    @said = StringIO.new
    @worker = Jobq::Worker.new(handlers: handlers, queue: @queue, logger: Logger.new(@said), **options)
    @worker.start
  end

  def enqueue(kind, max_attempts = 1)
    ask("SELECT jobq_enqueue($1::text, kind => $2::text, max_attempts => $3::int)", @queue, kind, max_attempts)
  end

  def becomes_status(expected, id)
    becomes(expected, "SELECT status FROM jobq.jobs WHERE id = $1::bigint", id)
  end

  def error(id)
    ask("SELECT error FROM jobq.jobs WHERE id = $1::bigint", id)
  end

  def test_a_report_that_cannot_be_sent_fails_its_job_alone
    delay = Object.new
    delay.define_singleton_method(:to_f) { raise TypeError, "no number after all" }
    work({ "snooze" => ->(_job) { raise Jobq::Snooze, delay }, "soon" => ->(_job) { raise Jobq::Fail.new("x", retry_in: :soon) },
           "echo" => ->(job) { job.id } })
    { "snooze" => "TypeError: no number after all", "soon" => /\AArgumentError: retry_in must be / }.each do |kind, says|
      id = enqueue(kind)
      becomes_status("failed", id)
      assert_match(says, error(id))
    end
    becomes_status("completed", enqueue("echo"))
  end

  class Unspeakable < StandardError
    def message
      raise "no words"
    end
  end

  def test_an_error_that_cannot_be_described_fails_its_job
    work({ "hush" => ->(_job) { raise Unspeakable }, "wide" => ->(_job) { raise "wide".encode("UTF-16LE") } })
    { "hush" => "WorkerTest::Unspeakable", "wide" => "RuntimeError: wide" }.each do |kind, says|
      id = enqueue(kind)
      becomes_status("failed", id)
      assert_equal(says, error(id))
    end
  end
end
