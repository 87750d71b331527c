#!/usr/bin/env ruby
# frozen_string_literal: true

# The worker for the scenarios: see clients/scenarios/README.md.

$LOAD_PATH.unshift(File.join(__dir__, "lib"))
require "fiddle"
require "jobq"

# Reads the database on a separate connection, which it opens again when it breaks.
class Eye
  EVENT = "INSERT INTO scenario.events (job_id, attempt, event) VALUES ($1::bigint, $2::int, $3::text)"
  OPEN = "SELECT count(*) FROM scenario.gates WHERE name = $1::text"

  def ask(statement, *parameters)
    @connection ||= Jobq::Connection.new({}, "scenario")
    @connection.value(statement, *parameters)
  rescue PG::Error
    @connection&.close
    @connection = nil
    sleep(0.2)
    retry
  end

  def tell(job, event)
    ask(EVENT, job.id.to_s, job.attempt.to_s, event)
  end

  def open?(gate)
    gate.nil? || ask(OPEN, gate).to_i.positive?
  end

  def close
    @connection&.close
  end
end

EFFECT = "INSERT INTO scenario.effects (job_id, attempt, name) VALUES ($1::bigint, $2::int, $3::text)"

def watch(job)
  eye = Eye.new
  eye.tell(job, "started")
  yield eye
ensure
  eye&.close
end

def deaf(job)
  gate = job.payload["gate"]
  watch(job) { |eye| sleep(0.1) until eye.open?(gate) }
  { "gate" => gate }
end

def wait(job)
  watch(job) do |eye|
    job.pause(0.1) until eye.open?(job.payload["gate"])
  rescue Jobq::Stop
    eye.tell(job, job.cancelled.to_s)
    raise
  end
  { "gate" => job.payload["gate"] }
end

def effect(job, connection, name)
  connection.rows(EFFECT, job.id.to_s, job.attempt.to_s, name)
end

HANDLERS = {
  "echo" => ->(job) { job.payload },
  "fail" => lambda do |job|
    raise ArgumentError, job.payload["message"] if job.attempt <= job.payload.fetch("times", 0)

    { "attempt" => job.attempt }
  end,
  "reject" => lambda do |job|
    raise Jobq::Fail.new(job.payload["message"], retry_in: job.payload["retry_in"], retry: job.payload.key?("retry_in"))
  end,
  "snooze" => lambda do |job|
    if job.progress.nil?
      job.set_progress({ "snoozed" => true })
      raise Jobq::Snooze, job.payload["delay"]
    end
    { "snoozed" => true }
  end,
  "wait" => ->(job) { wait(job) },
  "garbage" => lambda do |job|
    raise ArgumentError, "bad \xff\0 bytes" if job.payload["in"] == "error"
    next "\0" if job.payload["in"] == "result"

    job.set_progress("\0")
    wait(job)
  end,
  "deaf" => ->(job) { deaf(job) },
  "sleep" => lambda do |job|
    watch(job) { sleep(job.payload["seconds"]) }
    {}
  end,
  "block" => lambda do |job|
    watch(job) do
      sleeping = Fiddle::Function.new(Fiddle.dlopen(nil)["sleep"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)
      left = job.payload["seconds"]
      left = sleeping.call(left) while left.positive?
    end
    {}
  end,
  "progress" => lambda do |job|
    watch(job) do |eye|
      1.upto(job.payload["steps"]) { |step| job.set_progress({ "step" => step }) }
      job.pause(0.1) until eye.open?(job.payload["gate"])
    end
    { "steps" => job.payload["steps"] }
  end,
  "transfer" => lambda do |job|
    deaf(job)
    job.completing({ "moved" => true }) do |connection|
      effect(job, connection, "transfer")
      raise ArgumentError, job.payload["error"] if job.payload["error"] && job.attempt == 1
    end
  end,
  "steps" => lambda do |job|
    watch(job) do |eye|
      job.payload["names"].map do |name|
        job.pause(0.1) until name != job.payload["before"] || eye.open?(job.payload["gate"])
        job.step(name) do |connection|
          effect(job, connection, name)
          { "name" => name }
        end
      end
    end
  end,
  "poison" => ->(job) { watch(job) { Process.kill(:KILL, Process.pid) } }
}.freeze

begin
  $stderr.sync = true
  Jobq.serve(Jobq::Worker.new(handlers: HANDLERS, **Jobq::Options.of_environment))
rescue Jobq::OptionError, PG::Error => e
  abort("scenario_worker: #{e.message}")
end
