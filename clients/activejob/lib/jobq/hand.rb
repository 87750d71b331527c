# frozen_string_literal: true

require "monitor"

module Jobq
  # The jobs that a worker has in hand: claimed, but not yet reported. All data that threads share is here, under one lock. Needs
  # no server: this class tells the claiming thread and the heartbeat thread what to do next.
  class Hand
    LAST_LOOK = 1.0      # seconds in which handlers may notice that the worker stops
    LAST_REPORTS = 5.0   # seconds in which the last reports must be sent
    LONGEST_PAUSE = 1.0  # seconds between two tries of a report that collides
    PROGRESS_EVERY = 1.0
    NEVER = Float::INFINITY
    CLAIMS, HEARTBEATS = "claims", "heartbeats"   # the two threads
    PATIENCE = 120.0     # seconds after which a thread that shows no sign of life is stuck. A connection to a vanished server
                         # breaks earlier, and a worker that reconnects is alive

    Report = Struct.new(:job, :outcome)
    # The next task of the heartbeat thread. An empty beat ends the thread.
    #   jobs       jobs whose heartbeats are due, sent together
    #   progress   jobs whose heartbeat is sent with new progress
    #   lines      jobs whose log lines are sent, in one statement
    Beat = Struct.new(:wake, :reports, :jobs, :progress, :lines) do
      def initialize(wake, reports, jobs, progress, lines = [])
        super
      end

      def nothing?
        !wake && reports.empty? && jobs.empty? && progress.empty? && lines.empty?
      end
    end

    attr_reader :gave_up
    attr_accessor :stand_in   # is told about jobs that are no longer in hand

    def initialize(options)
      @slots, @most, @longest, @grace = options.slots, options.most_claimed, options.heartbeat_interval, options.grace
      @queues = options.queues   # slots of each queue of a worker that serves several queues
      @patterns = Patterns.new(options.patterns) if options.patterns&.any?
      @left_out = []             # queues for which the claiming thread does not wait, because their slots are taken
      @lock = Monitor.new
      @changed = @lock.new_cond
      @jobs = {}          # keyed by lease, because a job may come a second time before its first handler has ended
      @running = {}       # leases whose handlers have not ended, and the queues of their jobs
      @completions = []   # completions to send with the next claim, unless the claiming thread is away
      @reports = []
      @in_flight = {}     # leases that are being reported
      @beating = []       # jobs whose heartbeats are being sent
      @claiming = true    # whether the claiming thread is still running
      @away = false       # whether the claiming thread waits for jobs or for a connection
      @must_wake = @abandoned = @gave_up = false
      @stopped_at = @stop_at = @released_at = nil   # stop_at: end of the grace period
      # When each thread will show its next sign of life, if its statement is answered at once. Never, while the thread waits for
      # the other threads.
      @due = { CLAIMS => NEVER, HEARTBEATS => NEVER }
    end

    # Called by a thread before it sends a statement or sleeps: its next sign of life follows after this time.
    def expect(thread, seconds)
      @due[thread] = now + seconds
    end

    # Returns whether the claiming thread is still running.
    def claiming?
      @lock.synchronize { @claiming }
    end

    # Returns which thread is stuck, or nil. Claims are not needed while the worker stops. Takes no lock, because the thread may be
    # stuck with the lock.
    def stuck
      [CLAIMS, HEARTBEATS].find { |thread| now > @due[thread] + PATIENCE && (thread != CLAIMS || @stop_at.nil?) }
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # ---- the claiming thread

    # Waits until a slot is free and there are no more outstanding reports than slots. Returns the reports to complete with the
    # claim and the number of jobs to claim, or nil if nothing may be claimed anymore.
    def next_claim
      @lock.synchronize do
        @away = false
        @left_out = []
        loop do
          if @stop_at
            @away = true
            @changed.broadcast
            return nil
          end
          room = [@slots - @running.size, @slots - @reports.size - @in_flight.size, @most].min
          room = [room, free_slots.values.sum].min if @queues && !@patterns
          if room.positive?
            expect(CLAIMS, 0)
            return [take_completions, room]
          end
          expect(CLAIMS, NEVER)
          @changed.wait
        end
      end
    end

    # Returns the free slots of each queue that has any, in the order of the queues; nil if the worker serves one queue. If the worker
    # has patterns, includes queues without free slots and queues of patterns that have running jobs, because the patterns would select
    # all of these queues. waits: the claiming thread is about to wait for jobs of these queues, so its wait must end when a slot of
    # another queue becomes free.
    def rooms(waits: false)
      @lock.synchronize do
        next unless @queues

        free_slots.tap { |rooms| @left_out = (@queues.keys | rooms.keys).reject { |queue| rooms.fetch(queue, 0).positive? } if waits }
      end
    end

    # Adds a claimed job. Returns false if the worker is stopping, so that the job is given back.
    def claimed(job)
      @lock.synchronize do
        job.hand = self
        job.beat_at = now
        @jobs[job.lease] = job
        if @stop_at
          @reports << Report.new(job, Outcome.of(:release))
        else
          @running[job.lease] = job.queue
        end
        @changed.broadcast
        @stop_at.nil?
      end
    end

    # No handler has it.
    def not_begun(job)
      @lock.synchronize do
        @running.delete(job.lease)
        @reports << Report.new(job, Outcome.of(:release))
        @changed.broadcast
      end
    end

    # Before that thread sleeps; false: there is something to do.
    def go_away
      @lock.synchronize { @away = @completions.empty? && @stop_at.nil? }
    end

    # That thread has no connection: perhaps the other one has.
    def disconnected
      @lock.synchronize do
        @away = true
        @changed.broadcast
      end
    end

    # Sleeps, unless it is to stop.
    def rest(seconds)
      ends = now + seconds
      expect(CLAIMS, seconds)
      @lock.synchronize do
        while @stop_at.nil? && (left = ends - now).positive?
          @changed.wait(left)
        end
      end
    end

    def no_more_claims
      @lock.synchronize do
        @claiming = false
        @away = true
        expect(CLAIMS, NEVER)
        @changed.broadcast
      end
    end

    # ---- handlers

    def ended(job, outcome)
      @lock.synchronize do
        if @left_out.include?(@running.delete(job.lease))
          @left_out = []
          @must_wake = true
        end
        has_ended(job, outcome) unless job.abandoned
        @changed.broadcast
      end
    end

    # Waits until the log lines of the job have been sent, for at most 5 seconds. The caller is about to end the attempt.
    def flush(job)
      ends = now + [job.heartbeat_every, LAST_REPORTS].min
      @lock.synchronize do
        return unless job.lines.pending?

        job.lines.wanted = true
        @changed.broadcast
        while job.lines.pending? && @jobs.key?(job.lease) && !@gave_up && (left = ends - now).positive?
          @changed.wait(left)
        end
      end
    end

    def progressed
      @lock.synchronize { @changed.broadcast }
    end

    # Waits until no heartbeat of the job is being sent, for at most one interval. The caller is about to lock the job's row until a
    # commit that may come much later. A heartbeat that is already on its way would wait for this lock, and the heartbeats of all
    # other jobs would wait with it.
    def settle(job)
      ends = now + job.heartbeat_every
      @lock.synchronize do
        while @beating.include?(job) && (left = ends - now).positive?
          @changed.wait(left)
        end
      end
    end

    def running?
      @lock.synchronize { !@running.empty? }
    end

    def in_hand
      @lock.synchronize { @jobs.values }
    end

    # ---- reports

    def reported(jobs)
      @lock.synchronize do
        jobs.each do |job|
          forget(job)
          @in_flight.delete(job.lease)
        end
        @changed.broadcast
      end
    end

    # They are to be sent again, by the thread that heartbeats.
    def not_reported(reports, alone: false, sent: false)
      @lock.synchronize do
        reports.each do |report|
          @in_flight.delete(report.job.lease)
          @reports << Report.new(report.job, report.outcome.again(alone: alone, sent: sent))
        end
        @changed.broadcast
      end
    end

    # They are to be sent again, each after its pause; nothing else waits for them.
    def collided(reports)
      at = now
      again = reports.map do |report|
        pause = Pause.after(report.outcome.collisions + 1, LONGEST_PAUSE)
        Report.new(report.job, report.outcome.collided(at + pause))
      end
      not_reported(again)
    end

    # A heartbeat has been told so. Of a job whose report is under way the report's answer counts.
    def lost(job, state)
      @lock.synchronize do
        return unless @running.key?(job.lease)

        forget(job)
        @changed.broadcast
      end
      job.stop(:lost) unless state == "finished"
    end

    def runs?(job)
      @lock.synchronize { @running.key?(job.lease) }
    end

    # Seconds between two heartbeats of the jobs in hand, or nil.
    def interval_in_hand
      @lock.synchronize { @jobs.empty? ? nil : interval }
    end

    # ---- the thread that heartbeats

    # Blocks until something is to be done; not before retry_at, but for the end.
    def next_beat(retry_at = -NEVER)
      @lock.synchronize do
        loop do
          at = now
          end_of_grace(at)
          return Beat.new(false, [], [], []) if over?(at)

          if at >= retry_at
            beat = Beat.new(take_wake, take_reports(at), *take_due(at))
            expect(HEARTBEATS, 0)
            return beat unless beat.nothing?
          end
          left = wait_at_most(at, retry_at)
          expect(HEARTBEATS, left || NEVER)
          @changed.wait(left)
        end
      end
    end

    # Yields those jobs that still need a heartbeat, because some may have ended after their beat was taken. The block sends their
    # heartbeats.
    def sending(jobs)
      due = @lock.synchronize { @beating = jobs.select { |job| @jobs.key?(job.lease) && !told?(job) } }
      yield due if due.any?
    ensure
      @lock.synchronize do
        @beating = []
        @changed.broadcast
      end
    end

    def wake_failed
      @lock.synchronize { @must_wake = @claiming }
    end

    def beat_failed(jobs)
      @lock.synchronize { jobs.each { |job| job.beat_at = -NEVER } }
    end

    # ---- the end

    # The first call begins the grace, the second one ends it. False: it had ended before.
    def stop
      @lock.synchronize do
        first = @stop_at.nil?
        if first
          @stopped_at = now
          @stop_at = @stopped_at + @grace
          @must_wake = true
        else
          @stop_at = [@stop_at, now].min
        end
        @changed.broadcast
        first || @released_at.nil?
      end
    end

    def stopping?
      @lock.synchronize { !@stop_at.nil? }
    end

    private

    # ---- under the lock

    def has_ended(job, outcome)
      held = @jobs.key?(job.lease)
      if outcome.what == :nothing || !held
        if job.lines.pending?   # for example because the lease is lost: the server keeps the lines as late
          @reports << Report.new(job, Outcome.of(:nothing))
        elsif held
          forget(job)
        end
      elsif outcome.what == :complete && !job.progress_is_new? && !job.progress_under_way && !job.lines.pending?
        @completions << Report.new(job, outcome)
      else
        @reports << Report.new(job, outcome)
      end
    end

    def forget(job)
      @jobs.delete(job.lease)
      @stand_in&.ended(job)
    end

    def free_slots
      taken = @running.values.tally
      of_patterns = @patterns ? (taken.keys - @queues.keys).to_h { |queue| [queue, @patterns.slots_of(queue)] }.compact : {}
      rooms = @queues.merge(of_patterns).to_h { |queue, slots| [queue, [slots - taken.fetch(queue, 0), 0].max] }
      @patterns ? rooms : rooms.select { |_, room| room.positive? }
    end

    def take_completions
      taken, @completions = @completions, []
      taken.each { |report| @in_flight[report.job.lease] = true }
    end

    def take_reports(at)
      due, @reports = @reports.partition { |report| report.outcome.not_before <= at }
      taken = (@away ? take_completions : []) + due
      taken.each { |report| @in_flight[report.job.lease] = true }
    end

    def take_wake
      wake, @must_wake = @must_wake, false
      wake
    end

    def interval
      (@jobs.each_value.map(&:heartbeat_every) + [@longest || NEVER]).min
    end

    def all_due_at
      @jobs.each_value.map(&:beat_at).min + interval
    end

    def with_progress
      @jobs.values.select { |job| job.progress_is_new? && @running.key?(job.lease) && !told?(job) }
    end

    # The server knows what it has come to, or is being told. A heartbeat would wait for that, and all others with it.
    def told?(job)
      @in_flight.key?(job.lease) || !job.ended.nil? || job.committing
    end

    def due_at
      return NEVER if @jobs.empty?

      ([all_due_at] + with_progress.map { |job| job.progress_at + PROGRESS_EVERY }).min
    end

    # The jobs, the progress, and the log lines of a Beat.
    def take_due(at)
      progress = with_progress
      lines = @jobs.values.select { |job| job.lines.pending? }
      if @jobs.empty? || all_due_at > at
        return [[], progress.select { |job| job.progress_at + PROGRESS_EVERY <= at }, lines.select { |job| job.lines.wanted }]
      end

      @jobs.each_value { |job| job.beat_at = at }
      [@jobs.values.reject { |job| told?(job) }, progress, lines]
    end

    # nil: until something changes.
    def wait_at_most(at, retry_at)
      times = at >= retry_at ? [due_at, *@reports.map { |report| report.outcome.not_before }] : [retry_at]
      if @stop_at
        times << @stopped_at + LAST_REPORTS if at < @stopped_at + LAST_REPORTS
        if @released_at.nil?
          times << @stop_at if at < @stop_at
          times << @stop_at + LAST_LOOK + LAST_REPORTS
        else
          times << @released_at + LAST_LOOK unless @abandoned
          times << @released_at + LAST_LOOK + LAST_REPORTS
        end
      end
      earliest = times.min
      earliest == NEVER ? nil : [earliest - at, 0.001].max
    end

    def end_of_grace(at)
      return if @stop_at.nil? || at < @stop_at || @jobs.empty?

      if @released_at.nil?
        @released_at = at
        @jobs.values.each { |job| job.stop(:stopping) } # rubocop:disable Style/HashEachMethods
      end
      return if @abandoned || at < @released_at + LAST_LOOK && !@running.empty?

      @abandoned = true
      @jobs.each do |lease, job|
        next unless @running.key?(lease)

        job.abandoned = true
        told = !job.ended.nil?
        # Its row may be in a transaction that is open: the others do not wait for it.
        @reports << Report.new(job, Outcome.of(:release).again(alone: told || job.committing, sent: told))
      end
    end

    def over?(at)
      return false if @stop_at.nil?
      # If there is no connection to end the wait, or to send the last log lines of jobs whose lease is lost, the worker can still
      # stop, because it has no jobs in hand.
      late = at >= @stopped_at + LAST_REPORTS
      return true if @jobs.empty? && (!@claiming || @away && late) && (@reports.empty? || late)

      @gave_up = at >= (@released_at || @stop_at) + LAST_LOOK + LAST_REPORTS
    end
  end
end
