# frozen_string_literal: true

require "open3"
require "tmpdir"
require_relative "helper"

# Tests the program jobq-activejob when it is killed and stopped.
class ProcessTest < JobqTest
  APPLICATION = File.expand_path("application.rb", __dir__)
  PROGRAM = File.expand_path("../exe/jobq-activejob", __dir__)
  LIBRARY = File.expand_path("../lib", __dir__)

  def start(environment = {}, *arguments)
    command = [RbConfig.ruby, "-I", LIBRARY, PROGRAM, "-r", APPLICATION, "-q", @queue, *arguments]
    @output = Tempfile.new("output")
    @pid = spawn(environment, *command, in: File::NULL, out: @output, err: @output)
  end

  def ends
    status = Timeout.timeout(LIMIT) { Process.wait2(@pid) }.last
    @pid = nil
    status
  end

  def teardown
    if @pid
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
    end
    super
  end

  def enqueue(kind, *arguments)
    payload = JSON.generate({ "arguments" => arguments })
    ask("SELECT jobq_enqueue($1::text, $2::jsonb, kind => $3::text)", @queue, payload, kind)
  end

  def expire
    becomes("0", <<~SQL, @queue)
      WITH silent AS (UPDATE jobq.jobs SET last_heartbeat = now() - interval '400 days' WHERE queue = $1::text AND status = 'processing'
                      RETURNING id), ticked AS (SELECT count(*) FROM jobq_tick())
      SELECT count(*) FROM silent
    SQL
  end

  def killed_at(where)
    id = enqueue("KilledJob")
    start({ "KILL_AT" => where })
    assert_equal(9, ends.termsig, File.read(@output))
    assert_equal(%w[processing], statuses, where)
    expire
    start({ "KILL_AT" => "" })
    finish_all(%w[completed completed])
    assert_equal(%w[2 1], jobs.map { |job| job["attempts"] })
    assert_equal([id], jobs.map { |job| job["id"] }.first(1))
    assert_equal(%w[2 3], Effect.order(:name).pluck(:name), "the executions that were committed")
  end

  def test_killed_between_completion_and_enqueue_of_a_retry
    killed_at("jobq_complete")
  end

  def test_killed_between_enqueue_and_commit_of_a_retry
    killed_at("jobq_enqueue_jobs")
  end

  def test_sigterm_ends_the_worker_after_the_job_has_ended
    enqueue("EchoJob", "a")
    start
    becomes("1", "SELECT count(*) FROM jobq.jobs WHERE queue = $1::text AND status = 'completed'", @queue)
    Process.kill(:TERM, @pid)
    assert_equal(0, ends.exitstatus, File.read(@output))
    assert_equal(["a"], Effect.pluck(:name))
  end

  def test_a_process_serves_two_queues
    other = "#{@queue} other"
    start({}, "-q", other, "--slots", "2")
    [@queue, other].each { |queue| ask("SELECT jobq_enqueue($1::text, $2::jsonb, kind => 'EchoJob')", queue, '{"arguments": ["a"]}') }
    [@queue, other].each { |queue| becomes("completed", "SELECT status FROM jobq.jobs WHERE queue = $1::text", queue) }
    becomes("1", "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'CALL jobq_wait_any' AND application_name LIKE $1::text || '%'", "jobq #{@queue},")
    Process.kill(:TERM, @pid)
    assert_equal(0, ends.exitstatus, File.read(@output))
  ensure
    ask("SELECT jobq_drop_queue($1::text, force => true)", other)
  end

  # Two workers in a process: the second worker cannot connect while the first works.
  SECOND_FAILS = <<~RUBY
    require "jobq"
    queue, eye = ARGV.first, PG.connect
    second = lambda do
      sleep(0.02) until eye.exec_params("SELECT 1 FROM jobq.jobs WHERE queue = $1 AND status = 'processing'", [queue]).any?
      raise PG::ConnectionBad, "too many connections"
    end
    wait = { "wait" => ->(job) { job.pause(3600) } }
    Jobq.serve(Jobq::Worker.new(handlers: wait, queue: queue, grace: 0), Jobq::Worker.new(handlers: wait, queue: "b", connection: second))
  RUBY

  def test_a_second_queue_that_cannot_be_served_does_not_affect_jobs_of_the_first
    enqueue("wait")
    @output = Tempfile.new("output")
    @pid = spawn(RbConfig.ruby, "-I", LIBRARY, "-e", SECOND_FAILS, @queue, in: File::NULL, out: @output, err: @output)
    assert_equal(1, ends.exitstatus)
    assert_includes(File.read(@output), 'queue "b" cannot be served: too many connections')
    assert_equal([%w[pending 0]], jobs.map { |job| job.values_at("status", "attempts") })
  end

  # The claims of the second worker fail while the first works.
  SECOND_ENDS = <<~RUBY
    require "jobq"
    queue = ARGV.first
    eye = PG.connect
    Jobq::Core.prepend(Module.new do
      define_method(:claim) do |*given|
        busy = @options.queue == "b" && eye.exec_params("SELECT 1 FROM jobq.jobs WHERE queue = $1 AND status = 'processing'", [queue]).any?
        busy ? raise("no claims anymore") : super(*given)
      end
      private :claim
    end)
    wait = { "wait" => ->(job) { job.pause(3600) } }
    Jobq.serve(*[queue, "b"].map { |name| Jobq::Worker.new(handlers: wait, queue: name, grace: 0, poll_interval: 0.1) })
  RUBY

  def test_a_worker_that_ends_with_an_error_stops_the_others
    enqueue("wait")
    @output = Tempfile.new("output")
    @pid = spawn(RbConfig.ruby, "-I", LIBRARY, "-e", SECOND_ENDS, @queue, in: File::NULL, out: @output, err: @output)
    assert_equal(1, ends.exitstatus)
    assert_includes(File.read(@output), "claims have ended: no claims anymore")
    assert_equal([%w[pending 0]], jobs.map { |job| job.values_at("status", "attempts") })
  end

  # Reads from the pipe like C code that does not release the lock: no other thread of the process runs until a byte arrives.
  HOLDS = <<~RUBY
    require "jobq"
    require "fiddle"
    hold = lambda do |job|
      pipe, buffer = File.open(job.payload, "r+"), Fiddle::Pointer.malloc(1, Fiddle::RUBY_FREE)
      types = [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T]
      read = Fiddle::Function.new(Fiddle.dlopen(nil)["read"], types, Fiddle::TYPE_SSIZE_T, need_gvl: true)
      read.call(pipe.fileno, buffer, 1) until buffer[0] == "x".ord
    end
    Jobq.serve(Jobq::Worker.new(handlers: { "hold" => hold }, queue: ARGV.first, heartbeat_interval: 0.5))
  RUBY

  def test_heartbeats_continue_while_c_code_holds_the_lock
    Dir.mktmpdir do |directory|
      path = File.join(directory, "pipe").tap { |name| File.mkfifo(name) }
      id = ask("SELECT jobq_enqueue($1::text, to_jsonb($2::text), kind => 'hold')", @queue, path)
      @output = Tempfile.new("output")
      @pid = spawn(RbConfig.ruby, "-I", LIBRARY, "-e", HOLDS, @queue, in: File::NULL, out: @output, err: @output)
      becomes("processing", "SELECT status FROM jobq.jobs WHERE id = $1::bigint", id)
      4.times do
        heard = ask("SELECT last_heartbeat FROM jobq.jobs WHERE id = $1::bigint", id)
        becomes("t", "SELECT last_heartbeat > $2::timestamptz FROM jobq.jobs WHERE id = $1::bigint", id, heard)
      end
      File.write(path, "x")
      becomes("completed", "SELECT status FROM jobq.jobs WHERE id = $1::bigint AND attempts = 1", id)
      Process.kill(:TERM, @pid)
      assert_equal(0, ends.exitstatus, File.read(@output))
    end
  end

  def test_wrong_options_are_reported
    { ["--slots", "0"] => "slots", ["--slots", "9"] => "pool has 5", ["--grace", "soon"] => "grace", ["--no-such"] => "no-such",
      ["--heartbeat-interval", "0.001"] => "heartbeat_interval",
      ["extra"] => "unexpected argument: extra" }.each do |arguments, says|
      start({}, *arguments)
      assert_equal(1, ends.exitstatus, arguments.inspect)
      assert_includes(File.read(@output), says)
    end
  end
end
