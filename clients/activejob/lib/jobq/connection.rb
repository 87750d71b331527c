# frozen_string_literal: true

require "json"
require "pg"

module Jobq
  # A connection in autocommit mode. Parameters are strings or nil, which the statements cast, and results are strings. Uses no
  # session state and no prepared statements, because a pooler may send each statement to another server connection.
  class Connection
    DEFAULTS = {
      client_encoding: "UTF8", connect_timeout: 10, keepalives: 1, keepalives_idle: 30, keepalives_interval: 10,
      keepalives_count: 3, tcp_user_timeout: 30_000
    }.freeze
    NEW_CONNECTION_CLASSES = %w[08 53 57 58].freeze
    AGAIN = %w[40001 40P01 55P03].freeze
    READ_ONLY = "25006"

    # given: libpq's parameters as a Hash, or a callable that returns them.
    def initialize(given, name, &on_notice)
      parameters = given.respond_to?(:call) ? given.call : given
      @raw = PG.connect(DEFAULTS.merge(fallback_application_name: name.byteslice(0, 63).scrub(""), **parameters))
      @raw.set_notice_receiver { |notice| on_notice&.call(notice) }
    end

    attr_reader :raw

    # Returns the rows as hashes of strings.
    def rows(statement, *parameters)
      @raw.exec_params(statement, parameters).to_a
    end

    def value(statement, *parameters)
      row = rows(statement, *parameters).first
      row&.values&.first
    end

    def transaction(&block)
      @raw.transaction { block.call(self) }
    end

    def idle?
      !@raw.finished? && @raw.status == PG::CONNECTION_OK && @raw.transaction_status == PG::PQTRANS_IDLE
    end

    def close
      @raw.close unless @raw.finished?
    rescue PG::Error
      nil
    end

    # Returns whether the error requires a new connection.
    def broken?(error)
      return true if @raw.finished? || @raw.status != PG::CONNECTION_OK

      code = Jobq.sqlstate(error)
      code.nil? || code == READ_ONLY || NEW_CONNECTION_CLASSES.include?(code[0, 2])
    end

    # Returns whether the outcome of a statement is unknown because the server did not answer.
    def self.unanswered?(error)
      code = Jobq.sqlstate(error)
      code.nil? || code.start_with?("08")
    end

    # Returns whether the same statement may succeed if it is repeated.
    def self.again?(error)
      AGAIN.include?(Jobq.sqlstate(error))
    end
  end

  # Converts values to parameters.
  module Parameters
    ARRAY = PG::TextEncoder::Array.new(name: "text[]").freeze

    module_function

    def array(values)
      values && ARRAY.encode(values.map { |value| value&.to_s })
    end

    def interval(delay)
      return delay if delay.nil? || delay.is_a?(String)

      format("%.6f seconds", delay.to_f)
    end

    # Returns the value as JSON. Raises JSON::GeneratorError if JSON cannot represent it.
    def json(value)
      JSON.generate(value, max_nesting: 0)
    end

    def parsed(text)
      text && JSON.parse(text, max_nesting: 0)
    end

    # Returns text that PostgreSQL accepts: valid UTF-8 without NUL. Strings are read as UTF-8, unless their encoding is one such
    # as UTF-16.
    def text(message)
      text = message.to_s
      text = text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace) unless text.encoding.ascii_compatible?
      text.dup.force_encoding(Encoding::UTF_8).scrub("?").gsub("\0", "\\\\0")
    end
  end

  # Decides whether a worker waits in the server or polls. If a pooler has fewer connections than there are workers, waits occupy
  # the connections that heartbeats need: see "Small pools" in clients/CONTRACT.md of the source tree.
  class Pace
    SHORT_WAIT = 2.0    # length in seconds of a wait that cannot be woken or that uses a pooler
    LONGEST_POLL = 1.0
    LATE = (0.25..1.0).freeze
    CALM = (60.0..120.0).freeze   # seconds without a late answer, at random in this range, until waits resume
    attr_accessor :pooled

    def initialize(options, hand, log)
      @options, @hand, @log = options, hand, log
      @lock = Mutex.new
    end

    # Notes how long an answer took. Called after every statement except waits.
    def answered(took)
      return unless pooled && took > LATE.begin && took > limit

      begins = @lock.synchronize do
        @polls_until.nil?.tap { @polls_until = @hand.now + rand(CALM) }
      end
      return unless begins

      @log.add(@has_polled ? Logger::INFO : Logger::WARN,
               "#{@options.worker_id}: answers take #{took.round(1)} s behind the connection pooler, whose pool may have fewer connections " \
               "than there are workers: polling instead of waiting")
      @has_polled = true
    end

    # Returns the longest pause between two polls, or nil if the worker waits in the server.
    def longest_poll
      over = @lock.synchronize do
        return nil if @polls_until.nil?

        (@hand.now >= @polls_until).tap { |ended| @polls_until = nil if ended }
      end
      return LONGEST_POLL unless over

      @log.info("#{@options.worker_id}: answers are fast again: waiting instead of polling")
      nil
    end

    private

    # Returns the number of seconds after which an answer is late.
    def limit
      timeout = @options.heartbeat_timeout
      known = [@hand.interval_in_hand, @options.heartbeat_interval, timeout && timeout / 3.0].compact.min
      known ? (known / 4.0).clamp(LATE.begin, LATE.end) : LATE.end
    end
  end

  # Computes the pauses before retries.
  class Pause
    FIRST = 0.1
    LONGEST = 5.0

    # Returns the pause after this number of failures in a row: each is twice as long, with jitter.
    def self.after(failures, longest = LONGEST)
      [FIRST * 2**[failures - 1, 10].min, longest].min * rand(0.5..1.0)
    end

    def initialize
      reset
    end

    def take
      @failures += 1
      self.class.after(@failures)
    end

    def reset
      @failures = 0
    end
  end
end
