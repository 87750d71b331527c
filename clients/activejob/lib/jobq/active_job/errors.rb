# frozen_string_literal: true

module Jobq
  # What the workers of the program jobq-activejob do with errors of jobs. An initializer of the application can set both.
  module ActiveJob
    @error_details = true
    class << self
      attr_accessor :error_details, :on_error   # see class Failures
    end
  end
end
