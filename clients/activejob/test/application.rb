# frozen_string_literal: true

# An application without Rails, for process_test.rb.
require "jobq-activejob"
require_relative "planted"

ActiveRecord::Base.establish_connection(adapter: "postgresql", pool: 5)
ActiveRecord::Base.logger = ActiveJob::Base.logger = Logger.new(File::NULL)
ActiveJob::Base.queue_adapter = :jobq

class Effect < ActiveRecord::Base; end

class EchoJob < ActiveJob::Base
  def perform(name)
    Effect.create!(job: job_id, name: name)
  end
end

# Retried once after the job is lost. Killed when a statement of the retry has been executed, but before its transaction commits.
class KilledJob < ActiveJob::Base
  class Busy < StandardError; end
  retry_on Busy, wait: 1.hour, attempts: 9

  def perform
    if ENV["KILL_AT"].empty?
      Effect.create!(job: job_id, name: executions.to_s)
    else
      ActiveSupport::Notifications.subscribe("sql.active_record") do |*, payload|
        Process.kill(:KILL, Process.pid) if payload[:sql].include?(ENV["KILL_AT"])
      end
    end
    raise Busy if executions < 3
  end
end
