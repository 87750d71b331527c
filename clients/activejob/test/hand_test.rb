# frozen_string_literal: true

require_relative "helper"

# Who does what next, without a server.
class HandTest < Minitest::Test
  def setup
    @hand = Jobq::Hand.new(Jobq::Options.new(slots: 2, heartbeat_interval: 0.01))
  end

  def claimed(*leases)
    leases.map do |lease|
      row = { "queue" => "q", "kind" => "k", "run_at" => "1.5", "created_at" => "1.5", "heartbeat_seconds" => "20" }
      Jobq::Job::NUMBERS.each { |name| row[name] = lease.to_s }
      Jobq::Job.new(row, nil, nil) { @hand.progressed }.tap { |job| assert(@hand.claimed(job)) }
    end
  end

  def test_nobody_heartbeats_what_the_server_is_told_already
    first, second = claimed(1, 2)
    first.ended = :verify
    first.set_progress(1)
    assert_equal([second], @hand.next_beat.jobs)
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
