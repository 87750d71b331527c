# frozen_string_literal: true

# Tests two things that no scenario covers: heartbeats continue while C code holds Ruby's lock, and a worker without heartbeats
# stops. Needs a server with jobq, selected by PGHOST and so on.
require 'fiddle'
require 'tmpdir'
require_relative 'jobq_worker'

LIMIT = 120

def becomes(what)
  deadline = Jobq::Worker.now + LIMIT
  until yield
    abort "not ok - #{what}\n0 passed, 1 failed" if Jobq::Worker.now > deadline
    sleep 0.05
  end
end

# Reads from the pipe like C code that does not release the lock: no other thread of the process runs until a byte arrives.
def hold_lock(path)
  pipe = File.open(path, 'r+')
  buffer = Fiddle::Pointer.malloc(1, Fiddle::RUBY_FREE)
  read = Fiddle::Function.new(Fiddle.dlopen(nil)['read'], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T],
                              Fiddle::TYPE_SSIZE_T, need_gvl: true)
  read.call(pipe.fileno, buffer, 1) until buffer[0] == 'x'.ord
end

if ARGV.any?
  worker = Jobq::Worker.new(queue: 'held', slots: 2, heartbeat_interval: 0.5)
  worker.handle('hold') { |job| hold_lock(job.payload) }
  worker.handle('beside') { |job| File.open(job.payload, 'r', &:read) }
  worker.define_singleton_method(:heartbeat_all) { raise NoMemoryError, 'none left' } if ARGV == ['broken']
  exit! worker.run
end

server = PG.connect
ask = ->(statement, *values) { server.exec_params(statement, values).getvalue(0, 0) }
Dir.mktmpdir do |directory|
  paths = %w[hold beside].map { |name| File.join(directory, name).tap { |path| File.mkfifo(path) } }
  pid = spawn(RbConfig.ruby, __FILE__, 'worker')
  beside = ask.call("SELECT jobq_enqueue('held', to_jsonb($1::text), kind => 'beside')", paths[1])
  becomes('the other job runs') { ask.call('SELECT status FROM jobq.jobs WHERE id = $1', beside) == 'processing' }
  held = ask.call("SELECT jobq_enqueue('held', to_jsonb($1::text), kind => 'hold')", paths[0])
  becomes('the job that holds the lock runs') { ask.call('SELECT status FROM jobq.jobs WHERE id = $1', held) == 'processing' }
  4.times do
    before = ask.call('SELECT min(last_heartbeat) FROM jobq.jobs WHERE id IN ($1, $2)', held, beside)
    becomes('heartbeats continue while C code holds the lock') do
      ask.call('SELECT min(last_heartbeat) > $3::timestamptz FROM jobq.jobs WHERE id IN ($1, $2)', held, beside, before) == 't'
    end
  end
  File.write(paths[0], 'x')
  File.write(paths[1], 'x')
  becomes('both jobs complete in their first attempt') do
    ask.call("SELECT count(*) FROM jobq.jobs WHERE id IN ($1, $2) AND status = 'completed' AND attempts = 1", held, beside) == '2'
  end
  child = File.read("/proc/#{pid}/task/#{pid}/children").split.first
  Process.kill(:KILL, pid)
  Process.wait(pid)
  becomes('the process that sends heartbeats ends with the worker') { !File.exist?("/proc/#{child}") }
end
puts 'ok - heartbeats continue while C code holds the lock'

pid = spawn(RbConfig.ruby, __FILE__, 'broken')
becomes('a worker whose heartbeats have ended stops') { Process.wait(pid, Process::WNOHANG) }
abort "not ok - its exit status is 1\n1 passed, 1 failed" unless $?.exitstatus == 1 # rubocop:disable Style/SpecialGlobalVars
puts 'ok - a worker whose heartbeats have ended stops', '2 passed, 0 failed'
