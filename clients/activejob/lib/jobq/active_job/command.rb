# frozen_string_literal: true

require "optparse"
require "jobq-activejob"

module Jobq
  module ActiveJob
    # The program jobq-activejob.
    class Command
      # Flag => [option, description].
      FLAGS = {
        "--slots N" => [:slots, "maximum number of jobs per queue that run at the same time"],
        "--queue-order ORDER" => [:queue_order, "listed, random (chances in proportion to the slots), or oldest"],
        "--batch N" => [:batch, "maximum number of jobs per claim"],
        "--worker-id NAME" => [:worker_id, "unique name of this process"],
        "--heartbeat-timeout SECONDS" => [:heartbeat_timeout, "lease timeout"],
        "--heartbeat-interval SECONDS" => [:heartbeat_interval, "maximum time between two heartbeats"],
        "--wait-timeout SECONDS" => [:wait_timeout, "timeout of one call to jobq_wait"],
        "--poll-interval SECONDS" => [:poll_interval, "poll with pauses of at most SECONDS instead of waiting in the server"],
        "--grace SECONDS" => [:grace, "how long jobs can continue after SIGTERM"],
        "--liveness-file FILE" => [:liveness_file, "file that the worker touches while it is alive"],
        "--liveness-port PORT" => [:liveness_port, "port, or HOST:PORT, at which the worker answers liveness probes over HTTP"]
      }.freeze
      RAILS = "./config/environment.rb"

      def self.run(arguments)
        new(arguments).run
      rescue OptionError, OptionParser::ParseError, LoadError, PG::Error => e
        abort("jobq-activejob: #{e.message}")
      end

      def initialize(arguments)
        @queues, @patterns, @queue_slots, @kinds, @requires = [], [], {}, nil, []
        @options = Jobq::Options.of_environment
        rest = parser.parse(arguments)
        raise OptionError, "unexpected argument: #{rest.first}" if rest.any?
      end

      def run
        load_application
        Jobq.serve(*workers)
      end

      private

      def parser
        OptionParser.new do |parser|
          parser.banner = "usage: jobq-activejob [-r FILE] [-q QUEUE]... [options]"
          parser.separator("Performs the jobs of one or more queues until SIGTERM or SIGINT.")
          parser.on("-r", "--require FILE", "file that loads the application (default: #{RAILS})") { |file| @requires << file }
          parser.on("-q", "--queue NAME", "queue to serve (default: JOBQ_QUEUE); repeat the option to serve",
                    "several queues, each with its own slots") { |name| @queues << name }
          parser.on("--queue-pattern PATTERN", "serve all queues whose names match the LIKE pattern; can be repeated") { |text| @patterns << text }
          parser.on("--queue-slots NAME=N", "slots of one of several queues, or of each queue of a", "pattern (default: --slots)") { |text| set_slots(text) }
          parser.on("--kinds LIST", Array, "job classes to perform (default: all classes that are loaded)") { |kinds| @kinds = kinds }
          FLAGS.each do |flag, (name, description)|
            parser.on(flag, "#{description} (JOBQ_#{name.upcase})") { |text| @options[name] = Jobq::Options.from_text(name, text) }
          end
        end
      end

      def load_application
        @requires << RAILS if @requires.empty?
        @requires.each { |file| require File.exist?(file) ? File.expand_path(file) : file }
        return unless defined?(::Rails) && ::Rails.respond_to?(:application) && ::Rails.application

        # Claims name the job classes, so all of them must be there.
        ::Rails.application.config.eager_load_namespaces.each(&:eager_load!)
      end

      def workers
        adapter = ::ActiveJob::Base.queue_adapter
        unless adapter.is_a?(::ActiveJob::QueueAdapters::JobqAdapter)
          raise OptionError, "ActiveJob's queue_adapter must be :jobq, but is #{adapter.class}"
        end

        handlers = Handlers.new(adapter.database, @kinds)
        made = Worker.new(handlers: handlers, connection: adapter.database.parameters, error_details: Jobq::ActiveJob.error_details,
                          on_error: Jobq::ActiveJob.on_error, **options)
        check_pool(adapter.database, made.options.slots)
        [made]
      end

      def queues
        return @queues.uniq if @queues.any? || @patterns.any?

        [@options[:queue] || Jobq::Options::DEFAULTS[:queue]]
      end

      # Returns the options of the worker. If it serves several queues, --slots applies to each of them.
      def options
        unserved = @queue_slots.keys - queues - @patterns
        raise OptionError, "--queue-slots names a queue that is not served: #{unserved.first}" if unserved.any?
        return @options.merge({ queue: queues.first, slots: @queue_slots[queues.first] }.compact) if queues.size == 1 && @patterns.empty?

        slots = @options[:slots] || Jobq::Options::DEFAULTS[:slots]
        several = { queues: queues, patterns: @patterns.uniq }.reject { |_, names| names.empty? }
        @options.reject { |name, _| %i[queue slots].include?(name) }
                .merge(several.transform_values { |names| names.to_h { |name| [name, @queue_slots[name] || slots] } })
      end

      # The name of a queue may contain "=".
      def set_slots(text)
        name, _, slots = text.rpartition("=")
        raise OptionError, "--queue-slots must be NAME=N, but is #{text}" if name.empty?

        @queue_slots[name] = Jobq::Options.from_text(:slots, slots)
      end

      def check_pool(database, slots)
        return if database.pool_size >= slots

        raise OptionError, "#{slots} slots need as many connections; ActiveRecord's pool has #{database.pool_size}"
      end
    end
  end
end
