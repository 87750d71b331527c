// A jobq worker in Java that uses JDBC (Java 17 and newer). Copy this file. Contract: clients/CONTRACT.md.
//
//     var worker = new JobqWorker(JobqWorker.Options.fromEnvironment(), "jdbc:postgresql://host/db", properties);
//     worker.handle("welcome", job -> job.completing(conn -> { ...; return "{\"sent\": true}"; }));
//     System.exit(worker.run());
//
// A process can run only one worker, because run() installs signal handlers. Start a process for each queue.
//
// Payloads, results, and progress are JSON text, for a JSON library of your choice. Each handler runs in a thread, which is
// interrupted when the handler should stop. jobq needs these settings of the driver: autocommit for claims (the default),
// prepareThreshold=0 with PgBouncer before 1.21, and casts ("?::jsonb") or stringtype=unspecified. run() handles SIGTERM and
// SIGINT with sun.misc.Signal, because a shutdown hook could neither end the process with status 0 nor notice a second signal.

import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.nio.channels.ClosedByInterruptException;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.postgresql.PGConnection;

public final class JobqWorker {
    /** Returns the result of the job as JSON, or null. */
    public interface Handler { String handle(Job job) throws Exception; }

    public interface Work { String on(Connection connection) throws Exception; }

    private interface Statement<T> { T on(Connection connection) throws SQLException; }

    /**
     * The attempt has failed. The job is retried after retryIn seconds, or after the queue's backoff if it is null; with isFinal,
     * never.
     */
    public static final class Fail extends Exception {
        final Double retryIn;
        final boolean isFinal;
        public Fail(String message, Double retryIn, boolean isFinal) { super(message); this.retryIn = retryIn; this.isFinal = isFinal; }
    }

    /** Gives the job back, to run again after the delay. The attempt is not counted. */
    public static final class Snooze extends Exception {
        final double delay;
        public Snooze(double delay) { super("snoozed"); this.delay = delay; }
    }

    /** The handler should stop. An Error, so that "catch (Exception e)" in a handler does not keep it from stopping. */
    public static final class Stop extends Error {
        public final String reason;
        Stop(String reason) { super("the handler should stop: " + reason); this.reason = reason; }
    }

    /** The job waits, and has been given back. */
    public static final class Waiting extends Error { }

    private static final class Broken extends Exception { }

    public record Options(String queue, String workerId, int slots, Double heartbeatTimeout, Double heartbeatInterval, double waitTimeout,
                          double grace) {
        public Options {
            if (slots < 1 || slots > 1000) throw wrong("slots", slots, "be an integer from 1 to 1000");
            if (workerId.startsWith("backend:")) throw wrong("worker_id", workerId, "not begin with \"backend:\"");
        }

        public static Options fromEnvironment() {
            String name = host() + "-" + ProcessHandle.current().pid() + "-"
                + Long.toHexString(ThreadLocalRandom.current().nextLong());
            String slots = text("slots", "1");
            if (!slots.matches("[0-9]{1,4}")) throw wrong("slots", slots, "be an integer from 1 to 1000");
            return new Options(text("queue", "default"), text("worker_id", name), Integer.parseInt(slots), number("heartbeat_timeout", null),
                number("heartbeat_interval", null), number("wait_timeout", "30"), number("grace", "25"));
        }

        private static String host() {
            try {
                return InetAddress.getLocalHost().getHostName();
            } catch (UnknownHostException e) {
                return "java";
            }
        }

        private static String text(String name, String standard) {
            String value = System.getenv("JOBQ_" + name.toUpperCase());
            return value == null || value.isEmpty() ? standard : value;
        }

        private static Double number(String name, String standard) {
            String text = text(name, standard);
            if (text == null) return null;
            double least = name.startsWith("heartbeat") ? 0.01 : 0;
            if (!text.matches("[0-9]{1,9}(\\.[0-9]+)?") || Double.parseDouble(text) < least)
                throw wrong(name, text, "be a number of seconds, at least " + least);
            return Double.valueOf(text);
        }

        private static IllegalArgumentException wrong(String name, Object value, String rule) {
            return new IllegalArgumentException("option \"" + name + "\" must " + rule + "; it is " + value);
        }
    }

    /** The job that a handler receives. */
    public final class Job {
        public final long id, lease;
        public final String kind, payload, progress, metadata;
        public final int attempt;
        private final int heartbeatSeconds;
        private final Object lock = new Object();
        private Thread thread;
        private Connection connection;
        private volatile String reason, newProgress;
        private volatile long beatAt = System.nanoTime();
        private volatile boolean reporting, done;

        Job(ResultSet row) throws SQLException {
            id = row.getLong("id");
            lease = row.getLong("lease");
            kind = row.getString("kind");
            payload = row.getString("payload");
            progress = row.getString("progress");
            metadata = row.getString("metadata");
            attempt = row.getInt("attempt");
            heartbeatSeconds = row.getInt("heartbeat_seconds");
        }

        /** Returns why the handler should stop: null, "cancel", "lost" or "stopping". */
        public String cancelled() { return reason; }

        public void check() { if (reason != null) throw new Stop(reason); }

        /** Reports progress with a heartbeat, within about a second. */
        public void setProgress(String json) { newProgress = json; }

        private void stop(String why) {
            synchronized (lock) {
                if (reason == null || why.equals("lost")) reason = why;
                if (thread != null) thread.interrupt();
            }
        }

        /** Returns false if a report has already begun. */
        private boolean beginReport() {
            synchronized (lock) {
                boolean first = !reporting;
                reporting = true;
                return first;
            }
        }

        /** Returns a connection of the job's own, which is closed when the handler has ended. */
        public Connection connection() throws SQLException {
            if (connection == null || connection.isClosed()) connection = connect();
            return connection;
        }

        /** Commits the writes of the work together with the completion of the job, or neither. The work returns the result. */
        public String completing(Work work) throws Exception {
            transaction(work, (conn, result) -> one(conn, "SELECT jobq_complete(?, ?, ?::jsonb, must_hold => true)", id, lease, result));
            done = true;
            return null;
        }

        /** Does the work once, even if the job is retried: its writes commit together with its result. */
        public String step(String name, Work work) throws Exception {
            String[] state = pair(connection(), "SELECT state, result FROM jobq_step(?, ?, ?)", id, lease, name);
            if (state[0].equals("done")) return state[1];
            if (!state[0].equals("run")) gone(state[0]);
            return transaction(work, (conn, result) ->
                one(conn, "SELECT result FROM jobq_step_done(?, ?, ?, ?::jsonb)", id, lease, name, result));
        }

        /** Returns the payload of a signal. The job occupies no worker while it waits. */
        public String waitFor(String event) throws SQLException {
            String[] state = pair(connection(), "SELECT state, payload FROM jobq_await(?, ?, ?)", id, lease, event);
            if (state[0].equals("waiting")) throw new Waiting();
            if (!state[0].equals("ready")) gone(state[0]);
            return state[1];
        }

        private void gone(String state) {
            stop(state.equals("lost") ? "lost" : "cancel");
            check();
        }

        private interface Last { String on(Connection connection, String result) throws SQLException; }

        private String transaction(Work work, Last last) throws Exception {
            Connection conn = connection();
            conn.setAutoCommit(false);
            try {
                String said = last.on(conn, work.on(conn));
                conn.commit();
                if (!conn.isClosed()) conn.setAutoCommit(true);
                return said;
            } catch (Throwable error) {
                undo(conn, error);
                if (error instanceof SQLException refused && LOST.equals(refused.getSQLState())) gone("lost");
                throw error;
            }
        }

        /**
         * Rolls back and keeps the original error. If the rollback fails, closes the connection, because autocommit would commit
         * the writes.
         */
        private void undo(Connection conn, Throwable error) {
            try {
                conn.rollback();
                conn.setAutoCommit(true);
            } catch (SQLException second) {
                error.addSuppressed(second);
                close(conn);
            }
        }
    }

    private static final String LOST = "JQ001";
    private static final double ANSWERED_WITHIN = 30;
    private static final double SHORT_WAIT = 2;   // length in seconds of a wait that cannot be woken or that uses a pooler
    private static final List<String> CONFLICT = List.of("40001", "40P01");
    /**
     * Maximum number of times that the worker gives a job back because the job's own transaction collided with another one. The
     * next collision counts as a failed attempt, so that a job that always collides ends.
     */
    private static final int MOST_CONFLICTS = 10;
    private final Options options;
    private final String url;
    private final Properties properties = new Properties();
    private final Map<String, Handler> handlers = new HashMap<>();
    private final Map<Long, Job> running = new HashMap<>();   // by lease; its own lock
    private final Map<Long, Integer> conflicts = new HashMap<>();   // number of collisions of the job's own transaction, by job
                                                                    // ID; its own lock
    private boolean waitsCanceled, pooled, polling;
    private volatile boolean hasPolled;
    private long pollsUntil;
    private int polls;   // number of polls in a row
    private final ExecutorService threads = Executors.newCachedThreadPool(JobqWorker::daemon);
    private final Object beatsLock = new Object();
    private Connection claims, beats;
    private volatile boolean stopping, atOnce, unreported;
    private volatile long giveUpAt = Long.MAX_VALUE;
    private volatile Throwable failure;
    private final BlockingQueue<Runnable> asides = new LinkedBlockingQueue<>();
    private double waitTimeout;

    public JobqWorker(Options options, String url, Properties properties) {
        this.options = options;
        this.url = url;
        this.waitTimeout = options.waitTimeout;
        this.properties.putAll(Map.of("connectTimeout", "10", "tcpKeepAlive", "true", "prepareThreshold", "0",
            "ApplicationName", "jobq " + options.queue));
        this.properties.putAll(properties);
    }

    /** Registers the handler of a kind. The kind "" stands for jobs without a kind. */
    public void handle(String kind, Handler handler) { handlers.put(kind, handler); }

    /**
     * Works until SIGTERM or SIGINT and returns the exit status. The process should end then, because abandoned handlers still
     * run.
     */
    public int run() throws Exception {
        if (handlers.isEmpty()) throw new IllegalArgumentException("option \"handlers\" must name at least one kind");
        open();
        say("serves queue \"" + options.queue + "\", kinds " + new TreeSet<>(handlers.keySet()) + "; leaves jobs of other kinds to other workers");
        for (String name : List.of("TERM", "INT")) onSignal(name);
        Thread claimer = daemon(this::claimAll);
        claimer.start();
        daemon(this::heartbeatAll).start();
        daemon(this::runAsides).start();
        synchronized (running) {
            while (!stopping) running.wait();
        }
        say("stopping, no more claims");
        asides.add(() -> attempt(conn -> one(conn, "SELECT jobq_wake(?)", options.workerId)));
        long deadline = System.nanoTime() + (long) (options.grace * 1e9);
        synchronized (running) {
            while (!(running.isEmpty() && !claimer.isAlive()) && !atOnce && System.nanoTime() < deadline) running.wait(50);
        }
        boolean clean = giveBack();
        say("stopped");
        return clean && failure == null ? 0 : 1;
    }

    private void onSignal(String name) {
        sun.misc.Signal.handle(new sun.misc.Signal(name), signal -> {
            synchronized (running) {
                atOnce = stopping;
                stopping = true;
                running.notifyAll();
            }
        });
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private void say(String text) { System.err.println(options.workerId + ": " + text); }

    private List<Job> held() {
        synchronized (running) { return new ArrayList<>(running.values()); }
    }

    /**
     * Ends the handlers after the grace period. Handlers that check for cancellation get a second to stop; then the jobs of the
     * other handlers are released. Waits for the reports of handlers that have ended.
     */
    private boolean giveBack() throws InterruptedException {
        for (Job job : held()) job.stop("stopping");
        long deadline = System.nanoTime() + 1_000_000_000L;
        synchronized (running) {
            while (!running.isEmpty() && System.nanoTime() < deadline) running.wait(20);
        }
        List<Job> left = held();
        left.removeIf(job -> !job.beginReport());
        giveUpAt = System.nanoTime() + 5_000_000_000L;
        CompletableFuture<Boolean> clean = new CompletableFuture<>();
        asides.add(() -> {
            boolean all = true;
            for (Job job : left) {
                String answer = attempt(conn -> one(conn, "SELECT jobq_release(?, ?)", job.id, job.lease));
                if ("t".equals(answer)) say("job " + job.id + " of kind " + job.kind + ": released, its handler has not stopped");
                all &= answer != null;
                ended(job);
            }
            clean.complete(all);
        });
        try {
            boolean all = clean.get(6, TimeUnit.SECONDS);
            synchronized (running) {
                while (!running.isEmpty() && System.nanoTime() < giveUpAt) running.wait(20);
            }
            held().forEach(this::couldNotReport);
            return all && !unreported;
        } catch (ExecutionException | TimeoutException late) {
            return false;
        }
    }

    private void couldNotReport(Job job) {
        unreported = true;
        say("job " + job.id + " of kind " + job.kind + " could not be reported");
    }

    /**
     * Runs calls for which the caller must not wait, because a pooler without a server does not answer. The thread starts with
     * the worker, because it may be impossible to start a thread when jobs must be given back.
     */
    private void runAsides() {
        while (true) {
            try {
                asides.take().run();
            } catch (InterruptedException | RuntimeException error) {
                say("aside: " + error);
            }
        }
    }

    // ---- connections

    private Connection connect() throws SQLException { return DriverManager.getConnection(url, properties); }

    /**
     * Returns a connection on which answers must arrive within this time, because TCP notices a vanished host only after two
     * hours.
     */
    private Connection connect(double patience) throws SQLException {
        Properties own = new Properties();
        own.putAll(properties);
        own.putIfAbsent("socketTimeout", String.valueOf((int) Math.min(Math.ceil(patience), 1e6)));
        return DriverManager.getConnection(url, own);
    }

    private Connection connectClaims() throws SQLException { return connect(ANSWERED_WITHIN + options.waitTimeout); }

    /** Opens the first connections and fails if one of them fails. */
    private void open() throws SQLException {
        claims = connectClaims();
        beats = connect(ANSWERED_WITHIN);
        pooled = beats.isWrapperFor(PGConnection.class)
            && !one(beats, "SELECT pg_backend_pid()").equals(String.valueOf(beats.unwrap(PGConnection.class).getBackendPID()));
        if (pooled) waitTimeout = Math.min(waitTimeout, SHORT_WAIT);
        try {
            one(beats, "SELECT jobq_wake(?)", options.workerId);
        } catch (SQLException error) {
            if ("42883".equals(error.getSQLState())) throw new SQLException("jobq is not in this database: " + error.getMessage(), error);
            if (!"55000".equals(error.getSQLState())) throw error;
            waitTimeout = Math.min(waitTimeout, SHORT_WAIT);   // not preloaded: waits cannot be woken
        }
    }

    /**
     * Returns whether the error requires a new connection. Collisions (40001, 40P01) only need another try, which a new
     * connection provides.
     */
    private static boolean isBroken(Connection connection, SQLException error) {
        String state = error.getSQLState();
        try {
            return connection == null || connection.isClosed() || state == null || state.matches("(08|53|57|58).*|25006|40001|40P01");
        } catch (SQLException closed) {
            return true;
        }
    }

    private static void close(Connection connection) {
        try {
            if (connection != null) connection.close();
        } catch (SQLException error) {
            // The connection is closed in any case.
        }
    }

    private <T> T onBeats(Statement<T> statement) throws SQLException, Broken {
        synchronized (beatsLock) {
            try {
                if (beats == null) beats = connect(ANSWERED_WITHIN);
                long begun = System.nanoTime();
                T answer = statement.on(beats);
                answered(begun);
                return answer;
            } catch (SQLException error) {
                if (!isBroken(beats, error)) throw error;
                say("the connection is broken, trying again: " + error.getMessage());
                close(beats);
                beats = null;
                throw new Broken();
            } catch (Error error) {   // the connection may be in the middle of an answer
                close(beats);
                beats = null;
                throw error;
            }
        }
    }

    /** Repeats the statement until the server answers. Returns null if the server rejects it or the worker gives up. */
    private String attempt(Statement<String> statement) {
        for (long pause = 100; ; pause = Math.min(pause * 2, 5000)) {
            try {
                return onBeats(statement);
            } catch (SQLException error) {
                say("refused: " + error.getMessage());
                return null;
            } catch (Broken broken) {
                if (System.nanoTime() - giveUpAt > 0 && giveUpAt != Long.MAX_VALUE) return null;
                rest(about(pause));
            }
        }
    }

    /**
     * Returns at least half of the pause, at random, so that workers whose connections broke together do not reconnect together.
     */
    private static long about(long pause) { return ThreadLocalRandom.current().nextLong(pause / 2, pause + 1); }

    private static void rest(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException again) {
            // Interrupts are only for handlers, and the handler of this thread has ended.
        }
    }

    private static PreparedStatement prepared(Connection connection, String sql, Object... values) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        for (int place = 0; place < values.length; place++) {
            if (values[place] instanceof Collection<?> texts) {
                statement.setArray(place + 1, connection.createArrayOf("text", texts.toArray()));
            } else if (values[place] instanceof Array array) {
                statement.setArray(place + 1, array);
            } else if (values[place] == null) {
                statement.setString(place + 1, null);
            } else {
                statement.setObject(place + 1, values[place]);
            }
        }
        return statement;
    }

    private static String[] pair(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepared(connection, sql, values); ResultSet rows = statement.executeQuery()) {
            rows.next();
            return new String[] {rows.getString(1), rows.getMetaData().getColumnCount() > 1 ? rows.getString(2) : null};
        }
    }

    private static String one(Connection connection, String sql, Object... values) throws SQLException {
        return pair(connection, sql, values)[0];
    }

    private static String seconds(Double seconds) { return seconds == null ? null : String.format(Locale.ROOT, "%.6f s", seconds); }

    // ---- claims

    private void claimAll() {
        long pause = 100;
        while (!stopping) {
            try {
                int room;
                synchronized (running) {
                    while ((room = options.slots - running.size()) <= 0 && !stopping) running.wait();
                }
                if (stopping) break;
                if (claims == null) claims = connectClaims();
                claim(room);
                pause = 100;
            } catch (InterruptedException error) {
                break;
            } catch (RuntimeException | Error error) {
                failure = error;
                say("claims have ended: " + error);
                break;
            } catch (SQLException error) {
                if (!isBroken(claims, error)) {
                    failure = error;
                    say("the claim was refused: " + error.getMessage());
                    break;
                }
                say("no connection for claims, trying again: " + error.getMessage());
                close(claims);
                claims = null;
                synchronized (running) {
                    try {
                        if (!stopping) running.wait(about(pause));
                    } catch (InterruptedException interrupted) {
                        break;
                    }
                }
                pause = Math.min(pause * 2, 5000);
            }
        }
        synchronized (running) {
            stopping = true;
            running.notifyAll();
        }
    }

    /** Nanoseconds between two checks for jobs of the queue that the worker does not claim. */
    private static final long LOOKS_EVERY = 600_000_000_000L;
    private long lookedAt = System.nanoTime() - LOOKS_EVERY;
    private boolean mayLook = true;

    /**
     * Logs which jobs wait in the queue that have no kind, or a kind without a handler here. Reads at most a thousand jobs of
     * each lane. If the role cannot read the tables, only the first check runs.
     */
    private void lookForOthers() {
        if (!mayLook || System.nanoTime() - lookedAt < LOOKS_EVERY) return;
        lookedAt = System.nanoTime();
        try {
            String found = one(claims, """
                SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind)
                FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n
                      FROM jobq.lane_directory d WHERE d.queue = ? AND d.kind <> ALL (?) GROUP BY d.kind) counted WHERE n > 0""",
                options.queue, handlers.keySet());
            if (found != null) say("jobs that this worker does not claim are waiting in queue \"" + options.queue + "\": " + found);
        } catch (SQLException error) {   // the claim will notice a broken connection
            mayLook = !"42501".equals(error.getSQLState());
        }
    }

    // ---- small pools: see clients/CONTRACT.md

    /** Makes a worker behind a pooler poll for a while if an answer was late, because waits may hold all connections of the pool. */
    private void answered(long begun) {
        double took = (System.nanoTime() - begun) / 1e9, limit = 1;
        if (!pooled || took <= 0.25) return;
        for (Job job : held()) limit = Math.min(limit, interval(job) / 4);
        if (options.heartbeatInterval != null) limit = Math.min(limit, options.heartbeatInterval / 4);
        if (options.heartbeatTimeout != null) limit = Math.min(limit, options.heartbeatTimeout / 12);
        if (took <= Math.max(limit, 0.25)) return;
        boolean begins;
        synchronized (conflicts) {
            begins = !polling;
            polling = true;
            pollsUntil = System.nanoTime() + ThreadLocalRandom.current().nextLong(60_000_000_000L, 120_000_000_000L);
        }
        if (!begins) return;
        say((hasPolled ? "" : "warning: ") + String.format(Locale.ROOT, "answers take %.1f s behind the connection pooler, whose pool may have "
            + "fewer connections than there are workers: polling instead of waiting", took));
        hasPolled = true;
    }

    private boolean polls() {
        synchronized (conflicts) {
            if (!polling || System.nanoTime() - pollsUntil < 0) return polling;
            polling = false;
            polls = 0;
        }
        say("answers are fast again: waiting instead of polling");
        return false;
    }

    private void claim(int room) throws SQLException, InterruptedException {
        lookForOthers();
        List<Job> found = new ArrayList<>();
        long begun = System.nanoTime();
        try (PreparedStatement statement = prepared(claims, """
                SELECT id, lease, kind, payload, attempt, progress, metadata, heartbeat_seconds
                FROM jobq_claim(?, ?, ?, ?, heartbeat_timeout => ?::interval)""",
                options.queue, options.workerId, room, handlers.keySet(), seconds(options.heartbeatTimeout));
                ResultSet rows = statement.executeQuery()) {
            while (rows.next()) found.add(new Job(rows));
        }
        answered(begun);
        for (Job job : found) start(job);
        if (!found.isEmpty()) {
            polls = 0;
            return;
        }
        if (polls()) {
            synchronized (running) {
                if (!stopping) running.wait((long) Math.min(50 * Math.pow(2, Math.min(polls++, 10)), 1000));
            }
            return;
        }
        try (PreparedStatement statement = prepared(claims, "CALL jobq_wait(?, ?::interval, ?, worker_id => ?, batch => ?)",
                options.queue, seconds(waitTimeout), handlers.keySet(), options.workerId, room)) {
            statement.execute();
        } catch (SQLException error) {
            if (!"57014".equals(error.getSQLState())) throw error;
            if (!waitsCanceled) {
                say("the server canceled a wait: " + error.getMessage() + ". The setting statement_timeout of this role or database is "
                    + one(claims, "SHOW statement_timeout") + ", and wait_timeout is " + seconds(waitTimeout) + ".");
            }
            waitsCanceled = true;
        }
    }

    private void start(Job job) {
        boolean late;
        synchronized (running) {
            running.put(job.lease, job);
            late = stopping;
        }
        if (!late) {
            try {
                threads.execute(() -> ending(job, () -> call(job)));
                return;
            } catch (OutOfMemoryError noThread) {
                failure = noThread;
                say("job " + job.id + " of kind " + job.kind + " could not be started, and is given back: " + noThread.getMessage());
                synchronized (running) {
                    stopping = true;
                    running.notifyAll();
                }
            }
        }
        job.reporting = true;
        asides.add(() -> ending(job, () -> report(job, "released", "SELECT jobq_release(?, ?)")));
    }

    private void ending(Job job, Runnable work) {
        try {
            work.run();
        } finally {
            ended(job);
        }
    }

    private void ended(Job job) {
        synchronized (running) {
            running.remove(job.lease);
            running.notifyAll();
        }
    }

    private void call(Job job) {
        String result = null;
        Throwable thrown = null;
        synchronized (job.lock) { job.thread = Thread.currentThread(); }
        try {
            result = handlers.get(job.kind).handle(job);
        } catch (Throwable error) {
            thrown = error;
        }
        synchronized (job.lock) {
            job.thread = null;
            Thread.interrupted();
        }
        close(job.connection);
        conclude(job, result, thrown);
    }

    // ---- reports

    /** Reports the outcome of a handler. */
    private void conclude(Job job, String result, Throwable error) {
        if (!job.beginReport() || job.done || error instanceof Waiting) return;
        String reason = job.reason;
        if ("lost".equals(reason)) {
            say("job " + job.id + " of kind " + job.kind + ": the lease is lost");
            return;
        }
        if (job.newProgress != null) {
            report(job, "progress", "SELECT jobq_heartbeat(?, ?, ?::jsonb) IN ('held', 'cancel')", job.newProgress);
        }
        SQLException refused;
        if (error == null) refused = report(job, "completed", "SELECT jobq_complete(?, ?, ?::jsonb)", result);
        else if (error instanceof Snooze snooze) refused = report(job, "snoozed",
            "SELECT jobq_snooze(job_id => ?, lease => ?, delay => ?::interval)", seconds(snooze.delay));
        else if (error instanceof Fail fail) refused = fail(job, fail.getMessage(), fail.retryIn, fail.isFinal);
        else if ("stopping".equals(reason) && isStop(error)) refused = report(job, "released", "SELECT jobq_release(?, ?)");
        else if ("cancel".equals(reason) && isStop(error)) refused = fail(job, "cancelled", null, false);
        else if (givesBack(job, error)) refused = report(job, "released", "SELECT jobq_release(?, ?)");
        else refused = fail(job, error.getClass().getSimpleName() + ": " + error.getMessage(), null, false);
        if (refused == null) return;
        String what = error == null ? "result" : error instanceof Snooze ? "snooze" : "failure";
        String text = "the " + what + " was refused: " + refused.getMessage();
        if (!(error instanceof Fail fail)) fail(job, text, null, false);
        // If the server rejects the report twice, the delay may be the reason.
        else if (fail(job, text, fail.retryIn, fail.isFinal) != null && fail.retryIn != null) fail(job, text, null, fail.isFinal);
    }

    /** Returns whether the handler was stopped, even if its code has wrapped the interrupt in another exception. */
    static boolean isStop(Throwable error) {
        Throwable cause = error;
        for (int depth = 0; cause != null && depth < 8; depth++, cause = cause.getCause()) {
            if (cause instanceof Stop || cause instanceof InterruptedException || cause instanceof ClosedByInterruptException) return true;
            if (cause instanceof InterruptedIOException && !(cause instanceof SocketTimeoutException)) return true;
        }
        return false;
    }

    /** Returns whether the job runs again without counting the attempt, because its own transaction ended with 40001 or 40P01. */
    private boolean givesBack(Job job, Throwable error) {
        String state = "";
        Throwable cause = error;
        for (int depth = 0; cause != null && depth < 8; depth++, cause = cause.getCause()) {
            if (cause instanceof SQLException refused && CONFLICT.contains(String.valueOf(refused.getSQLState()))) state = refused.getSQLState();
        }
        int times;
        synchronized (conflicts) {
            if (conflicts.size() > 1000) conflicts.clear();   // removes entries of jobs that other workers have completed
            times = state.isEmpty() ? MOST_CONFLICTS + 1 : conflicts.merge(job.id, 1, Integer::sum);
            if (times > MOST_CONFLICTS) {
                conflicts.remove(job.id);
                return false;
            }
        }
        say("job " + job.id + " of kind " + job.kind + ": its transaction collided with another one (SQLSTATE " + state + "), so it is given back: "
            + times + " of " + MOST_CONFLICTS + " times");
        return true;
    }

    private SQLException fail(Job job, String message, Double retryIn, boolean isFinal) {
        String text = message == null ? "" : message.replace("\0", "\\0");
        say("job " + job.id + " of kind " + job.kind + ", attempt " + job.attempt + (text.equals("cancelled") ? ": " : ", has failed: ") + text);
        SQLException refused = sendFailure(job, text, retryIn, isFinal);
        if (refused == null || !List.of("22P05", "22021").contains(String.valueOf(refused.getSQLState()))) return refused;
        // A character of the text does not exist in the encoding of the database.
        return sendFailure(job, text.replaceAll("[^\\x00-\\x7f]", "?"), retryIn, isFinal);
    }

    private SQLException sendFailure(Job job, String text, Double retryIn, boolean isFinal) {
        return report(job, "failed", "SELECT jobq_fail(?, ?, ?, ?::interval, ?) IS NOT NULL", text, seconds(retryIn), !isFinal);
    }

    /** Returns the error with which the server rejected the report, or null. */
    private SQLException report(Job job, String what, String sql, Object... more) {
        List<Object> values = new ArrayList<>(List.of(job.id, job.lease));
        for (Object value : more) values.add(value);
        SQLException[] refused = {null};
        int[] tries = {0};
        String state = attempt(conn -> {
            tries[0]++;
            try {
                if ("t".equals(one(conn, sql, values.toArray()))) return "finished";
            } catch (SQLException error) {
                if (isBroken(conn, error)) throw error;
                refused[0] = error;
                return "refused";
            }
            // Maybe an earlier try succeeded, but its answer was lost.
            return one(conn, "SELECT jobq_heartbeat(?, ?)", job.id, job.lease);
        });
        if (state == null) {
            couldNotReport(job);
        } else if (state.equals("refused")) {
            say("job " + job.id + ": the report was refused: " + refused[0].getMessage());
            return refused[0];
        } else if (!state.equals("finished") && !(state.equals("gone") && tries[0] > 1)) {   // gone: the queue keeps no finished jobs
            say("job " + job.id + " of kind " + job.kind + ": the lease is lost");
        } else if (what.equals("released")) {
            say("job " + job.id + " of kind " + job.kind + ": released");
        }
        return null;
    }

    // ---- heartbeats

    private double interval(Job job) {
        double shortest = job.heartbeatSeconds;
        if (options.heartbeatInterval != null) shortest = Math.min(shortest, options.heartbeatInterval);
        if (options.heartbeatTimeout != null) shortest = Math.min(shortest, options.heartbeatTimeout / 3);
        return shortest;
    }

    /** Sends heartbeats until the worker ends. If it fails, for example because memory runs out, the worker claims nothing more. */
    private void heartbeatAll() {
        try {
            for (long pause = 100; ; rest(50)) {
                try {
                    heartbeatDue();
                    pause = 100;
                } catch (Broken broken) {
                    rest(about(pause));
                    pause = Math.min(pause * 2, 5000);
                } catch (SQLException | RuntimeException | Error error) {
                    rest(1000);
                    say("heartbeats were refused: " + error.getMessage());
                }
            }
        } catch (Error error) {
            failure = error;
            synchronized (running) {
                stopping = true;
                running.notifyAll();
            }
        }
    }

    /**
     * Sends the heartbeats of all jobs before progress, because progress may fail if its shard is down, and must not delay
     * heartbeats.
     */
    private void heartbeatDue() throws SQLException, Broken {
        List<Job> due = new ArrayList<>(), reported = new ArrayList<>(), progressed = new ArrayList<>();
        for (Job job : held()) {
            if ("lost".equals(job.reason)) continue;
            double silent = (System.nanoTime() - job.beatAt) / 1e9;
            boolean isDue = silent >= interval(job);
            if (job.reporting) {
                if (isDue) reported.add(job);
                continue;
            }
            if (isDue) due.add(job);
            if (job.newProgress != null && (isDue || silent > 0.5)) progressed.add(job);
        }
        if (!due.isEmpty()) beat(due);
        for (Job job : reported) beatBriefly(job);
        for (Job job : progressed) {
            if ("lost".equals(job.reason)) continue;
            heard(job, onBeats(conn -> {
                String progress = job.newProgress;
                if (job.reporting) return "held";   // the report sends the progress
                String state = heartbeatWithProgress(conn, job, progress);
                if (progress.equals(job.newProgress)) job.newProgress = null;
                return state;
            }));
        }
    }

    /** Sends a heartbeat with progress. Rejected progress is logged once, and the heartbeat still counts. */
    private String heartbeatWithProgress(Connection conn, Job job, String progress) throws SQLException {
        try {
            return one(conn, "SELECT jobq_heartbeat(?, ?, ?::jsonb)", job.id, job.lease, progress);
        } catch (SQLException error) {
            if (isBroken(conn, error)) throw error;
            say("progress of job " + job.id + " was refused: " + error.getMessage());
            return one(conn, "SELECT jobq_heartbeat(?, ?)", job.id, job.lease);
        }
    }

    /**
     * Keeps the lease of a job whose report is in flight, and ignores the answer, because the report finds out the same. Waits
     * only briefly, because an unanswered report may still lock the row, and the heartbeats of other jobs must not wait.
     */
    private void beatBriefly(Job job) throws SQLException, Broken {
        job.beatAt = System.nanoTime();
        try {
            onBeats(conn -> one(conn, "WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true)) "
                + "SELECT jobq_heartbeat(?, ?) FROM briefly", job.id, job.lease));
        } catch (SQLException error) {
            if (!"55P03".equals(error.getSQLState())) throw error;
        }
    }

    private void beat(List<Job> jobs) throws SQLException, Broken {
        List<String> states = onBeats(conn -> {
            Array ids = conn.createArrayOf("bigint", jobs.stream().map(job -> job.id).toArray());
            Array leases = conn.createArrayOf("bigint", jobs.stream().map(job -> job.lease).toArray());
            List<String> found = new ArrayList<>();
            try (PreparedStatement statement = prepared(conn, "SELECT state FROM jobq_heartbeat_many(?, ?)", ids, leases);
                    ResultSet rows = statement.executeQuery()) {
                while (rows.next()) found.add(rows.getString(1));
            }
            return found;
        });
        for (int place = 0; place < jobs.size(); place++) heard(jobs.get(place), states.get(place));
    }

    private void heard(Job job, String state) {
        job.beatAt = System.nanoTime();
        if (job.reporting || state.equals("held") || state.equals("finished")) return;
        if (!state.equals("cancel")) job.stop("lost");
        else if (job.reason == null) job.stop("cancel");
    }
}
