# frozen_string_literal: true

require_relative "helper"

# Tests the details of errors and the error hook, without a server.
class FailuresTest < Minitest::Test
  Job = Struct.new(:id) do
    def to_s
      "job #{id}"
    end
  end

  def raised(message = "no")
    raise ArgumentError, message
  rescue ArgumentError => e
    e
  end

  def ended(outcome = Jobq::Outcome.of_error(raised, nil, nil), **options)
    @said = StringIO.new
    Jobq::Failures.new(Logger.new(@said), **options).ended(Job.new(7), outcome)
  end

  def details(...)
    JSON.parse(ended(...).details)
  end

  def test_details_are_the_class_and_the_stack_trace_with_its_causes
    outer = begin
      begin
        raise IOError, "network"
      rescue IOError
        raise ArgumentError, "no"
      end
    rescue ArgumentError => e
      e
    end
    found = details(Jobq::Outcome.of_error(outer, nil, nil))
    assert_equal("ArgumentError", found["class"])
    assert_match(/\AArgumentError: no\n    .*failures_test.rb.*^Caused by: IOError: network\n    .*failures_test.rb/m, found["stack"])
    assert_nil(ended(error_details: false).details)
  end

  def test_only_failed_attempts_have_details_and_call_the_hook
    seen = []
    on_error = ->(error, job) { seen << [error.message, job.id] }
    [Jobq::Outcome.of_return(1, nil), Jobq::Outcome.of_error(Jobq::Release.new, nil, nil), Jobq::Outcome.of_error(Jobq::Snooze.new(1), nil, nil),
     Jobq::Outcome.of_error(Jobq::Cancelled.new, :cancel, nil), Jobq::Outcome.of_error(raised, :lost, nil)].each do |outcome|
      assert_nil(ended(outcome, on_error: on_error).details)
    end
    assert_empty(seen)
    ended(Jobq::Outcome.of_error(Jobq::Fail.new("fail"), nil, nil), on_error: on_error)
    assert(ended(Jobq::Outcome.of_error(raised, nil, :verify), on_error: on_error).details)
    assert_equal([["fail", 7], ["no", 7]], seen)
  end

  def test_a_filter_changes_or_removes_the_details
    found = details(Jobq::Outcome.of_error(raised("hunter2"), nil, nil), error_details: lambda { |given|
      given.merge("stack" => given["stack"].sub("hunter2", "***"), "host" => "web-1")
    })
    assert_match(/\AArgumentError: \*\*\*\n/, found["stack"])
    assert_equal("web-1", found["host"])
    assert_nil(ended(error_details: ->(_) {}).details)
  end

  def test_an_error_in_the_filter_or_the_hook_does_not_change_the_report
    [->(_) { raise NotImplementedError, "broken" }, ->(_) { "text" }, ->(_) { { "a" => Float::NAN } }, ->(_) { { "a" => [0] * 9000 } }].each do |filter|
      outcome = ended(error_details: filter)
      assert_equal([:fail, "ArgumentError: no", nil], [outcome.what, outcome.text, outcome.details])
      assert_match(/job 7: error_details has failed: /, @said.string)
    end
    assert(ended(on_error: ->(_, _) { exit }).details)
    assert_match(/job 7: on_error has failed: SystemExit/, @said.string)
  end

  def test_details_are_bounded
    ["x", "\n", "\x01", "\u20ac", "\u{1f600}", "\0", "\xff", '"'].each do |character|
      text = Jobq::Failures.bounded("class" => character * 100_000, "stack" => "begins#{character * 100_000}ends")
      assert_operator(text.bytesize, :<=, 16_384)
      assert_match(/\Abegins.*\n\.\.\. \d+ characters left out \.\.\.\n.*ends\z/m, JSON.parse(text)["stack"])
    end
    assert_equal("x" * 12_288, JSON.parse(Jobq::Failures.bounded("stack" => "x" * 12_288))["stack"])
  end

  def test_wrong_options_are_rejected
    { error_details: "yes", on_error: 1 }.each do |name, value|
      assert_match(/"#{name}" must be/, assert_raises(Jobq::OptionError) { ended(name => value) }.message)
    end
  end
end
