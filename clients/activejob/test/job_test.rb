# frozen_string_literal: true

require_relative "helper"

# Tests how a job uses the connection that it borrows, without a server.
class JobTest < Minitest::Test
  # Fails at the statement or at the commit. broken: the server does not answer.
  Own = Struct.new(:fails_at, :broken) do
    def transaction
      yield(self).tap { fail_at(:commit) }
    end

    def rows(*)
      fail_at(:statement)
      []
    end

    def fail_at(place)
      raise(broken ? PG::Error.new("no") : Refusal.new("57014")) if fails_at == place
    end
  end

  Lending = Struct.new(:take) do
    def give(_connection); end
  end

  def job(own)
    row = { "queue" => "q", "kind" => "k", "run_at" => "1.5", "created_at" => "1.5", "heartbeat_seconds" => "20" }
    Jobq::Job::NUMBERS.each { |name| row[name] = "1" }
    Jobq::Job.new(row, Lending.new(own), nil)
  end

  def test_a_completion_whose_answer_is_lost_is_checked
    [[:commit, true, :verify], [:statement, true, :verify], [:commit, false, nil], [:statement, false, nil]].each do |at, broken, ended|
      failing = job(Own.new(at, broken))
      assert_raises(PG::Error) { failing.completing { 1 } }
      assert_equal([at, broken, ended], [at, broken, failing.ended])
    end
    done = job(Own.new)
    assert_equal(1, done.completing { 1 })
    assert_equal(:completed, done.ended)
  end

  def test_an_error_before_the_completion_is_a_failed_attempt
    failing = job(Own.new(nil, true))
    assert_raises(PG::Error) { failing.completing { |own| own.fail_at(nil) } }
    assert_equal([nil], [failing.ended])
  end
end
