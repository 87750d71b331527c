# frozen_string_literal: true

module Jobq
  # The connection is gone, and has been closed.
  class Broken < StandardError; end

  # A connection of a worker that is opened again when it is gone.
  class Line
    attr_reader :pause

    def initialize(name, options, given, hand, log, pace)
      @name, @options, @given, @hand, @log, @pace = name, options, given, hand, log, pace
      @opened = 0
      @pause = Pause.new   # until a statement works: a server may let us in and refuse what is asked, as a standby does
    end

    def open
      @connection ||= connect
    end

    # The rows. Broken: it may have been done, or not.
    def rows(statement, *parameters)
      connection = open
      begin
        begun = @hand.now
        connection.rows(statement, *parameters).tap do
          @pause.reset
          @pace.answered(@hand.now - begun) unless statement == Statements::WAIT
        end
      rescue PG::Error => e
        raise if canceled_wait?(statement, e) || !connection.broken?(e)

        @log.warn("#{@options.worker_id}: the connection for #{@name} is broken: #{e.message.strip}")
        close
        raise Broken
      end
    end

    # Whether there is a pooler, which invents the PID that it tells its clients.
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

    # Of a canceled wait, as by statement_timeout, the connection is still good.
    def canceled_wait?(statement, error)
      statement == Statements::WAIT && error.is_a?(PG::QueryCanceled)
    end

    def connect
      connection = Connection.new(@given, "jobq #{@options.queue} #{@options.worker_id}") { |notice| heard(notice) }
      @opened += 1
      @log.info("#{@options.worker_id}: connected again for #{@name}") if @opened > 1
      connection
    rescue StandardError => e   # also of what is called for the parameters
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

  # Connections of the handlers. Those used last are taken first, so that the others grow old together.
  class Connections
    UNSEEN = 1.0   # seconds after which one may have broken

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
