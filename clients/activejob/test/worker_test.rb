# frozen_string_literal: true

require_relative "helper"

# Tests behavior of the worker without ActiveJob that no scenario covers.
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

  def test_a_worker_serves_several_queues_and_a_free_slot_ends_its_wait
    other = "#{@queue} other"
    go_on = Queue.new
    @worker = Jobq::Worker.new(handlers: { "x" => ->(_job) { go_on.pop }, "y" => ->(job) { job.queue } }, queues: { @queue => 1, other => 1 },
                               queue_order: "random", logger: Logger.new(StringIO.new), wait_timeout: 3600)
    @worker.start
    held = enqueue("x")
    becomes_status("processing", held)
    becomes_status("completed", ask("SELECT jobq_enqueue($1::text, kind => 'y')", other))
    waiting = enqueue("y")
    becomes("1", "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'CALL jobq_wait_any' AND state = 'active' AND application_name LIKE $1::text || '%'",
            "jobq #{@queue},")
    assert_equal("pending", ask("SELECT status FROM jobq.jobs WHERE id = $1::bigint", waiting))
    go_on << nil
    becomes_status("completed", waiting)
  ensure
    ask("SELECT jobq_drop_queue($1::text, force => true)", other)
  end

  def test_a_worker_serves_queues_that_match_a_pattern
    go_on = Queue.new
    names = ["customer a", "customer b", "mail"].map { |name| "#{@queue} #{name}" }
    prefix = @queue.gsub(/[_%\\]/) { |sign| "\\#{sign}" }
    @worker = Jobq::Worker.new(handlers: { "x" => ->(_job) { go_on.pop } }, patterns: { "#{prefix} customer%" => 1, "#{prefix} %" => 2 },
                               slots: 4, logger: Logger.new(StringIO.new))
    @worker.start
    becomes("1", "SELECT count(*) FROM jobq_workers() WHERE info->'patterns'->>1 = $1::text", "#{prefix} %")
    running = "SELECT count(*) FROM jobq.jobs WHERE queue = $1::text AND status = 'processing'"
    # The queues do not exist before the worker has started.
    names.zip(%w[1 1 2]) do |name, most|
      ask("SELECT count(*) FROM jobq_enqueue_many($1::text, '{1,2,3}', kind => 'x')", name)
      becomes(most, running, name)
    end
    assert_equal(%w[1 1], names.first(2).map { |name| ask(running, name) })
    9.times { go_on << nil }
    becomes("9", "SELECT count(*) FROM jobq.jobs WHERE queue LIKE $1::text AND status = 'completed'", "#{prefix} %")
  ensure
    names.each { |name| ask("SELECT jobq_drop_queue($1::text, force => true)", name) }
  end

  def error(id)
    ask("SELECT error FROM jobq.jobs WHERE id = $1::bigint", id)
  end

  def test_a_report_that_cannot_be_sent_fails_only_its_own_job
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

  def test_the_server_shows_the_worker_until_it_stops
    shown = "SELECT concat_ws(' ', kinds, slots, client, state, running) FROM jobq_workers() WHERE queues = ARRAY[$1::text]"
    gate = Queue.new
    work({ "y" => ->(_job) { gate.pop }, "x" => ->(_job) {} }, slots: 2)
    told = "{x,y} 2 jobq-activejob #{Jobq::VERSION}"
    becomes("#{told} waiting 0", shown, @queue)
    ["waiting 1", "busy 2"].each do |state|
      enqueue("y")
      becomes("#{told} #{state}", shown, @queue)
    end
    2.times { gate << nil }
    becomes("#{told} waiting 0", shown, @queue)
    @worker.stop
    becomes(nil, shown, @queue)
  end

  def test_details_of_an_error_are_stored_or_left_out_if_the_server_rejects_them
    seen = []
    work({ "fails" => ->(_job) { raise IOError, "no address" } }, on_error: ->(error, job) { seen << [error.message, job.id] },
                                                                  error_details: ->(details) { details.merge("ids" => [seen.empty? ? "a" : "\0"]) })
    stored, left_out = Array.new(2) { enqueue("fails").tap { |id| becomes_status("failed", id) } }
    assert_equal([["no address", Integer(stored)], ["no address", Integer(left_out)]], seen)
    found = JSON.parse(ask("SELECT details FROM jobq.attempts WHERE job_id = $1::bigint", stored))
    assert_equal(["IOError", ["a"]], found.values_at("class", "ids"))
    assert_match(/\AIOError: no address\n    .*worker_test.rb/, found["stack"])
    assert_equal("IOError: no address", error(left_out))
    assert_nil(ask("SELECT details FROM jobq.attempts WHERE job_id = $1::bigint", left_out))
  end

  def beats_on(id)
    becomes_status("processing", id)
    3.times do
      heard = ask("SELECT last_heartbeat FROM jobq.jobs WHERE id = $1::bigint", id)
      becomes("t", "SELECT last_heartbeat > $2::timestamptz FROM jobq.jobs WHERE id = $1::bigint", id, heard)
    end
  end

  # Returns a handler that completes its job in a transaction, and returns while the transaction is open.
  def leaving(left)
    lambda do |job|
      other = Jobq::Connection.new({}, "left")
      other.rows("BEGIN")
      job.ended = :verify
      other.rows(*job.completion)
      left << other
    end
  end

  def test_a_transaction_that_the_handler_leaves_open_does_not_delay_other_heartbeats
    left, gate = Queue.new, Queue.new
    work({ "leaves" => leaving(left), "waits" => ->(_job) { gate.pop }, "quick" => ->(_job) {} }, slots: 3, heartbeat_interval: 0.1)
    leaves, waits = enqueue("leaves"), enqueue("waits")
    other = Timeout.timeout(LIMIT) { left.pop }
    Timeout.timeout(LIMIT) { sleep(0.02) until @said.string.scan("collide").size >= 2 }
    beats_on(waits)
    becomes_status("completed", enqueue("quick"))   # the blocked heartbeat must not delay a report either
    becomes_status("processing", leaves)
    other.rows("COMMIT")
    gate << nil
    [leaves, waits].each { |id| becomes_status("completed", id) }
  ensure
    gate << nil
    other&.close
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
