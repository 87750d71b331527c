# frozen_string_literal: true

module Jobq
  # Everything a worker does except running handlers. One thread claims and waits; another thread sends heartbeats and reports.
  class Core
    FIRST_POLL = 0.05
    LOOKS_EVERY = 600   # seconds between two checks for jobs of the queue that the worker does not claim
    NOT_PRELOADED = "55000"
    LINES_AT_ONCE = 5000   # log lines in one statement
    attr_reader :hand, :error

    # begin_job makes a job from a row, and run_job starts its handler. The claiming thread calls both.
    def initialize(options, kinds, given, log, begin_job:, run_job:, when_over:, failures: Failures.new(log))
      @options, @kinds, @given, @log = options, kinds.sort, given, log
      @begin_job, @run_job, @when_over = begin_job, run_job, when_over
      @hand = Hand.new(options)
      @presence = Presence.new(options, @kinds)
      @conflicts, @failures = Conflicts.new, failures
      @look_at = 0
      @wait_timeout = options.wait_timeout
      @pace = Pace.new(options, @hand, log)
      @claims, @beats = [Hand::CLAIMS, Hand::HEARTBEATS].map { |name| Line.new(name, options, given, @hand, log, @pace) }
    end

    # Connects and starts the threads. Raises an error if the first connections fail.
    def start
      Liveness.of_process.watch(@options, @hand, @log)
      connect_and_begin
    rescue StandardError
      Liveness.of_process.leave(@hand)
      raise
    end

    def stop
      first = !@hand.stopping?
      return unless @hand.stop

      what = first ? "stopping, no more claims, #{@options.grace} s for handlers" : "stopping at once"
      @log.info("#{@options.worker_id}: #{what}, #{@hand.in_hand.size} jobs in hand")
    end

    # Returns whether the worker ends within this time.
    def join(timeout = nil)
      !@threads[1].join(timeout).nil?
    end

    def clean?
      @error.nil? && !@hand.gave_up
    end

    def job_ended(job, outcome)
      outcome = @failures.ended(job, @conflicts.judge(job, outcome))
      log_outcome(job, outcome)
      @hand.ended(job, outcome)
    end

    private

    def connect_and_begin
      @claims.open
      look_at_the_server
      @hand.stand_in = StandIn.new(@given, Connection::DEFAULTS, @log)
      beats = thread("beats") { beat_all }   # started first, so that no job is claimed without heartbeats
      @threads = [thread("claims") { claim_all }, beats]
    rescue Broken, PG::Error, ThreadError
      @hand.stop
      @hand.no_more_claims
      @claims.close
      @beats.close unless beats   # otherwise the heartbeat thread closes it
      @hand.stand_in&.close
      raise
    end

    def thread(name, &block)
      Thread.new(&block).tap do |made|
        made.name = "jobq #{name}"
        made.report_on_exception = true
      end
    end

    def log_outcome(job, outcome)
      if outcome.what == :fail
        @log.warn("#{@options.worker_id}: #{job}#{outcome.text == 'cancelled' ? ': ' : ' has failed: '}#{outcome.text}")
      elsif outcome.what == :release && outcome.conflict
        @log.warn("#{@options.worker_id}: #{job}: its transaction collided with another one (#{outcome.text}), so it is given back")
      elsif outcome.what == :nothing && outcome.text == "lost" && job.cancelled != :lost
        log_lost(job)
      end
    end

    def log_lost(job)
      @log.warn("#{@options.worker_id}: #{job}: the lease is lost")
    end

    def look_at_the_server
      @pace.pooled = @options.poll_interval.nil? && @beats.pooled?
      @wait_timeout = [@wait_timeout, Pace::SHORT_WAIT].min if @pace.pooled
      @beats.rows(Statements::WAKE, @options.worker_id)
    rescue PG::UndefinedFunction
      database = @beats.open.raw.db
      raise PG::Error, "jobq is not installed: there is no jobq_wake() in database \"#{database}\" along its search_path. " \
                       "Run CREATE EXTENSION jobq in that database."
    rescue PG::ObjectNotInPrerequisiteState => e
      @log.info("#{@options.worker_id}: waits are short because they cannot be woken up: #{e.message.strip}")
      @wait_timeout = [@wait_timeout, Pace::SHORT_WAIT].min
    end

    # ---- the claiming thread

    def claim_all
      claim_until_stopped
    rescue Exception => e # rubocop:disable Lint/RescueException -- the worker must not continue without claims, whatever the
                          # error
      @log.error("#{@options.worker_id}: claims have ended: #{e.message.strip}")
      @error = e
      @hand.stop
    ensure
      @hand.no_more_claims
      @claims.close
    end

    def claim_until_stopped
      polls = 0
      while (completions, room = @hand.next_claim)
        begin
          look_for_others if completions.empty?
          if claim(completions, room)
            polls = 0
          elsif @hand.go_away
            wait(polls, room)
            polls += 1
          end
        rescue Broken
          @hand.disconnected
          @claims.reconnect
        rescue PG::Error => e
          raise unless Connection.again?(e)

          @log.warn("#{@options.worker_id}: claims collide with others, trying again: #{e.message.strip}")
          @hand.disconnected   # jobs that ended in the meantime are reported by the other thread
          @hand.rest(@claims.pause.take)
        end
      end
    end

    # Logs which jobs wait in the queue that have no kind, or a kind without a handler here. If the role cannot read the tables,
    # only the first check runs.
    def look_for_others
      return if @hand.now < @look_at

      @look_at = @hand.now + LOOKS_EVERY
      names = [@options.named_queues, @options.given_patterns, @kinds].map { |list| Parameters.array(list) }
      found = @claims.rows(Statements::OTHERS, *names).first["found"]
      @log.warn("#{@options.worker_id}: jobs that this worker does not claim are waiting in queue #{@options.queue_names}: #{found}") if found
    rescue PG::InsufficientPrivilege
      @look_at = Float::INFINITY
    rescue PG::Error => e
      @log.info("#{@options.worker_id}: could not count the jobs of other kinds: #{e.message.strip}")
    end

    # Claims jobs. Returns whether there may be more.
    def claim(completions, room)
      rows = ask_for_jobs(completions, Statements.claim_parameters(@options, @kinds, room, @presence.now, @hand.rooms)) or return true
      @hand.reported(completions.map(&:job))
      rows.each { |row| begin_job(@begin_job.call(row)) }
      rows.any?
    end

    # Starts the handler. If no thread can be started, this job and the other claimed jobs are given back, and the worker stops.
    def begin_job(job)
      return unless @hand.claimed(job)

      @hand.stand_in&.begin(job, [job.heartbeat_every, @options.heartbeat_interval].compact.min)
      @run_job.call(job)
    rescue ThreadError => e
      @log.error("#{@options.worker_id}: #{job} could not be started, and is given back: #{e.message}")
      @error = e
      @hand.not_begun(job)
      @hand.stop unless @hand.stopping?
    end

    # Returns the claimed rows, or nil after an error. Then each completion is reported alone, to find out which statement was
    # rejected.
    def ask_for_jobs(completions, parameters)
      any = @options.queues
      return @claims.rows(any ? Statements::CLAIM_ANY : Statements::CLAIM, *parameters) if completions.empty?

      @claims.rows(any ? Statements::COMPLETE_AND_CLAIM_ANY : Statements::COMPLETE_AND_CLAIM, *parameters, *lease_parameters(completions.map(&:job)),
                   results_of(completions))
    rescue Broken
      @hand.not_reported(completions, sent: true)
      raise
    rescue PG::Error => e
      again = Connection.again?(e)
      @hand.not_reported(completions, alone: !again)
      raise if again || completions.empty?

      nil
    end

    def wait(polls, room)
      longest = @options.poll_interval || @pace.longest_poll
      if longest
        @hand.rest([FIRST_POLL * 2**[polls, 20].min, longest].min)
      else
        rooms = @hand.rooms(waits: true)
        @claims.rows(rooms ? Statements::WAIT_ANY : Statements::WAIT, *Statements.wait_parameters(@options, @kinds, room, @wait_timeout, @presence.now, rooms))
      end
    rescue PG::QueryCanceled => e
      return if @wait_canceled

      @wait_canceled = true
      setting = @claims.rows("SHOW statement_timeout").first["statement_timeout"]
      @log.warn("#{@options.worker_id}: the server canceled a wait: #{e.message.strip}. The setting statement_timeout of this role or " \
                "database is #{setting}, and wait_timeout is #{@wait_timeout} s.")
    end

    # ---- the heartbeat thread

    def beat_all
      beat_until_over
    rescue Exception => e # rubocop:disable Lint/RescueException -- newly claimed jobs would get no heartbeats
      @error = e
      @hand.stop
      @log.error("#{@options.worker_id}: heartbeats have ended: #{e.full_message(highlight: false)}")
    ensure
      say_goodbye
      @beats.close
      if @hand.gave_up
        @log.error("#{@options.worker_id}: jobs that could not be reported: #{@hand.in_hand.map(&:id).join(', ')}")
      end
      @hand.stand_in&.close
      @when_over.call
      Liveness.of_process.leave(@hand)
    end

    # Tells the server that the worker has stopped, unless the server might not answer.
    def say_goodbye
      return if !@beats.open? || @hand.claiming? || @hand.gave_up

      @beats.rows(Statements::HEARTBEAT_MANY, *lease_parameters([]), @presence.last)
    rescue Broken, PG::Error => e
      @log.info("#{@options.worker_id}: the goodbye was not sent: #{e.message.strip}")
    end

    def beat_until_over
      pause = Pause.new
      retry_at = -Hand::NEVER
      until (beat = @hand.next_beat(retry_at)).nothing?
        retry_at = -Hand::NEVER
        begin
          do_beat(beat)
          pause.reset
        rescue Broken
          @hand.wake_failed if beat.wake
          @hand.not_reported(beat.reports, sent: true)
          @hand.beat_failed(beat.jobs)
          retry_at = @hand.now + pause.take
        end
      end
    end

    def do_beat(beat)
      @beats.open
      begin
        wake if beat.wake
        report_all(beat.reports)
      ensure
        heartbeat(beat)   # even if a report broke the connection, because perhaps only that report's shard is down
      end
    end

    def wake
      @beats.rows(Statements::WAKE, @options.worker_id)
    rescue PG::Error => e
      return if Jobq.sqlstate(e) == NOT_PRELOADED

      @log.warn("#{@options.worker_id}: the wait could not be woken: #{e.message.strip}")
    end

    # Sends the heartbeats of all jobs before progress, because progress may fail if its shard is down, and must not delay
    # heartbeats.
    def heartbeat(beat)
      heartbeats_and_progress(beat)
      write_lines(beat.lines)
    end

    def heartbeats_and_progress(beat)
      @hand.sending(beat.jobs) { |due| heartbeat_together(due) }
    ensure   # even if the heartbeats failed, perhaps because one shard is down: other shards can accept progress
      beat.progress.each { |job| @hand.sending([job]) { heartbeat_with_progress(job) } if @hand.runs?(job) }
    end

    # Sends the log lines of these jobs. If the server rejects lines, they are dropped, because they must not affect the jobs.
    def write_lines(jobs)
      lines = jobs.flat_map { |job| job.lines.take.map { |line| [job, line] } }
      again = []
      lines.each_slice(LINES_AT_ONCE) { |some| send_lines(some) }
    rescue Broken
      again = lines
      raise
    rescue PG::Error => e
      @log.error("#{@options.worker_id}: log lines of jobs #{jobs.map(&:id).join(', ')} were refused: #{e.message.strip}")
    ensure
      jobs.each { |job| job.lines.sent(again.select { |of, _| of.equal?(job) }.map(&:last)) }
      @hand.progressed unless lines.empty?   # wakes handlers that wait for this
    end

    # Sends the log lines of jobs that are about to be reported. If that breaks the connection, the reports are sent nevertheless,
    # because perhaps only the shard of one of these jobs is down.
    def write_last_lines(jobs)
      write_lines(jobs)
    rescue Broken
      nil
    end

    def send_lines(lines)
      @beats.rows(Statements::WRITE_LOG, *log_parameters(lines))
    rescue PG::UntranslatableCharacter   # the encoding of the database lacks a character
      @beats.rows(Statements::WRITE_LOG, *log_parameters(lines.map { |job, line| [job, line.in_ascii] }))
    end

    def log_parameters(lines)
      now = Lines.now
      logged = lines.map(&:last)
      [*lease_parameters(lines.map(&:first)), Parameters.array(logged.map(&:text)), Parameters.array(logged.map(&:level)),
       Parameters.array(logged.map { |line| now - line.at })]
    end

    def heartbeat_together(jobs)
      rows = @beats.rows(Statements::HEARTBEAT_MANY, *lease_parameters(jobs), @presence.now)
      jobs.zip(rows) do |job, row|
        @hand.stand_in&.beaten(job)
        heard(job, row["state"])
      end
    rescue PG::Error => e
      @log.error("#{@options.worker_id}: heartbeats were refused: #{e.message.strip}")
    end

    def heartbeat_with_progress(job)
      progress = job.take_progress(@hand.now)
      rows = @beats.rows(Statements::HEARTBEAT, job.id.to_s, job.lease.to_s, progress)
      heard(job, rows.first["jobq_heartbeat"])
    rescue Broken
      job.give_progress_back(progress)
      raise
    rescue PG::Error => e
      @log.error("#{@options.worker_id}: progress of #{job} was refused: #{e.message.strip}")
    ensure
      job.progress_under_way = false
    end

    def heard(job, state)
      case state
      when "held" then nil
      when "cancel" then job.stop(:cancel)
      else
        log_lost(job) unless state == "finished"
        @hand.lost(job, state)
      end
    end

    # ---- reports

    # Sends the reports and removes each from the list when it is done.
    def report_all(reports)
      %i[complete release].each do |what|
        together = reports.select { |report| report.outcome.what == what && !report.outcome.alone }
        next if together.empty?

        report_together(what, together)
        reports.reject! { |report| together.include?(report) }
      end
      until reports.empty?
        report_alone(reports.first)
        reports.shift
      end
    end

    def report_together(what, reports)
      jobs = reports.map(&:job)
      write_last_lines(jobs)
      jobs.each { |job| heartbeat_with_progress(job) if job.progress_is_new? }
      rows = send_together(what, reports)
      reports.zip(rows) do |report, row|
        if row["taken"] != "t"
          find_out(report.job, report.outcome)
        elsif what == :release
          @log.info("#{@options.worker_id}: #{report.job} has been released")
        end
      end
      @hand.reported(jobs)
    rescue PG::Error => e
      Connection.again?(e) ? collided(reports, e) : @hand.not_reported(reports, alone: true)
    end

    # Schedules the reports for another try, because a transaction of another session collided with them. Heartbeats continue.
    def collided(reports, error)
      @log.warn("#{@options.worker_id}: reports of jobs #{reports.map { |report| report.job.id }.join(', ')} collide with others, " \
                "trying again: #{error.message.strip}")
      @hand.collided(reports)
    end

    def send_together(what, reports)
      parameters = lease_parameters(reports.map(&:job))
      return @beats.rows(Statements::RELEASE_MANY, *parameters) if what == :release

      @beats.rows(Statements::COMPLETE_MANY, *parameters, results_of(reports))
    end

    def report_alone(report)
      job, outcome = report.job, report.outcome
      write_last_lines([job])
      return @hand.reported([job]) if outcome.what == :nothing   # only lines were left to send

      heartbeat_with_progress(job) if job.progress_is_new? && job.ended.nil? && !job.committing   # otherwise its row may be locked
      report_or_fail(job, outcome)
    end

    # Sends the report, or a failure if the server rejects the report. refused: whether the outcome already is such a failure.
    def report_or_fail(job, outcome, refused: false)
      find_out(job, outcome) unless taken?(job, outcome)
      @hand.reported([job])
    rescue Broken
      raise
    rescue StandardError => e   # includes values that cannot be converted to parameters
      return collided([Hand::Report.new(job, outcome)], e) if Connection.again?(e)

      text = Outcome.describe(e)
      @log.error("#{@options.worker_id}: the report of #{job} was refused: #{text.strip}")
      return report_or_fail(job, outcome.in_ascii, refused: refused) if outcome.unstorable?(e)
      return report_or_fail(job, outcome.without_details, refused: refused) if outcome.details   # perhaps only they are rejected
      return @hand.reported([job]) if refused && (outcome.what != :fail || outcome.retry_in.nil?)

      failed = outcome.refused(text)
      failed.retry_in = nil if refused   # the server may have rejected the delay
      report_or_fail(job, failed, refused: true)
    end

    def taken?(job, outcome)
      lease = [job.id.to_s, job.lease.to_s]
      case outcome.what
      when :complete then send_together(:complete, [Hand::Report.new(job, outcome)]).first["taken"] == "t"
      when :release then @beats.rows(Statements::RELEASE_BRIEFLY, *lease_parameters([job])).first["taken"] == "t"
      when :fail
        given = [outcome.text, Parameters.interval(outcome.retry_in), outcome.retry.to_s]
        !fail_with_details(*lease, *given, outcome.details).first["jobq_fail"].nil?
      when :snooze
        @beats.rows(Statements::SNOOZE, lease[0], Parameters.interval(outcome.retry_in), lease[1]).first["jobq_snooze"] == "t"
      else verified?(job, outcome)
      end
    end

    # Reports a failure. An older server has no jobq_fail() with details, so the failure is then reported without them.
    def fail_with_details(*values, details)
      return @beats.rows(Statements::FAIL_WITHOUT_DETAILS, *values) if @server_is_older

      @beats.rows(Statements::FAIL, *values, details)
    rescue PG::UndefinedFunction => e
      raise if @server_is_older

      @beats.rows(Statements::FAIL_WITHOUT_DETAILS, *values).tap do
        @log.warn("#{@options.worker_id}: failures are reported without details, because jobq is older on the server than here: " \
                  "#{e.message.strip}")
        @server_is_older = true
      end
    end

    # Finds out whether the transaction in which the handler completed the job has committed. If that transaction is still open,
    # the statement waits only briefly (55P03) and is repeated, so that no other job misses a heartbeat.
    def verified?(job, outcome)
      state = ask_briefly(job)
      return Outcome.finished?(state) unless %w[held cancel].include?(state)

      failed = Outcome.of(:fail, outcome.text || "the transaction that completed the job has not committed")
      failed.conflict, failed.details = outcome.conflict, outcome.details
      judged = @conflicts.judge(job, failed)
      log_outcome(job, judged)
      taken?(job, judged)
    end

    # Marks the lease as lost, unless an earlier report of this worker ended the job and only its answer was lost.
    def find_out(job, outcome)
      state = ask_briefly(job)
      log_lost(job) unless state == "finished" || outcome.sent && Outcome.finished?(state)
    rescue PG::Error => e
      @log.error("#{@options.worker_id}: #{job}: it is unknown whether its report arrived: #{e.message.strip}")
    end

    def ask_briefly(job)
      @beats.rows(Statements::HEARTBEAT_BRIEFLY, job.id.to_s, job.lease.to_s).first["jobq_heartbeat"]
    end

    def lease_parameters(jobs)
      [Parameters.array(jobs.map(&:id)), Parameters.array(jobs.map(&:lease))]
    end

    def results_of(reports)
      Parameters.array(reports.map { |report| report.outcome.result })
    end
  end
end
