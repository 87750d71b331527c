# frozen_string_literal: true

require "fileutils"
require "socket"

module Jobq
  # Tells the probes of Kubernetes and systemd whether the workers of this process are alive: see "Liveness" in clients/README.md of
  # the source tree. A probe restarts the whole process, so the file, the port, and systemd's watchdog cover all of its workers.
  class Liveness
    EVERY = 2.0             # seconds between two touches of the file
    ANSWERS_WITHIN = 5      # seconds in which a client must send its request
    LONGEST_REQUEST = 16_384

    def self.of_process
      @of_process ||= new
    end

    # Sends a state to systemd, if the unit expects states (sd_notify(3)).
    def self.notify(state, log)
      name = ENV.fetch("NOTIFY_SOCKET", "")
      return if name.empty?

      Addrinfo.unix(name.sub(/\A@/, "\0"), :DGRAM).connect { |socket| socket.send(state, 0) }
    rescue SystemCallError => e
      log.warn("could not send #{state} to systemd: #{e.message}")
    end

    # Returns after how many seconds of silence systemd ends this process, or nil.
    def self.watchdog(environment = ENV)
      microseconds, process = environment["WATCHDOG_USEC"].to_i, environment["WATCHDOG_PID"].to_s
      microseconds / 1e6 if microseconds.positive? && ["", Process.pid.to_s].include?(process)
    end

    def initialize(every: EVERY)
      @every = every
      @lock = Monitor.new
      @changed = @lock.new_cond
      @workers = {}   # hand => worker ID
      @files, @ports = [], {}
    end

    # Covers a worker, until leave. Raises OptionError if the file cannot be touched or the port cannot be opened.
    def watch(options, hand, log)
      return unless options.liveness_file || options.liveness_port || ENV.key?("NOTIFY_SOCKET")

      @lock.synchronize do
        @workers = @workers.merge(hand => options.worker_id)   # a new hash, because reason takes no lock
        @log = log
        option = "liveness_port"
        address = options.liveness_address
        @ports[address] ||= listen(*address) if address
        option = "liveness_file"
        touch(options.liveness_file) if options.liveness_file
        @files |= [options.liveness_file].compact
        @thread ||= Thread.new { tell_all }.tap { |thread| thread.name = "jobq liveness" }
      rescue SystemCallError, SocketError => e
        leave(hand)
        raise OptionError, "option \"#{option}\" cannot be used: #{e.message}"
      end
    end

    def leave(hand)
      @lock.synchronize do
        @workers = @workers.reject { |watched, _| watched.equal?(hand) }
        next if @workers.any?

        @ports.each_value { |thread, sockets| [thread.kill.join, *sockets.each(&:close)] }
        @ports, @files, @watchdog = {}, [], nil
        @changed.broadcast
      end
    end

    # Tells systemd that all workers have started. From now on, systemd expects its watchdog to be told, too.
    def ready(log)
      self.class.notify("READY=1", log)
      @lock.synchronize do
        @watchdog = self.class.watchdog
        @changed.broadcast
      end
    end

    # Returns why the process should be restarted, or nil if it is alive.
    def reason
      @workers.each do |hand, worker_id|
        stuck = hand.stuck
        return "#{worker_id}: #{stuck} are stuck" if stuck
      end
      nil
    end

    private

    def tell_all
      said = nil
      @lock.synchronize do
        while @workers.any?
          found = reason || tell
          @log.error("liveness probes fail: #{found}") if found && found != said
          said = found
          @changed.wait([@every, @watchdog && (@watchdog / 2)].compact.min)
        end
        @thread = nil
      end
    end

    def tell
      self.class.notify("WATCHDOG=1", @log) if @watchdog
      @files.each { |file| touch(file) }
      nil
    rescue SystemCallError => e
      e.message
    end

    def touch(file)
      FileUtils.touch(file)
    end

    # Returns the thread that accepts requests, and its sockets.
    def listen(host, port)
      sockets = Socket.tcp_server_sockets(host, port)
      thread = Thread.new do
        Socket.accept_loop(sockets) { |socket, _| Thread.new { answer(socket) } }
      end
      thread.name = "jobq liveness port"
      [thread, sockets]
    end

    def answer(socket)
      request = +""
      until request.include?("\r\n\r\n") || request.bytesize > LONGEST_REQUEST
        return unless socket.wait_readable(ANSWERS_WITHIN)

        request << socket.readpartial(4096)
      end
      found = reason
      body = "#{found || 'ok'}\n"
      socket.write("HTTP/1.1 #{found ? '503 Service Unavailable' : '200 OK'}\r\nContent-Type: text/plain; charset=utf-8\r\n" \
                   "Content-Length: #{body.bytesize}\r\nConnection: close\r\n\r\n#{body}")
    rescue SystemCallError, IOError
      nil   # the client has closed the connection
    ensure
      socket.close
    end
  end
end
