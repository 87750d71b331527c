# frozen_string_literal: true

require_relative "helper"

# Tests the next task of each thread, without a server.
class HandTest < Minitest::Test
  def setup
    @hand = Jobq::Hand.new(Jobq::Options.new(slots: 2, heartbeat_interval: 0.01))
  end

  def claimed(*leases)
    leases.map do |lease|
      row = { "queue" => "q", "kind" => "k", "run_at" => "1.5", "created_at" => "1.5", "heartbeat_seconds" => "20" }
      Jobq::Job::NUMBERS.each { |name| row[name] = lease.to_s }
      Jobq::Job.new(row, nil, nil).tap { |job| assert(@hand.claimed(job)) }
    end
  end

  def test_wrong_slots_and_patterns_are_rejected
    wrong = lambda do |message, **options|
      assert_equal(message, assert_raises(Jobq::OptionError) { Jobq::Options.new(**options) }.message)
    end
    %i[queues patterns].each do |name|
      [0, 1001, 0.5, "3", nil].each do |slots|
        wrong.call("option \"#{name}\" must have an integer from 1 to 1000 as the slots of \"b\"; it has #{slots.inspect}",
                   name => { "a" => 1, "b" => slots })
      end
    end
    ["x\\", "\\", "a\\\\\\"].each do |pattern|
      [["a%", pattern], { pattern => 1 }].each do |patterns|
        wrong.call("option \"patterns\" must not have a pattern that ends with a single backslash; it has #{pattern.inspect}", patterns: patterns)
      end
    end
    assert(Jobq::Options.new(patterns: ["a\\\\", "\\%\n"], queues: ["x\\"]))
  end

  def test_a_job_whose_report_is_being_sent_gets_no_heartbeat
    first, second = claimed(1, 2)
    first.ended = :verify
    [first, second].each { |job| job.set_progress(1) }
    beat = @hand.next_beat
    beat = @hand.next_beat while beat.jobs.empty?
    assert_equal([[second], [second]], [beat.jobs, beat.progress])
  end

  def test_a_committing_step_gets_no_heartbeat_until_the_commit_and_an_overdue_one_after_it
    clock = 100.0
    hand = @hand = Jobq::Hand.new(Jobq::Options.new(slots: 2))
    hand.define_singleton_method(:now) { clock }
    first, second = claimed(1, 2)
    first.set_progress(1)
    meanwhile = nil
    own = Object.new
    own.define_singleton_method(:rows) { |*| [{ "state" => "run", "result" => "17" }] }
    own.define_singleton_method(:transaction) do |&block|
      block.call(own).tap do
        clock += 20
        meanwhile = hand.next_beat
      end
    end
    first.instance_variable_set(:@connections, Struct.new(:take) { def give(_connection); end }.new(own))
    assert_equal(17, first.step("charge") { 17 })
    assert_equal([[second], []], [meanwhile.jobs, meanwhile.progress])
    assert_equal([first, second], hand.next_beat.jobs)
  end

  def test_each_queue_has_its_own_slots
    @hand = Jobq::Hand.new(Jobq::Options.new(queues: { "q" => 2, "other" => 1 }))
    assert_equal([[], 3], @hand.next_claim)
    first, second = claimed(1, 2)
    assert_equal([[], 1], @hand.next_claim)
    assert_equal({ "other" => 1 }, @hand.rooms(waits: true))
    # The wait does not include the queue of the job that ends.
    @hand.ended(first, Jobq::Outcome.of(:fail, "no"))
    assert(@hand.next_beat.wake)
    assert_equal({ "q" => 1, "other" => 1 }, @hand.rooms(waits: true))
    @hand.ended(second, Jobq::Outcome.of(:fail, "no"))
    refute(@hand.next_beat.wake)
  end

  def test_each_queue_of_a_pattern_has_its_own_slots
    @hand = Jobq::Hand.new(Jobq::Options.new(queues: { "other" => 1 }, patterns: { "q%" => 1, "%" => 2 }, slots: 3))
    assert_equal([[], 3], @hand.next_claim)
    first, = claimed(1)
    assert_equal([[], 2], @hand.next_claim)
    # The full queue is passed without slots, because the pattern would select it.
    assert_equal({ "other" => 1, "q" => 0 }, @hand.rooms(waits: true))
    @hand.ended(first, Jobq::Outcome.of(:fail, "no"))
    assert(@hand.next_beat.wake)
    assert_equal({ "other" => 1 }, @hand.rooms(waits: true))
  end

  def test_log_lines_are_sent_with_a_heartbeat_before_the_report_and_after_the_lease_is_lost
    first, second = claimed(1, 2)
    first.log("one")
    beat = @hand.next_beat
    beat = @hand.next_beat while beat.jobs.empty?
    assert_equal([[first, second], [first]], [beat.jobs, beat.lines])
    @hand.ended(first, Jobq::Outcome.of(:complete))
    assert_equal([[], 1], @hand.next_claim)
    @hand.lost(second, "lost")
    second.log("two")
    @hand.ended(second, Jobq::Outcome.of(:nothing, "lost"))
    assert_equal([[first, :complete], [second, :nothing]], @hand.next_beat.reports.map { |report| [report.job, report.outcome.what] })
  end

  def test_a_worker_that_stops_sends_the_last_log_lines_of_a_lost_job
    clock = 100.0
    @hand.define_singleton_method(:now) { clock }
    first, = claimed(1)
    @hand.lost(first, "lost")
    first.log("last")
    @hand.stop
    @hand.no_more_claims
    @hand.next_beat   # wakes the wait
    @hand.ended(first, Jobq::Outcome.of(:nothing, "lost"))
    reports = @hand.next_beat.reports
    assert_equal([first], reports.map(&:job))
    @hand.not_reported(reports)   # the server cannot be reached
    clock += 5
    assert(@hand.next_beat.nothing?)
  end

  def test_an_attempt_that_ends_itself_waits_until_its_log_lines_are_sent
    @hand = Jobq::Hand.new(Jobq::Options.new(slots: 2))
    first, = claimed(1)
    first.log("last")
    flush = Thread.new { @hand.flush(first) }
    assert_equal([[], [first]], @hand.next_beat.then { |beat| [beat.jobs, beat.lines] })
    assert(flush.alive?)
    first.lines.take
    first.lines.sent
    @hand.progressed
    flush.join
  end

  def test_a_job_that_ends_after_its_beat_was_taken_gets_no_heartbeat
    first, second = claimed(1, 2)
    beat = @hand.next_beat
    first.begin_ending
    sent = nil
    @hand.sending(beat.jobs) { |due| sent = due }
    assert_equal([[first, second], [second]], [beat.jobs, sent])
  end

  def test_a_job_ends_only_after_its_heartbeat_was_answered
    first, = claimed(1, 2)
    ending = nil
    @hand.sending(@hand.next_beat.jobs) do
      ending = Thread.new { first.begin_ending }
      refute(ending.join(0.05))
      assert_equal(:verify, first.ended)
    end
    assert(ending.join(60))
    assert(Thread.new { first.begin_ending }.join(60))
  end

  def test_a_report_that_has_collided_is_repeated_after_a_pause_that_delays_nothing_else
    clock = 100.0
    @hand = Jobq::Hand.new(Jobq::Options.new(slots: 2))
    @hand.define_singleton_method(:now) { clock }
    first, second = claimed(1, 2)
    @hand.ended(first, Jobq::Outcome.of(:fail, "no"))
    pauses = Array.new(8) do
      @hand.collided(@hand.next_beat.reports)
      @hand.send(:wait_at_most, clock, -Float::INFINITY).tap { |pause| clock += pause + 0.001 }
    end
    assert_operator(pauses.min, :>=, 0.05)
    assert_operator(pauses.first, :<=, 0.1)
    assert_includes(0.5..1.0, pauses.last, pauses)
    @hand.collided(@hand.next_beat.reports)
    @hand.ended(second, Jobq::Outcome.of(:fail, "no"))
    assert_equal([second], @hand.next_beat.reports.map(&:job))
  end

  def test_nothing_is_claimed_while_as_many_reports_as_slots_are_outstanding
    claimed(1, 2).each { |job| @hand.ended(job, Jobq::Outcome.of(:fail, "no")) }
    claim = Thread.new { @hand.next_claim }
    reports = @hand.next_beat.reports
    assert_equal(2, reports.size)
    assert_nil(claim.join(0.05), "it claims")
    @hand.reported([reports.first.job])
    assert_equal([[], 1], claim.value)
  end
end
