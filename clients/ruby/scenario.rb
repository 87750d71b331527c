# frozen_string_literal: true

# The handlers for the scenarios: see clients/scenarios/README.md.
require 'fiddle'
require_relative 'jobq_worker'

# Reads the database on a separate connection, which it opens again when it breaks.
class Eye
  def initialize(job)
    @job = job
  end

  def ask(statement, values)
    @connection ||= PG.connect(connect_timeout: 5)
    @connection.exec_params(statement, values).then { |rows| rows.ntuples.positive? ? rows.getvalue(0, 0) : nil }
  rescue PG::Error
    @connection&.close unless @connection&.finished?
    @connection = nil
    sleep 0.2
    retry
  end

  def tell(event)
    ask('INSERT INTO scenario.events VALUES ($1, $2, $3)', [@job.id, @job.attempt, event])
  end

  def open?(gate)
    gate.nil? || ask('SELECT count(*) FROM scenario.gates WHERE name = $1', [gate]) != '0'
  end

  def await(gate)
    yield until open?(gate)
  end
end

EFFECT = 'INSERT INTO scenario.effects VALUES ($1, $2, $3)'

def deaf(job)
  eye = Eye.new(job)
  eye.tell('started')
  eye.await(job.payload['gate']) { sleep 0.1 }
  { gate: job.payload['gate'] }
end

def wait(job)
  eye = Eye.new(job)
  eye.tell('started')
  eye.await(job.payload['gate']) { job.pause(0.1) }
  { gate: job.payload['gate'] }
rescue Jobq::Stop => e
  eye.tell(e.reason)
  raise
end

def garbage(job)
  raise "bad \xff\0 bytes" if job.payload['in'] == 'error'
  return "\0" if job.payload['in'] == 'result'

  job.report_progress("\0")
  wait(job)
end

def steps(job)
  eye = Eye.new(job)
  eye.tell('started')
  job.payload['names'].map do |name|
    eye.await(job.payload['gate']) { job.pause(0.1) } if name == job.payload['before']
    job.step(name) do |conn|
      conn.exec_params(EFFECT, [job.id, job.attempt, name])
      { name: name }
    end
  end
end

def transfer(job)
  deaf(job)
  job.completing do |conn|
    conn.exec_params(EFFECT, [job.id, job.attempt, 'transfer'])
    raise job.payload['error'] if job.payload['error'] && job.attempt == 1

    { moved: true }
  end
end

begin
  worker = Jobq::Worker.from_environment
  worker.handle('echo', &:payload)
  worker.handle('fail') { |job| job.attempt <= job.payload['times'] ? raise(job.payload['message']) : { attempt: job.attempt } }
  worker.handle('reject') do |job|
    raise Jobq::Fail.new(job.payload['message'], retry_in: job.payload['retry_in'], final: job.payload['retry_in'].nil?)
  end
  worker.handle('snooze') do |job|
    next { snoozed: true } if job.progress

    job.report_progress({ snoozed: true })
    raise Jobq::Snooze, job.payload['delay']
  end
  worker.handle('wait') { |job| wait(job) }
  worker.handle('garbage') { |job| garbage(job) }
  worker.handle('deaf') { |job| deaf(job) }
  worker.handle('sleep') do |job|
    Eye.new(job).tell('started')
    sleep job.payload['seconds']
    {}
  end
  worker.handle('block') do |job|
    Eye.new(job).tell('started')
    sleeping = Fiddle::Function.new(Fiddle.dlopen(nil)['sleep'], [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)
    left = job.payload['seconds']
    left = sleeping.call(left) while left.positive?
    {}
  end
  worker.handle('progress') do |job|
    eye = Eye.new(job)
    eye.tell('started')
    (1..job.payload['steps']).each { |step| job.report_progress({ step: step }) }
    eye.await(job.payload['gate']) { job.pause(0.1) }
    { steps: job.payload['steps'] }
  end
  worker.handle('transfer') { |job| transfer(job) }
  worker.handle('steps') { |job| steps(job) }
  worker.handle('poison') do |job|
    Eye.new(job).tell('started')
    Process.kill('KILL', Process.pid)
  end
  exit! worker.run
rescue PG::Error, Jobq::OptionError, RuntimeError => e
  warn "scenario.rb: #{e.message}"
  exit! 1
end
