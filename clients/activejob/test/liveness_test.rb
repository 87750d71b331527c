# frozen_string_literal: true

require "net/http"
require "tmpdir"
require_relative "helper"

module LivenessHelp
  # Returns a port below those that systems assign to clients, so that no other process takes it in the meantime.
  def free_port
    port = rand(20_000..29_999)
    TCPServer.new(port).close
    port
  rescue SystemCallError
    retry
  end

  def probe(port, path = "/")
    answer = Net::HTTP.get_response("127.0.0.1", path, port)
    [answer.code, answer.body.strip]
  end

  def eventually(&condition)
    Timeout.timeout(JobqTest::LIMIT) { sleep(0.02) until condition.call }
  end
end

# Tests when a thread is stuck, without a server.
class StuckTest < Minitest::Test
  def setup
    @now = 100.0
    @core = Jobq::Core.new(Jobq::Options.new(slots: 2, wait_timeout: 3600), ["x"], {}, Logger.new(File::NULL),
                           begin_job: nil, run_job: nil, when_over: -> {})
    @hand = @core.hand
    test = self
    @hand.define_singleton_method(:now) { test.instance_variable_get(:@now) }
    # Instead of waiting, time passes.
    @hand.instance_variable_get(:@changed).define_singleton_method(:wait) { |seconds = nil| test.pass(seconds) }
  end

  def pass(seconds)
    throw(:waits) if seconds.nil?
    @now += seconds
  end

  def claimed(lease)
    row = { "queue" => "q", "kind" => "k", "run_at" => "1.5", "created_at" => "1.5", "heartbeat_seconds" => "20" }
    Jobq::Job::NUMBERS.each { |name| row[name] = lease.to_s }
    Jobq::Job.new(row, nil, nil).tap { |job| @hand.claimed(job) }
  end

  def test_claims_without_an_answer_unless_the_worker_stops
    @hand.next_claim
    @now += 120
    assert_nil(@hand.stuck)
    @now += 1
    assert_equal("claims", @hand.stuck)
    @hand.stop
    assert_nil(@hand.stuck)
  end

  def test_a_wait_and_a_pause_may_take_their_time
    line = @core.instance_variable_get(:@claims)
    test = self
    line.define_singleton_method(:open) do
      Object.new.tap do |connection|
        connection.define_singleton_method(:rows) do |*|
          test.pass(3720)
          []
        end
      end
    end
    line.rows(Jobq::Statements::WAIT)
    assert_nil(@hand.stuck)
    @now += 1
    assert_equal("claims", @hand.stuck)
    @hand.rest(86_400)
    @now += 120
    assert_nil(@hand.stuck)
  end

  def test_without_a_free_slot_no_claims_are_expected
    [1, 2].each { |lease| claimed(lease) }
    catch(:waits) { @hand.next_claim }
    @now += 86_400
    assert_nil(@hand.stuck)
  end

  def test_heartbeats_that_are_due_but_not_sent
    claimed(1)
    refute_empty(@hand.next_beat.jobs)
    assert_equal(120.0, @now)
    @now += 121
    assert_equal("heartbeats", @hand.stuck)
  end

  # Each try to connect takes 10 s.
  def test_a_worker_whose_database_is_down_is_alive
    tries = []
    down = lambda do
      tries << @hand.stuck
      pass(10)
      tries << @hand.stuck
      throw(:enough) if (tries.size % 200).zero?
      raise Jobq::Broken
    end
    claimed(1)
    %w[claims beats].each { |line| @core.instance_variable_get("@#{line}").define_singleton_method(:open) { down.call } }
    catch(:enough) { @core.instance_variable_get(:@claims).reconnect }
    @hand.no_more_claims
    catch(:enough) { @core.send(:beat_until_over) }
    assert_equal([nil] * 400, tries)
  end
end

# Tests what the probes are told, without a server.
class ProbesTest < Minitest::Test
  include LivenessHelp

  def setup
    @directory = Dir.mktmpdir
    @file = File.join(@directory, "alive")
    @said = StringIO.new
    @liveness = Jobq::Liveness.new(every: 0.02)
    @hands = []
  end

  def teardown
    @hands.each { |hand| @liveness.leave(hand) }
    FileUtils.remove_entry(@directory)
  end

  def watch(**options)
    @hands << Class.new { attr_accessor :stuck }.new
    @liveness.watch(Jobq::Options.new(worker_id: "worker #{@hands.size}", **options), @hands.last, Logger.new(@said))
    @hands.last
  end

  def with_environment(values)
    before = values.to_h { |name, _| [name, ENV.fetch(name, nil)] }
    ENV.update(values)
    yield
  ensure
    ENV.update(before)
  end

  def test_the_file_and_the_port_cover_all_workers
    port = free_port
    2.times { watch(liveness_file: @file, liveness_port: port) }
    File.unlink(@file)
    eventually { File.exist?(@file) }
    assert_equal(%w[200 ok], probe(port, "/any/path"))
    @hands[1].stuck = "claims"
    assert_equal(["503", "worker 2: claims are stuck"], probe(port))
    eventually { @said.string.include?("liveness probes fail: worker 2: claims are stuck") }
    File.unlink(@file)
    sleep(0.2)
    refute_path_exists(@file)
    @hands[1].stuck = nil
    eventually { File.exist?(@file) }
    @liveness.leave(@hands[0])
    assert_equal(%w[200 ok], probe(port))
    @liveness.leave(@hands[1])
    assert_raises(SystemCallError) { probe(port) }
  end

  def test_options_that_cannot_be_used
    taken = TCPServer.new("127.0.0.1", 0)
    { liveness_port: "127.0.0.1:#{taken.addr[1]}", liveness_file: File.join(@directory, "no", "file") }.each do |name, value|
      error = assert_raises(Jobq::OptionError) { watch(name => value) }
      assert_includes(error.message, "option \"#{name}\" cannot be used: ")
    end
    { liveness_port: [0, 65_536, true, "host", "::1:80"], liveness_file: ["", 7] }.each do |name, values|
      values.each { |value| assert_raises(Jobq::OptionError, value.inspect) { Jobq::Options.new(name => value) } }
    end
    { 80 => [nil, 80], "80" => [nil, 80], "h:80" => ["h", 80], "[::1]:80" => ["::1", 80] }.each do |value, address|
      assert_equal(address, Jobq::Options.new(liveness_port: value).liveness_address)
    end
  ensure
    taken.close
  end

  def test_systemd
    [File.join(@directory, "notify"), "@jobq #{SecureRandom.hex(8)}"].each do |name|
      systemd = Socket.new(:UNIX, :DGRAM).tap { |socket| socket.bind(Addrinfo.unix(name.sub("@", "\0"), :DGRAM)) }
      @said.truncate(0)
      with_environment("NOTIFY_SOCKET" => name, "WATCHDOG_USEC" => "1000000", "WATCHDOG_PID" => Process.pid.to_s) do
        hand = watch
        @liveness.ready(Logger.new(@said))
        states = Timeout.timeout(JobqTest::LIMIT) { Array.new(3) { systemd.recv(100) } }
        assert_equal(%w[READY=1 WATCHDOG=1 WATCHDOG=1], states)
        hand.stuck = "heartbeats"
        eventually { @said.string.include?("heartbeats are stuck") }
        nil until systemd.recv_nonblock(100, exception: false) == :wait_readable
        sleep(0.2)
        assert_equal(:wait_readable, systemd.recv_nonblock(100, exception: false))
        @liveness.leave(hand)
      end
    ensure
      systemd.close
    end
  end

  def test_the_watchdog_of_another_process
    assert_nil(Jobq::Liveness.watchdog({}))
    assert_nil(Jobq::Liveness.watchdog({ "WATCHDOG_USEC" => "2500000", "WATCHDOG_PID" => "1" }))
    assert_equal(2.5, Jobq::Liveness.watchdog({ "WATCHDOG_USEC" => "2500000" }))
  end
end

# Tests what the probes see of a worker that works, one whose claims are stuck, and a process under systemd.
class LivenessTest < JobqTest
  include LivenessHelp

  def setup
    super
    @directory = Dir.mktmpdir
  end

  def teardown
    super
    FileUtils.remove_entry(@directory)
  end

  def test_a_worker_that_works_and_one_whose_claims_are_stuck
    file, port, gate = File.join(@directory, "alive"), free_port, Queue.new
    @worker = Jobq::Worker.new(handlers: { "x" => ->(_job) { gate.pop } }, queue: @queue, slots: 2, wait_timeout: 0.1,
                               logger: Logger.new(File::NULL), liveness_file: file, liveness_port: "127.0.0.1:#{port}")
    @worker.start
    id = ask("SELECT jobq_enqueue($1::text, kind => 'x')", @queue)
    becomes("processing", "SELECT status FROM jobq.jobs WHERE id = $1::bigint", id)
    File.unlink(file)
    eventually { File.exist?(file) }
    assert_equal(%w[200 ok], probe(port))
    hang(hangs = Queue.new, goes_on = Queue.new)
    hangs.pop
    assert_equal(["503", "#{@worker.options.worker_id}: claims are stuck"], probe(port))
    goes_on.close
    eventually { probe(port) == %w[200 ok] }
    gate.close
    becomes("completed", "SELECT status FROM jobq.jobs WHERE id = $1::bigint", id)
  ensure
    [gate, goes_on].compact.each(&:close)
  end

  # Makes claims hang until the queue goes_on is closed, as if they had hung for a long time already.
  def hang(hangs, goes_on)
    core = @worker.instance_variable_get(:@core)
    core.instance_variable_get(:@claims).define_singleton_method(:rows) do |*given|
      unless goes_on.closed?
        core.hand.expect("claims", -121)
        hangs << nil
        goes_on.pop
      end
      super(*given)
    end
  end

  PROGRAM = 'require "jobq"; Jobq.serve(Jobq::Worker.new(handlers: { "x" => ->(_job) {} }, queue: ARGV.first))'

  def test_systemd
    name = File.join(@directory, "notify")
    systemd = Socket.new(:UNIX, :DGRAM).tap { |socket| socket.bind(Addrinfo.unix(name, :DGRAM)) }
    pid = spawn({ "NOTIFY_SOCKET" => name, "WATCHDOG_USEC" => "1000000" }, RbConfig.ruby, "-I", File.expand_path("../lib", __dir__),
                "-e", PROGRAM, @queue, err: File::NULL)
    Timeout.timeout(LIMIT) do
      assert_equal(%w[READY=1 WATCHDOG=1 WATCHDOG=1], Array.new(3) { systemd.recv(100) })
      Process.kill(:TERM, pid)
      state = systemd.recv(100)
      state = systemd.recv(100) while state == "WATCHDOG=1"
      assert_equal("STOPPING=1", state)
      assert_equal(0, Process.wait2(pid).last.exitstatus)
      pid = nil
    end
  ensure
    systemd.close
    Process.kill(:KILL, pid) && Process.wait(pid) if pid
  end
end
