# frozen_string_literal: true

# Loads the ActiveJob adapter for jobq and its worker.
require "active_job"
require "active_record"
require "jobq"
require "jobq/active_job/database"
require "jobq/active_job/errors"
require "jobq/active_job/performance"
require "jobq/active_job/options"
require "jobq/active_job/batches"
require "jobq/active_job/transactional"
require "jobq/active_job/handlers"
require "active_job/queue_adapters/jobq_adapter"

ActiveSupport.on_load(:active_job) { include Jobq::ActiveJob::Options }
