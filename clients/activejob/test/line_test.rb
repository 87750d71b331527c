# frozen_string_literal: true

require_relative "helper"

# Tests a connection that is opened again after it breaks.
class LineTest < JobqTest
  # Records rests instead of sleeping.
  RestlessHand = Struct.new(:rests) do
    def stopping?
      false
    end

    def now
      0
    end

    def expect(_thread, _seconds); end

    def rest(seconds)
      rests << seconds
    end
  end

  def line(given = {})
    @hand = RestlessHand.new([])
    options, log = Jobq::Options.new, Logger.new(File::NULL)
    Jobq::Line.new("claims", options, given, @hand, log, Jobq::Pace.new(options, @hand, log))
  end

  def test_pauses_double_until_a_statement_succeeds
    line = line()
    8.times do   # like a standby, which accepts connections but rejects the statements
      line.reconnect
      line.close
    end
    assert_includes(2.5..5, @hand.rests.last, @hand.rests)
    line.rows("SELECT")
    line.reconnect
    assert_operator(@hand.rests.last, :<=, 0.1)
  ensure
    line.close
  end

  def test_a_parameters_function_that_fails_is_called_again
    answers = [-> { {} }, -> { raise IOError, "the keeper of passwords is away" }, -> { {} }]
    line = line(-> { answers.shift.call })
    line.open
    line.close
    assert_raises(Jobq::Broken) { line.open }
    assert_equal([{ "one" => "1" }], line.rows("SELECT 1 AS one"))
  ensure
    line.close
  end
end
