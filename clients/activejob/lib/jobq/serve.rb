# frozen_string_literal: true

module Jobq
  # A whole process that is one worker or several.
  class Serve
    SIGNALS = %w[TERM INT].freeze
    LOOK = 1.0   # seconds between two looks: the thread that rings when a worker is over ends a moment later

    # Works until SIGTERM or SIGINT, and ends the process: with status 0 when everything has been reported. Handlers that were
    # given up when the grace was over do not keep it; without them it ends as any other, with what at_exit has.
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

      over = wait_until_over(failure && stop_all(true))
      leave(over && failure.nil? ? status : 1)
    end

    private

    # What kept one of them from it. Those that have begun have jobs in hand by then.
    def start_all
      @begun = []
      @workers.each do |worker|
        worker.start { ring("o") }
        @begun << worker
      end
      nil
    rescue StandardError => e
      @log.error("queue #{@workers[@begun.size].options.queue.inspect} cannot be served: #{e.message.strip}")
      e
    end

    # A lock must not be taken in a signal's handler.
    def ring(what)
      @writer.write_nonblock(what)
    rescue IO::WaitWritable
      nil
    end

    # False: the server does not answer.
    def wait_until_over(deadline)
      until @workers.all? { |worker| ended?(worker) }
        # A worker that has ended with an error takes the others along.
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
      @workers.each(&:stop)
      grace = first ? @workers.map { |worker| worker.options.grace }.max : 0
      now + grace + Hand::LAST_LOOK + 2 * Hand::LAST_REPORTS
    end

    def ended?(worker)
      worker.join(0)
    rescue Exception # rubocop:disable Lint/RescueException -- whatever it has ended by
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
