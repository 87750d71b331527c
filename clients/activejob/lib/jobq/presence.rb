# frozen_string_literal: true

require "json"
require "time"

module Jobq
  # The description of a worker that the server shows in the view jobq.workers. Needs no server.
  class Presence
    MOST_BYTES = 3000   # the server accepts 4 kB of jsonb, which needs a few more bytes than the JSON text

    # The argument worker_info of claims, waits, and heartbeats. now: passed to the statements as long as the worker works. last:
    # passed when the worker has stopped.
    attr_reader :now, :last

    def initialize(options, kinds)
      info = { worker_id: options.worker_id, queues: options.named_queues, slots: options.slots,
               client: "jobq-activejob #{VERSION}", started_at: Time.now.utc.iso8601(3) }
      info[:patterns] = options.given_patterns if options.given_patterns.any?
      # A worker with very many kinds does not list them, and a worker with very many queues is not shown.
      @now = [{ **info, kinds: kinds }, info].map { |each| JSON.generate(each) }.find { |text| text.bytesize <= MOST_BYTES }
      @last = JSON.generate({ **info, expires_in: "0" }) if @now
    end
  end
end
