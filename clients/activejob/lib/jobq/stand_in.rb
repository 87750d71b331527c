# frozen_string_literal: true

require "json"
require "pg"

module Jobq
  # A child process that sends heartbeats while C code holds Ruby's lock (GVL), so that no thread of the worker runs. The worker
  # tells it through a pipe which jobs run and which heartbeats it has sent. The child sends heartbeats that are a quarter of an
  # interval late. The child ends when the pipe is closed, and so together with the worker. This file is the program of the child.
  class StandIn
    LATE = 1.25         # in intervals
    IDLE = 60           # seconds after which the child closes its connection
    READY_WITHIN = 10   # seconds
    # The handler's transaction may lock the row, and the heartbeats of other jobs must not wait for it.
    BRIEFLY = "WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true)) " \
              "SELECT jobq_heartbeat($1::bigint, $2::bigint) FROM briefly"

    # given: libpq's parameters, or a callable that returns them.
    def initialize(given, defaults, log)
      reader, @pipe = IO.pipe
      @lock = Mutex.new
      ready, answer = IO.pipe
      Process.detach(spawn(RbConfig.ruby, __FILE__, in: reader, out: answer, pgroup: true))
      [reader, answer].each(&:close)
      say(JSON.generate(defaults.merge(given.respond_to?(:call) ? given.call : given)))
      ready.wait_readable(READY_WITHIN)   # claim nothing before the child can send heartbeats
      ready.close
    rescue SystemCallError => e
      log.warn("could not start the process that sends heartbeats while C code holds Ruby's lock: #{e.message}")
      @pipe = nil
    end

    # Called before the handler begins.
    def begin(job, interval)
      say("+ #{job.lease} #{job.id} #{interval} #{StandIn.now}")
    end

    def beaten(job)
      say("* #{job.lease} #{StandIn.now}")
    end

    def ended(job)
      say("- #{job.lease}")
    end

    def close
      @lock.synchronize { @pipe&.close.tap { @pipe = nil } }
    end

    # Runs the child process. It ignores signals that are sent to the process group of the worker.
    def self.run(input)
      %w[TERM INT].each { |name| trap(name, "IGNORE") }
      parent = Process.ppid
      settings = JSON.parse(input.gets || exit!, symbolize_names: true)
      jobs, lock = {}, Mutex.new   # lease -> id, interval, time of the last heartbeat
      Thread.new { listen(input, jobs, lock) }
      say_ready
      connection = used_at = nil
      while Process.ppid == parent
        sleep(0.1)
        late = lock.synchronize { jobs.select { |_, job| now - job[2] > LATE * job[1] } }
        if late.any?
          connection = beat(late, connection, settings)
          used_at = now
        elsif connection && now - used_at > IDLE
          connection = connection.close
        end
      end
    end

    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    class << self
      private

      def listen(input, jobs, lock)
        while (line = input.gets)
          what, lease, *values = line.split
          lock.synchronize do
            case what
            when "+" then jobs[lease] = [values[0], values[1].to_f, values[2].to_f]
            when "*" then jobs[lease] && jobs[lease][2] = values[0].to_f
            else jobs.delete(lease)
            end
          end
        end
        exit!
      end

      def say_ready
        $stdout.syswrite("ready\n")
      rescue SystemCallError
        nil   # the worker has stopped waiting
      ensure
        $stdout.reopen(File::NULL)
      end

      # Sends the heartbeats. Returns the connection if it still works.
      def beat(jobs, connection, settings)
        connection ||= PG.connect(settings)
        jobs.each do |lease, job|
          connection.exec_params(BRIEFLY, [job[0], lease])
          job[2] = now - (LATE - 1) * job[1]   # due again after an interval
        rescue PG::LockNotAvailable
          next
        end
        connection
      rescue PG::Error
        connection&.close
        sleep(1)
        nil
      end
    end

    private

    def say(line)
      @lock.synchronize { @pipe&.puts(line) }
    rescue SystemCallError
      @pipe = nil
    end
  end
end

Jobq::StandIn.run($stdin) if $PROGRAM_NAME == __FILE__
