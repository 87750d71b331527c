# frozen_string_literal: true

require_relative "helper"

# Tests the decisions of a worker's threads, without a server.
class CoreTest < Minitest::Test
  def setup
    @said = StringIO.new
    @core = Jobq::Core.new(Jobq::Options.new(slots: 2), ["x"], {}, Logger.new(@said), begin_job: nil, run_job: nil, when_over: -> {})
    @hand = @core.hand
  end

  # Replaces the statements of a connection with the block, which may raise. Returns all statements.
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

  def job(lease = 1)
    row = { "queue" => "q", "kind" => "k", "run_at" => "1.5", "created_at" => "1.5", "heartbeat_seconds" => "20" }
    Jobq::Job::NUMBERS.each { |name| row[name] = lease.to_s }
    Jobq::Job.new(row, nil, nil).tap { |made| @hand.claimed(made) }
  end

  def test_progress_that_cannot_be_sent_does_not_delay_other_heartbeats
    first, second = job(1), job(2)
    first.set_progress(1)
    asked = answers("beats") do |statement, *|
      raise Jobq::Broken if statement == Jobq::Statements::HEARTBEAT

      [{ "state" => "held" }] * 2
    end
    assert_raises(Jobq::Broken) { @core.send(:heartbeat, Jobq::Hand::Beat.new(false, [], [first, second], [first])) }
    both = Jobq::Parameters.array([1, 2])
    assert_equal([[Jobq::Statements::HEARTBEAT_MANY, both, both, @core.instance_variable_get(:@presence).now], [Jobq::Statements::HEARTBEAT, "1", "1", "1"]], asked)
    assert(first.progress_is_new?)
  end

  def test_rejected_log_lines_do_not_affect_the_report
    logged = job(1)
    logged.log("line \0", :error)
    asked = answers("beats") do |statement, *|
      raise PG::InsufficientPrivilege, "no" if statement == Jobq::Statements::WRITE_LOG

      [{ "jobq_fail" => "failed" }]
    end
    @core.send(:report_alone, Jobq::Hand::Report.new(logged, Jobq::Outcome.of(:fail, "no")))
    assert_equal([Jobq::Statements::WRITE_LOG, Jobq::Statements::FAIL], asked.map(&:first))
    assert_equal([Jobq::Parameters.array(["line \\0"]), Jobq::Parameters.array(["error"])], asked[0][3, 2])
    refute(logged.lines.pending?)
    assert_match("log lines of jobs 1 were refused", @said.string)
  end

  def test_log_lines_are_sent_again_after_the_connection_broke
    logged = job(1)
    logged.log("line")
    answers("beats") { raise Jobq::Broken }
    assert_raises(Jobq::Broken) { @core.send(:heartbeat, Jobq::Hand::Beat.new(false, [], [], [], [logged])) }
    assert_equal(["line"], logged.lines.take.map(&:text))
  end

  def test_an_older_server_gets_failures_without_details
    asked = answers("beats") do |statement, *|
      raise PG::UndefinedFunction, "function jobq_fail(...) does not exist" if statement == Jobq::Statements::FAIL

      [{ "jobq_fail" => "failed" }]
    end
    [1, 2].each { |number| @core.send(:report_alone, Jobq::Hand::Report.new(job(number), Jobq::Outcome.of(:fail, "no"))) }
    without = [Jobq::Statements::FAIL_WITHOUT_DETAILS, 5]
    assert_equal([[Jobq::Statements::FAIL, 6], without, without], asked.map { |statement, *values| [statement, values.size] })
    assert_equal(1, @said.string.scan("failures are reported without details").size)
  end

  def test_log_lines_are_bounded
    lines = Jobq::Lines.new
    (Jobq::Lines::MOST_LINES + 3).times { |n| lines.add(n, "info") }
    taken = lines.take
    assert_equal(Jobq::Lines::MOST_LINES + 1, taken.size)
    assert_match(/\Alines dropped before this point: 3 /, taken.last.text)
    assert_raises(ArgumentError) { lines.add("no", "fatal") }
    lines.add("x#{"\u20ac" * 10_000}", "info")   # a character of three bytes; the limit counts bytes
    assert_equal("x#{"\u20ac" * 2730}", lines.take.last.text)
  end

  def test_a_report_that_cannot_be_sent_does_not_delay_other_heartbeats
    report = Jobq::Hand::Report.new(job(1), Jobq::Outcome.of(:fail, "no"))
    asked = answers("beats") do |statement, *|
      raise Jobq::Broken if statement == Jobq::Statements::FAIL

      [{ "state" => "held" }]
    end
    beat = Jobq::Hand::Beat.new(false, [report], [job(2)], [])
    assert_raises(Jobq::Broken) { @core.send(:do_beat, beat) }
    assert_equal([Jobq::Statements::FAIL, Jobq::Statements::HEARTBEAT_MANY], asked.map(&:first))
    assert_equal([report], beat.reports)
  end

  def test_a_rejected_failure_stays_final
    asked = answers("beats") do |_statement, *values|
      raise Refusal, "22007" if values[3] == "soon"

      [{ "jobq_fail" => "failed" }]
    end
    outcome = Jobq::Outcome.of_error(Jobq::Fail.new("no", retry_in: "soon", retry: false), nil, nil)
    @core.send(:report_alone, Jobq::Hand::Report.new(job, outcome))
    assert_equal([Jobq::Statements::FAIL] * 3, asked.map(&:first))
    assert_equal([["soon", "false"], ["soon", "false"], [nil, "false"]], asked.map { |call| call[4, 2] })
    assert_match(/\Athe failure was refused: .*22007/, asked.last[3])
    assert_empty(@hand.in_hand)
  end

  def test_a_failure_whose_text_cannot_be_stored_keeps_its_delay
    asked = answers("beats") do |_statement, *values|
      raise Refusal, "22P05" unless values[2].ascii_only?

      [{ "jobq_fail" => "failed" }]
    end
    @core.send(:report_alone, Jobq::Hand::Report.new(job, Jobq::Outcome.of_error(Jobq::Fail.new("no \u20ac", retry_in: 60), nil, nil)))
    assert_equal([["no \u20ac", "60.000000 seconds", "true"], ["no ?", "60.000000 seconds", "true"]], asked.map { |call| call[3, 3] })
    assert_empty(@hand.in_hand)
  end

  def test_rejected_details_do_not_prevent_the_failure
    asked = answers("beats") do |_statement, *values|
      raise Refusal, values[5].ascii_only? ? "22P02" : "22P05" if values[5]

      [{ "jobq_fail" => "failed" }]
    end
    outcome = Jobq::Outcome.of(:fail, "no \u20ac", retry_in: 60)
    outcome.details = "{\"class\":\"\u20ac\"}"
    @core.send(:report_alone, Jobq::Hand::Report.new(job, outcome))
    assert_equal([["no \u20ac", "{\"class\":\"\u20ac\"}"], ["no ?", '{"class":"?"}'], ["no ?", nil]], asked.map { |call| [call[3], call[6]] })
    assert_empty(@hand.in_hand)
  end

  def test_a_failure_that_collides_is_repeated_unchanged
    asked = answers("beats") { raise Refusal, asked.size == 1 ? "22007" : "40001" }
    @core.send(:report_alone, Jobq::Hand::Report.new(job, Jobq::Outcome.of(:snooze, retry_in: "soon")))
    reports = []
    reports = @hand.next_beat.reports while reports.empty?
    assert_equal([[:fail, 1]], reports.map { |report| [report.outcome.what, report.outcome.collisions] })
  end

  def test_no_claims_without_heartbeats
    @hand.define_singleton_method(:next_beat) { |*| raise NoMemoryError, "none left" }
    @core.send(:beat_all)
    assert_instance_of(NoMemoryError, @core.error)
    assert_nil(@hand.next_claim)
    refute(@core.clean?)
  end

  def test_claims_pause_while_they_collide_and_continue
    @core.define_singleton_method(:look_for_others) {}
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
