# frozen_string_literal: true

# A worker for jobq, the job queue in PostgreSQL.
module Jobq; end

require "pg"
require "jobq/version"
require "jobq/errors"
require "jobq/options"
require "jobq/patterns"
require "jobq/connection"
require "jobq/statements"
require "jobq/outcome"
require "jobq/failures"
require "jobq/lines"
require "jobq/job"
require "jobq/presence"
require "jobq/hand"
require "jobq/line"
require "jobq/liveness"
require "jobq/stand_in"
require "jobq/core"
require "jobq/worker"
require "jobq/serve"
