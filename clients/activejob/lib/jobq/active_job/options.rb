# frozen_string_literal: true

module Jobq
  # Converts between ActiveJob's jobs and jobq's.
  module ActiveJob
    # Lets job classes set parameters of jobq_enqueue. A value may be a proc, which is called on the job when the job is enqueued:
    #   jobq unique_key: -> { "invoice #{arguments.first.id}" }, max_attempts: 5
    # For a single job: MyJob.set(jobq: { group_key: "a" }).perform_later A retry uses the parameters of the first enqueue, which
    # are stored in the payload.
    module Options
      extend ActiveSupport::Concern

      INTERVALS = %i[unique_for heartbeat_timeout max_runtime expires_in].freeze
      NAMES = (INTERVALS + %i[max_attempts unique_key on_conflict group_key concurrency_key depends_on on_dependency_failure
                              version requires metadata expires_at batch_id limits]).freeze

      included do
        class_attribute :jobq_class_options, instance_accessor: false, instance_predicate: false, default: {}
        attr_writer :jobq_duplicate
        prepend Set if method_defined?(:set)
      end

      class_methods do
        def jobq(**options)
          self.jobq_class_options = jobq_class_options.merge(Options.checked(options))
        end
      end

      def self.checked(options)
        unknown = options.keys - NAMES
        return options if unknown.empty?

        raise ArgumentError, "unknown option #{unknown.join(', ')}; the options are #{NAMES.sort.join(', ')}"
      end

      # Returns the time as text with a time zone. Accepts text, because a retry uses the text that is stored in the payload.
      def self.moment(at)
        return at if at.is_a?(String)
        return at.to_time.utc.iso8601(6) if at.is_a?(Time) || at.is_a?(DateTime) || at.is_a?(ActiveSupport::TimeWithZone)

        raise OptionError, "expires_at must be a Time, a DateTime or an ActiveSupport::TimeWithZone, which name one moment; it is #{at.inspect}"
      end

      # Returns whether a job with the unique key already existed. Then provider_job_id is the ID of the existing job.
      def jobq_duplicate?
        @jobq_duplicate == true
      end

      # Returns the Jobq::Job that is being performed, with check, set_progress and so on, or nil outside a worker, as with
      # perform_now.
      def jobq_job
        Performance.of(self)&.job
      end

      def jobq_options
        @jobq_options ||= self.class.jobq_class_options.merge(@jobq_given || {}).each_with_object({}) do |(name, value), found|
          value = value.arity.zero? ? instance_exec(&value) : instance_exec(self, &value) if value.is_a?(Proc)
          value = Parameters.interval(Jobq.checked_delay(name, value)) if INTERVALS.include?(name)
          value = Options.moment(value) if name == :expires_at && value
          found[name.to_s] = value unless value.nil?
        end
      end

      def enqueue(options = {})
        take_jobq_options(options)
        super
      end

      def serialize
        jobq_options.empty? ? super : super.merge("jobq" => jobq_options)
      end

      def deserialize(job_data)
        super
        @jobq_options = job_data["jobq"] || {}
      end

      private

      # Rejects a wait_until that is ambiguous: ActiveJob takes numbers and text for seconds since 1970, and a date has no time
      # zone.
      def check_time(at)
        return if at.nil? || at.is_a?(Time) || at.is_a?(DateTime) || at.is_a?(ActiveSupport::TimeWithZone)

        raise OptionError, "wait_until must be a Time, a DateTime or an ActiveSupport::TimeWithZone, which name one moment; it is #{at.inspect}"
      end

      def take_jobq_options(options)
        check_time(options[:wait_until])
        return unless options[:jobq]

        @jobq_given = (@jobq_given || {}).merge(Options.checked(options[:jobq]))
        @jobq_options = nil
      end

      # Adds "set" to jobs. ActiveJob 7.1 and later use it in enqueue and perform_all_later.
      module Set
        def set(options = {})
          take_jobq_options(options)
          super
        end
      end
    end
  end
end
