# frozen_string_literal: true

require_relative "helper"

# Tests the outcome of an attempt, without a server.
class OutcomeTest < Minitest::Test
  def test_delays_that_cannot_be_sent_are_errors_of_the_handler
    [:soon, Time.now, Date.today, 1.hour.from_now, [5], Object.new].each do |delay|
      assert_match(/\Adelay must be /, assert_raises(ArgumentError) { Jobq::Snooze.new(delay) }.message)
      assert_match(/\Aretry_in must be /, assert_raises(ArgumentError) { Jobq::Fail.new("no", retry_in: delay) }.message)
    end
    delays = [0, 1.5, "1 h", 1.hour, Rational(3, 2), nil]
    assert_equal(delays, delays.map { |delay| Jobq::Snooze.new(delay).delay })
    assert_equal(delays, delays.map { |delay| Jobq::Fail.new("no", retry_in: delay).retry_in })
  end

  class Hushed < StandardError
    def message
      raise NotImplementedError, "no message"
    end
  end

  class Answered < StandardError
    def result
      "of another kind"
    end
  end

  def test_an_error_with_a_broken_message_still_fails_its_job
    { ArgumentError.new("no") => "ArgumentError: no", ArgumentError.new("bad \xff\0") => "ArgumentError: bad ?\\0",
      ArgumentError.new("") => "ArgumentError",
      ArgumentError.new("d\u00e9j\u00e0 vu".encode("UTF-16LE")) => "ArgumentError: d\u00e9j\u00e0 vu", Hushed.new => "OutcomeTest::Hushed",
      Answered.new("no") => "OutcomeTest::Answered: no" }.each do |error, text|
      outcome = Jobq::Outcome.of_error(error, nil, nil)
      assert_equal([:fail, text], [outcome.what, outcome.text])
    end
    assert_equal("no", Jobq::Outcome.of_error(Jobq::Fail.new("no".encode("UTF-16BE")), nil, nil).text)
  end

  def test_whether_to_retry_is_true_or_false
    ["no", nil, 0].each do |again|
      assert_match(/\Aretry must be /, assert_raises(ArgumentError) { Jobq::Fail.new("no", retry: again) }.message)
    end
    assert_equal([true, false], [Jobq::Fail.new("no"), Jobq::Fail.new("no", retry: false)].map(&:retry))
  end
end
