# frozen_string_literal: true

require_relative "helper"

# What the threads of a worker do next, without a server.
class CoreTest < Minitest::Test
  Result = Struct.new(:sqlstate) do
    def error_field(_field)
      sqlstate
    end
  end

  # As the server's, of which there is none here.
  class Refusal < PG::Error
    attr_reader :result

    def initialize(sqlstate)
      super(sqlstate)
      @result = Result.new(sqlstate)
    end
  end

  def setup
    @said = StringIO.new
    @core = Jobq::Core.new(Jobq::Options.new(slots: 2), ["x"], {}, Logger.new(@said), begin_job: nil, run_job: nil, when_over: -> {})
    @hand = @core.hand
  end

  # What the connection for claims or beats answers; the block may raise. All that is asked of it.
  def answers(line, &answer)
    asked = []
    @core.instance_variable_get("@#{line}").tap do |fake|
      fake.define_singleton_method(:open) { nil }
      fake.define_singleton_method(:rows) do |statement, *values|
        asked << [statement, *values]
        answer.call(statement, *values)
      end
    end
    asked
  end

  def test_claims_pause_while_they_collide_and_go_on
    rests = []
    @hand.define_singleton_method(:rest) { |seconds| rests << seconds }
    asked = answers("claims") do
      raise Refusal, "40001" if asked.size <= 8

      @hand.stop
      []
    end
    @core.send(:claim_until_stopped)
    assert_equal(9, asked.size)
    assert_operator(rests.first, :<=, 0.1)
    assert_includes(2.5..5.0, rests.last, rests)
    assert_equal(8, rests.size)
  end
end
