# frozen_string_literal: true

module Jobq
  # The log lines of a job that have not been sent yet. Handlers add lines from any thread, and the heartbeat thread sends them.
  class Lines
    LEVELS = %w[debug info warning error].freeze
    MOST_LINES = 500   # lines that wait; fewer than the server stores per attempt, so that the line that counts the others fits
    MOST_BYTES = 8192   # of a line; the server truncates longer lines

    Line = Struct.new(:level, :text, :at) do
      # Returns the same line with "?" instead of each character that is not ASCII.
      def in_ascii
        Line.new(level, text.gsub(/[^[:ascii:]]/, "?"), at)
      end
    end

    attr_accessor :wanted   # a handler waits until the lines have been sent

    def initialize
      @lock = Mutex.new
      @waiting, @dropped, @under_way, @wanted = [], 0, false, false
    end

    # Raises ArgumentError if the level is unknown.
    def add(text, level)
      raise ArgumentError, "the level of a log line must be one of #{LEVELS.join(', ')}, not #{level.inspect}" unless LEVELS.include?(level.to_s)

      line = Line.new(level.to_s, Parameters.text(text).byteslice(0, MOST_BYTES).scrub(""), Lines.now)
      @lock.synchronize { @waiting.size < MOST_LINES ? @waiting << line : @dropped += 1 }
    end

    # Returns whether lines are waiting or are being sent.
    def pending?
      !@waiting.empty? || @under_way
    end

    # Returns the lines to send. The caller must then call sent.
    def take
      @lock.synchronize do
        taken, @waiting = @waiting, []
        if @dropped.positive?
          taken << Line.new("warning", "lines dropped before this point: #{@dropped} (at most #{MOST_LINES} lines can wait for a heartbeat)",
                            Lines.now)
        end
        @dropped = 0
        @under_way = !taken.empty?
        taken
      end
    end

    # again: lines that could not be sent, and are sent next time.
    def sent(again = [])
      @lock.synchronize do
        @waiting.unshift(*again)
        @dropped += @waiting.slice!(MOST_LINES..)&.size || 0
        @under_way = false
        @wanted &&= !again.empty?
      end
    end

    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
