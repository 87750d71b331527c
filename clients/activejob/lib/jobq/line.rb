# frozen_string_literal: true

module Jobq
  # The connection is broken and has been closed.
  class Broken < StandardError; end

  # A connection of a worker that is opened again after it breaks.
  class Line
    attr_reader :pause

    def initialize(name, options, given, hand, log, pace)
      @name, @options, @given, @hand, @log, @pace = name, options, given, hand, log, pace
      @opened = 0
      @pause = Pause.new   # until a statement succeeds, because a server such as a standby may accept the connection but reject
                           # statements
    end

    def open
      @connection ||= connect
    end

    def open?
      !@connection.nil?
    end

    # Returns the rows. Raises Broken if the connection breaks; then the outcome of the statement is unknown.
    def rows(statement, *parameters)
      connection = open
      begin
        begun = @hand.now
        @hand.expect(@name, Statements::WAITS.include?(statement) ? @options.wait_timeout : 0)
        connection.rows(statement, *parameters).tap do
          @pause.reset
          @pace.answered(@hand.now - begun) unless Statements::WAITS.include?(statement)
        end
      rescue PG::Error => e
        raise if canceled_wait?(statement, e) || !connection.broken?(e)

        @log.warn("#{@options.worker_id}: the connection for #{@name} is broken: #{e.message.strip}")
        close
        raise Broken
      end
    end

    # Returns whether the connection passes through a pooler, which tells its clients an invented process ID.
    def pooled?
      rows("SELECT pg_backend_pid() AS pid").first["pid"].to_i != open.raw.backend_pid
    end

    def reconnect
      until @hand.stopping?
        @hand.rest(@pause.take)
        begin
          open
          return
        rescue Broken
          next
        end
      end
    end

    def close
      connection, @connection = @connection, nil
      connection&.close
    end

    private

    # Returns whether only a wait was canceled, for example by statement_timeout, so that the connection still works.
    def canceled_wait?(statement, error)
      Statements::WAITS.include?(statement) && error.is_a?(PG::QueryCanceled)
    end

    def connect
      served = @options.named_queues + @options.given_patterns
      connection = Connection.new(@given, "jobq #{served.join(',')} #{@options.worker_id}") { |notice| heard(notice) }
      @opened += 1
      @log.info("#{@options.worker_id}: connected again for #{@name}") if @opened > 1
      connection
    rescue StandardError => e   # includes errors from the callable that returns the parameters
      raise if @opened.zero?

      @log.warn("#{@options.worker_id}: no connection for #{@name}, trying again: #{e.message.strip}")
      raise Broken
    end

    def heard(notice)
      return unless notice.error_field(PG::PG_DIAG_SQLSTATE) == LEASE_LOST

      @log.warn("#{@options.worker_id}: #{notice.error_field(PG::PG_DIAG_MESSAGE_PRIMARY)}. " \
                "#{notice.error_field(PG::PG_DIAG_MESSAGE_DETAIL)}")
    end
  end

  # Connections of the handlers. The most recently used connection is taken first, so that the rest age together.
  class Connections
    UNSEEN = 1.0   # seconds of idle time after which a connection may be broken

    def initialize(given, name)
      @given, @name, @idle, @lock = given, name, [], Mutex.new
    end

    def take
      while (since, connection = @lock.synchronize { @idle.pop })
        begin
          connection.rows("SELECT") if now - since > UNSEEN
          return connection
        rescue PG::Error
          connection.close
        end
      end
      Connection.new(@given, @name)
    end

    def give(connection)
      if connection.idle?
        @lock.synchronize { @idle << [now, connection] }
      else
        connection.close
      end
    end

    def close
      @lock.synchronize { @idle.each { |_, connection| connection.close }.clear }
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
