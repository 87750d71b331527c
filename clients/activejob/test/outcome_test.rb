# frozen_string_literal: true

require_relative "helper"

# What becomes of an attempt, without a server.
class OutcomeTest < Minitest::Test
  def test_delays_that_cannot_be_sent_are_the_handlers_error
    [:soon, Time.now, Date.today, 1.hour.from_now, [5], Object.new].each do |delay|
      assert_match(/\Adelay must be /, assert_raises(ArgumentError) { Jobq::Snooze.new(delay) }.message)
      assert_match(/\Aretry_in must be /, assert_raises(ArgumentError) { Jobq::Fail.new("no", retry_in: delay) }.message)
    end
    delays = [0, 1.5, "1 h", 1.hour, Rational(3, 2), nil]
    assert_equal(delays, delays.map { |delay| Jobq::Snooze.new(delay).delay })
    assert_equal(delays, delays.map { |delay| Jobq::Fail.new("no", retry_in: delay).retry_in })
  end

  def test_whether_to_retry_is_true_or_false
    ["no", nil, 0].each do |again|
      assert_match(/\Aretry must be /, assert_raises(ArgumentError) { Jobq::Fail.new("no", retry: again) }.message)
    end
    assert_equal([true, false], [Jobq::Fail.new("no"), Jobq::Fail.new("no", retry: false)].map(&:retry))
  end
end
