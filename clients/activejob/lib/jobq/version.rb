# frozen_string_literal: true

module Jobq
  VERSION = "0.1.0"
end
