# frozen_string_literal: true

require_relative "helper"

# Tests whether a worker waits or polls, without a server.
class PaceTest < Minitest::Test
  Clock = Struct.new(:now, :interval_in_hand)

  def setup
    @said = StringIO.new
    @clock = Clock.new(0.0, 20.0)
    @pace = Jobq::Pace.new(Jobq::Options.new, @clock, Logger.new(@said))
    @pace.pooled = true
  end

  def polls_after(took)
    @pace.answered(took)
    !@pace.longest_poll.nil?
  end

  def test_a_late_answer_makes_it_poll_for_one_to_two_minutes
    refute(polls_after(0.9))
    assert(polls_after(1.1))
    @clock.now = 59.0
    assert_equal(1.0, @pace.longest_poll)
    @clock.now = 121.0
    assert_nil(@pace.longest_poll)
  end

  def test_an_answer_is_late_after_a_quarter_of_the_interval
    { 1.6 => 0.4, 0.1 => 0.25, 60.0 => 1.0, nil => 1.0 }.each do |interval, limit|
      setup
      @clock.interval_in_hand = interval
      refute(polls_after(limit), interval.inspect)
      assert(polls_after(limit + 0.01), interval.inspect)
    end
  end

  def test_without_a_pooler_it_waits
    @pace.pooled = false
    refute(polls_after(100))
  end

  def test_it_warns_once
    2.times do
      polls_after(2)
      @clock.now += 121
      @pace.longest_poll
    end
    assert_equal([1, 1, 2], [/WARN.*pool/, /INFO.*polling instead/, /INFO.*waiting instead/].map { |line| @said.string.scan(line).size })
  end
end
