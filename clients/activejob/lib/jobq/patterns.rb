# frozen_string_literal: true

module Jobq
  # Patterns of queue names, with the syntax of LIKE.
  class Patterns
    WILDCARDS = { "%" => ".*", "_" => "." }.freeze

    # Returns false if the server would reject the pattern because its last backslash precedes no character.
    def self.valid?(pattern)
      /\A(?:\\.|[^\\])*\z/m.match?(pattern)
    end

    # slots: the maximum number of running jobs of each queue that a pattern matches.
    def initialize(slots)
      @slots = slots.transform_keys do |pattern|
        /\A#{pattern.gsub(/\\?./m) { |part| WILDCARDS[part] || Regexp.escape(part[-1]) }}\z/m
      end
    end

    # Returns the slots of the first pattern that matches the queue, as the server does, or nil if no pattern matches.
    def slots_of(queue)
      @slots.find { |regex, _| regex.match?(queue) }&.last
    end
  end
end
