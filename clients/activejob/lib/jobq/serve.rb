# frozen_string_literal: true

module Jobq
  # Runs a process that consists of one or more workers.
  class Serve
    SIGNALS = %w[TERM INT].freeze
    LOOK = 1.0   # seconds between two checks, because a worker's thread ends a moment after it has signaled its end

    # Works until SIGTERM or SIGINT, then ends the process, with status 0 if everything has been reported. Handlers that still run
    # after the grace period do not keep the process alive, and then at_exit blocks do not run; otherwise the process exits
    # normally.
    def self.call(*workers, logger: Worker.standard_logger)
      new(workers, logger).run
    end

    def initialize(workers, log)
      @workers, @log = workers, log
      @reader, @writer = IO.pipe
    end

    def run
      @before = SIGNALS.to_h { |name| [name, trap(name) { ring("s") }] }
      failure = start_all
      raise failure if failure && @begun.empty?

      Liveness.of_process.ready(@log) unless failure
      over = wait_until_over(failure && stop_all(true))
      leave(over && failure.nil? ? status : 1)
    end

    private

    # Starts all workers. Returns the error if one cannot start; the others may have jobs in hand by then.
    def start_all
      @begun = []
      @workers.each do |worker|
        worker.start { ring("o") }
        @begun << worker
      end
      nil
    rescue StandardError => e
      @log.error("queue #{@workers[@begun.size].options.queue_names} cannot be served: #{e.message.strip}")
      e
    end

    # Wakes the main thread through a pipe, because a signal handler must not take a lock.
    def ring(what)
      @writer.write_nonblock(what)
    rescue IO::WaitWritable
      nil
    end

    # Returns false if the server does not answer before the deadline.
    def wait_until_over(deadline)
      until @workers.all? { |worker| ended?(worker) }
        # A worker that has ended with an error stops the others.
        deadline ||= stop_all(true) if @workers.any? { |worker| ended?(worker) }
        left = deadline && deadline - now
        if left && left <= 0
          @log.error("giving up: the server does not answer")
          return false
        end
        next unless @reader.wait_readable([left, LOOK].compact.min)

        deadline = stop_all(deadline.nil?) if @reader.readpartial(1) == "s"
      end
      true
    end

    def stop_all(first)
      Liveness.notify("STOPPING=1", @log) if first
      @workers.each(&:stop)
      grace = first ? @workers.map { |worker| worker.options.grace }.max : 0
      now + grace + Hand::LAST_LOOK + 2 * Hand::LAST_REPORTS
    end

    def ended?(worker)
      worker.join(0)
    rescue Exception # rubocop:disable Lint/RescueException -- whatever error has ended it
      true
    end

    def status
      @workers.all?(&:clean?) ? 0 : 1
    end

    def leave(status)
      @log.info("stopped")
      $stdout.flush
      $stderr.flush
      exit!(status) if @workers.any?(&:left_handlers?)
      exit(status)
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end

  def self.serve(*workers, **options)
    Serve.call(*workers, **options)
  end
end
