# frozen_string_literal: true

require "json"
require "pg"

module Jobq
  # A connection in autocommit mode. Parameters are texts or nil, each statement casts them; results are texts. No session state
  # and no prepared statement: a pooler may hand each statement to another server connection.
  class Connection
    DEFAULTS = {
      client_encoding: "UTF8", connect_timeout: 10, keepalives: 1, keepalives_idle: 30, keepalives_interval: 10,
      keepalives_count: 3, tcp_user_timeout: 30_000
    }.freeze
    NEW_CONNECTION_CLASSES = %w[08 53 57 58].freeze
    AGAIN = %w[40001 40P01 55P03].freeze
    READ_ONLY = "25006"

    # given: a Hash of libpq's parameters, or something with call that returns one.
    def initialize(given, name, &on_notice)
      parameters = given.respond_to?(:call) ? given.call : given
      @raw = PG.connect(DEFAULTS.merge(fallback_application_name: name.byteslice(0, 63).scrub(""), **parameters))
      @raw.set_notice_receiver { |notice| on_notice&.call(notice) }
    end

    attr_reader :raw

    # The rows, as hashes of texts.
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

    # Whether the error takes another connection.
    def broken?(error)
      return true if @raw.finished? || @raw.status != PG::CONNECTION_OK

      code = Jobq.sqlstate(error)
      code.nil? || code == READ_ONLY || NEW_CONNECTION_CLASSES.include?(code[0, 2])
    end

    # Whether nobody knows what has become of it: of what the server answers it has done, or undone, one does.
    def self.unanswered?(error)
      code = Jobq.sqlstate(error)
      code.nil? || code.start_with?("08")
    end

    # Whether the same statement may succeed next time.
    def self.again?(error)
      AGAIN.include?(Jobq.sqlstate(error))
    end
  end

  # Values as parameters.
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

    # Raises JSON::GeneratorError for what is no JSON.
    def json(value)
      JSON.generate(value, max_nesting: 0)
    end

    def parsed(text)
      text && JSON.parse(text, max_nesting: 0)
    end

    # What PostgreSQL takes as a text: valid UTF-8 without NUL. Bytes are taken for that, but for those of encodings as UTF-16.
    def text(message)
      text = message.to_s
      text = text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace) unless text.encoding.ascii_compatible?
      text.dup.force_encoding(Encoding::UTF_8).scrub("?").gsub("\0", "\\\\0")
    end
  end

  # Whether a worker waits in the server or polls. Behind a pooler that has fewer connections than there are workers, waits take the
  # connections from heartbeats: see "Small pools" in clients/README.md of the sources.
  class Pace
    SHORT_WAIT = 2.0    # seconds of a wait that cannot be woken, or behind a pooler
    LONGEST_POLL = 1.0
    LATE = (0.25..1.0).freeze
    CALM = (60.0..120.0).freeze   # the worker waits again if no answer has been late for so long
    attr_accessor :pooled

    def initialize(options, hand, log)
      @options, @hand, @log = options, hand, log
      @lock = Mutex.new
    end

    # After each answer but that of a wait.
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

    # The longest pause between two polls, or nil if the worker waits.
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

    # Seconds after which an answer is late.
    def limit
      timeout = @options.heartbeat_timeout
      known = [@hand.interval_in_hand, @options.heartbeat_interval, timeout && timeout / 3.0].compact.min
      known ? (known / 4.0).clamp(LATE.begin, LATE.end) : LATE.end
    end
  end

  # How long to wait before the next try.
  class Pause
    FIRST = 0.1
    LONGEST = 5.0

    # After so many failures: twice as long each time, with jitter.
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
