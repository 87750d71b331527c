# frozen_string_literal: true

module Jobq
  # What a worker does with the error of a failed attempt: it adds details to the report, such as the class and the stack trace, and
  # calls the hook of the application. Needs no server.
  class Failures
    MOST_BYTES = 16_384   # of the details as JSON
    # Lengths to which the texts are shortened until the details fit. The last length fits even if each character of two texts
    # takes six bytes.
    LENGTHS = [12_288, 3072, 768].freeze
    DEEPEST = 8   # maximum number of causes

    # error_details: true, false, or a callable that receives the details and returns those that may be stored. on_error: called
    # with the error and the job after each failed attempt, or nil.
    def initialize(log, error_details: true, on_error: nil)
      unless [true, false].include?(error_details) || error_details.respond_to?(:call)
        raise Options.wrong(:error_details, error_details, "be true, false, or a callable")
      end
      raise Options.wrong(:on_error, on_error, "be a callable") unless on_error.nil? || on_error.respond_to?(:call)

      @log, @error_details, @on_error = log, error_details, on_error
    end

    # Returns the outcome with details if it is a failure, and calls the hook. An error in the filter or in the hook is logged and
    # does not change the report.
    def ended(job, outcome)
      error = outcome.error
      return outcome unless error

      outcome.error = nil
      outcome.details = unless_it_fails("error_details", job) { details_of(error) } if @error_details
      unless_it_fails("on_error", job) { @on_error.call(error, job) } if @on_error
      outcome
    end

    # Returns the details as JSON of at most MOST_BYTES, with shorter texts if necessary. Raises an error if the details are no
    # hash, or if they are too large without their texts.
    def self.bounded(details)
      raise TypeError, "the details must be a Hash or nil, but are #{details.class}" unless details.is_a?(Hash)

      LENGTHS.each do |length|
        text = Parameters.json(details.transform_values { |value| value.is_a?(String) ? shortened(Parameters.text(value), length) : value })
        return text if text.bytesize <= MOST_BYTES
      end
      raise RangeError, "the details take more than #{MOST_BYTES} bytes as JSON"
    end

    # Returns the text, or its beginning and its end, because a stack trace names the error at one of them.
    def self.shortened(text, most)
      return text if text.size <= most

      half = most / 2 - 20   # leaves room for the mark
      "#{text[0, half]}\n... #{text.size - 2 * half} characters left out ...\n#{text[-half..]}"
    end

    private

    def details_of(error)
      details = { "class" => error.class.to_s, "stack" => stack_of(error) }
      details = @error_details.call(details) unless @error_details == true
      details && Failures.bounded(details)
    end

    def stack_of(error)
      causes = [error]
      causes << causes.last.cause while causes.last.cause && causes.size < DEEPEST
      causes.map { |cause| [Outcome.describe(cause), *cause.backtrace].join("\n    ") }.join("\nCaused by: ")
    end

    def unless_it_fails(name, job)
      yield
    rescue Exception => e # rubocop:disable Lint/RescueException -- the attempt must be reported
      @log.error("#{job}: #{name} has failed: #{Outcome.describe(e)}")
      nil
    end
  end
end
