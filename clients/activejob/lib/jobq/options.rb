# frozen_string_literal: true

require "securerandom"
require "socket"

module Jobq
  # The options of a worker and their valid values. Their meaning is described in clients/README.md of the source tree.
  class Options
    MOST = 1000
    LONGEST = 365 * 86_400
    LEAST = { heartbeat_timeout: 0.01, heartbeat_interval: 0.01, wait_timeout: 0, poll_interval: 0.01, grace: 0 }.freeze
    DEFAULTS = {
      queue: "default", slots: 1, batch: nil, versions: nil, capabilities: nil, worker_id: nil, heartbeat_timeout: nil,
      heartbeat_interval: nil, wait_timeout: 30, poll_interval: nil, grace: 25, liveness_file: nil, liveness_port: nil,
      queues: nil, patterns: nil, queue_order: "listed"
    }.freeze
    ORDERS = %w[listed random oldest].freeze
    PORT = /\A(?:([^:\[\]]+):|\[([^\]]+)\]:)?([0-9]{1,5})\z/.freeze
    attr_reader(*DEFAULTS.keys)

    def self.new_worker_id
      "#{Socket.gethostname[0, 200]}-#{Process.pid}-#{SecureRandom.hex(4)}"
    end

    # Returns the options in environment variables such as JOBQ_QUEUE and JOBQ_SLOTS, for Worker.new(**).
    def self.of_environment(environment = ENV)
      DEFAULTS.keys.each_with_object({}) do |name, found|
        text = environment["JOBQ_#{name.to_s.upcase}"].to_s
        found[name] = from_text(name, text) unless text.empty? || %i[versions capabilities queues patterns].include?(name)
      end
    end

    def self.from_text(name, text)
      case name
      when :queue, :worker_id, :liveness_file, :liveness_port, :queue_order then text
      when :slots, :batch
        raise wrong(name, text, "be an integer from 1 to #{MOST}") unless /\A[0-9]{1,9}\z/.match?(text)

        text.to_i
      else
        raise wrong(name, text, "be a number of seconds") unless /\A[0-9]{1,12}(\.[0-9]{0,9})?\z/.match?(text)

        text.to_f
      end
    end

    def self.wrong(name, value, rule, verb = "is")
      OptionError.new("option \"#{name}\" must #{rule}; it #{verb} #{value.inspect}")
    end

    def initialize(**given)
      unknown = given.keys - DEFAULTS.keys
      raise OptionError, "unknown option #{unknown.join(', ')}; the options are #{DEFAULTS.keys.join(', ')}" if unknown.any?

      DEFAULTS.merge(given).each { |name, value| instance_variable_set(:"@#{name}", value) }
      @worker_id ||= self.class.new_worker_id
      use_queues(given) if queues || patterns
      check
      freeze
    end

    def most_claimed
      [batch || slots, slots].min
    end

    # Returns the names of the queues and the patterns, for messages.
    def queue_names
      (named_queues + given_patterns).map(&:inspect).join(", ")
    end

    def named_queues
      queues ? queues.keys : [queue]
    end

    def given_patterns
      patterns ? patterns.keys : []
    end

    # Returns the host, which is nil for all addresses, and the port.
    def liveness_address
      PORT.match(liveness_port.to_s) { |found| [found[1] || found[2], found[3].to_i] }
    end

    private

    # The queues of an array have the slots of the worker. The slots of the worker default to the sum of the slots in the hashes.
    def use_queues(given)
      { queues: 63, patterns: 126 }.each { |name, most| check_queues(name, most, given) unless value(name).nil? }
      own = [queues, patterns].grep(Hash).flat_map(&:values)
      @slots = [own.sum, MOST].min if own.any? && !given[:slots]
      @queues, @patterns = [queues, patterns].map do |named|
        (named.is_a?(Hash) ? named.dup : named.to_a.to_h { |name| [name, slots] }).freeze
      end
    end

    def check_queues(option, most, given)
      raise OptionError, "options \"queue\" and \"#{option}\" cannot be combined" if given.key?(:queue)

      named = value(option)
      names = named.is_a?(Hash) ? named.keys : named
      fits = names.is_a?(Array) && names.size.between?(1, MOST) && names.all? { |name| name.is_a?(String) && name.bytesize.between?(1, most) }
      wrong(option, "be an array of 1 to #{MOST} #{option}, or a hash with the slots of each queue") unless fits

      refused = option == :patterns && names.find { |pattern| !Patterns.valid?(pattern) }
      raise self.class.wrong(option, refused, "not have a pattern that ends with a single backslash", "has") if refused

      check_slots(option, named) if named.is_a?(Hash)
    end

    def check_slots(option, named)
      name, slots = named.find { |_, count| !count.is_a?(Integer) || !count.between?(1, MOST) }
      raise self.class.wrong(option, slots, "have an integer from 1 to #{MOST} as the slots of #{name.inspect}", "has") if name
    end

    def check
      wrong(:queue_order, "be #{ORDERS.map(&:inspect).join(' or ')}") unless ORDERS.include?(queue_order)
      check_name(:queue, 63)
      check_name(:worker_id, 255)
      if worker_id.start_with?("backend:")
        wrong(:worker_id, 'not begin with "backend:", which is reserved for workers without a name')
      end
      %i[slots batch].each do |name|
        next if name == :batch && batch.nil?

        wrong(name, "be an integer from 1 to #{MOST}") unless value(name).is_a?(Integer) && value(name).between?(1, MOST)
      end
      LEAST.each { |name, least| check_seconds(name, least) }
      check_list(:versions, Integer)
      check_list(:capabilities, String)
      check_name(:liveness_file, 4095) unless liveness_file.nil?
      check_port unless liveness_port.nil?
    end

    def value(name)
      instance_variable_get(:"@#{name}")
    end

    def wrong(name, rule)
      raise self.class.wrong(name, value(name), rule)
    end

    def check_name(name, most)
      fits = value(name).is_a?(String) && value(name).bytesize.between?(1, most)
      wrong(name, "be a text of 1 to #{most} bytes") unless fits
    end

    def check_port
      fits = [Integer, String].any? { |type| liveness_port.is_a?(type) } && liveness_address&.last&.between?(1, 65_535)
      wrong(:liveness_port, "be a port from 1 to 65535, or HOST:PORT") unless fits
    end

    # Accepts seconds, or an ActiveSupport duration.
    def check_seconds(name, least)
      given = value(name)
      return if given.nil? && DEFAULTS[name].nil?

      number = given.respond_to?(:to_f) && !given.is_a?(String) && !given.nil? ? given.to_f : nil
      wrong(name, "be a number of seconds from #{least} to #{LONGEST}") unless number&.between?(least, LONGEST)
      instance_variable_set(:"@#{name}", number)
    end

    def check_list(name, of)
      given = value(name)
      return if given.nil? || given.is_a?(Array) && given.all?(of)

      wrong(name, "be a list of #{of}")
    end
  end
end
