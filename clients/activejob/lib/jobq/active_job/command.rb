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
        @queues, @kinds, @requires = [], nil, []
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
        made = queues.map do |queue|
          Worker.new(handlers: handlers, connection: adapter.database.parameters, error_details: Jobq::ActiveJob.error_details,
                     on_error: Jobq::ActiveJob.on_error, **options_for(queue))
        end
        check_pool(adapter.database, made.sum { |worker| worker.options.slots })
        made
      end

      def queues
        return @queues.uniq if @queues.any?

        [@options[:queue] || Jobq::Options::DEFAULTS[:queue]]
      end

      def options_for(queue)
        own = @options.merge(queue: queue)
        own[:worker_id] = "#{own[:worker_id]} #{queue}" if own[:worker_id] && queues.size > 1
        own
      end

      def check_pool(database, slots)
        return if database.pool_size >= slots

        raise OptionError, "#{slots} slots need as many connections; ActiveRecord's pool has #{database.pool_size}"
      end
    end
  end
end
