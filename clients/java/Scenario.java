// The handlers for the scenarios: see clients/scenarios/README.md. The server parses their JSON, so that no library is needed.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

public final class Scenario {
    static final String URL = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");

    static Properties properties() {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        properties.setProperty("prepareThreshold", "0");
        return properties;
    }

    /** Reads the database on a separate connection, which it opens again when it breaks. */
    static final class Eye {
        private final JobqWorker.Job job;
        private Connection connection;

        Eye(JobqWorker.Job job) { this.job = job; }

        String ask(String sql, Object... values) {
            while (true) {
                boolean interrupted = Thread.interrupted();   // the interrupt is meant for the handler's wait, not for this query
                try {
                    if (connection == null) connection = DriverManager.getConnection(URL, properties());
                    return query(connection, sql, values);
                } catch (SQLException error) {
                    connection = null;
                    try {
                        Thread.sleep(200);
                    } catch (InterruptedException again) {
                        interrupted = true;
                    }
                } finally {
                    if (interrupted) Thread.currentThread().interrupt();
                }
            }
        }

        void tell(String event) {
            ask("INSERT INTO scenario.events VALUES (?, ?, ?) RETURNING 1", job.id, job.attempt, event);
        }

        boolean isOpen(String gate) {
            return gate == null || !ask("SELECT count(*) FROM scenario.gates WHERE name = ?", gate).equals("0");
        }

        void await(String gate, boolean deaf) throws InterruptedException {
            while (!isOpen(gate)) {
                if (!deaf) job.check();
                try {
                    Thread.sleep(100);
                } catch (InterruptedException stop) {
                    if (!deaf) throw stop;
                }
            }
        }

        String of(String path) {
            return ask("SELECT ?::jsonb " + path, job.payload);
        }
    }

    static String query(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int place = 0; place < values.length; place++) statement.setObject(place + 1, values[place]);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? rows.getString(1) : null;
            }
        }
    }

    static void effect(Connection connection, JobqWorker.Job job, String name) throws SQLException {
        query(connection, "INSERT INTO scenario.effects VALUES (?, ?, ?) RETURNING 1", job.id, job.attempt, name);
    }

    static String deaf(JobqWorker.Job job) throws InterruptedException {
        Eye eye = new Eye(job);
        eye.tell("started");
        eye.await(eye.of("->> 'gate'"), true);
        return job.payload;
    }

    static String waits(JobqWorker.Job job) throws InterruptedException {
        Eye eye = new Eye(job);
        eye.tell("started");
        try {
            eye.await(eye.of("->> 'gate'"), false);
        } catch (InterruptedException | JobqWorker.Stop stop) {
            eye.tell(job.cancelled());
            throw stop;
        }
        return job.payload;
    }

    static String garbage(JobqWorker.Job job) throws InterruptedException {
        String where = new Eye(job).of("->> 'in'"), refused = "\"\\u0000\"";
        if (where.equals("error")) throw new IllegalStateException("bad \ud800\0 bytes");
        if (where.equals("result")) return refused;
        job.setProgress(refused);
        return waits(job);
    }

    static String steps(JobqWorker.Job job) throws Exception {
        Eye eye = new Eye(job);
        eye.tell("started");
        List<String> results = new ArrayList<>();
        String before = eye.of("->> 'before'"), gate = eye.of("->> 'gate'");
        for (String name : eye.of("->> 'names'").replaceAll("[\\[\\]\" ]", "").split(",")) {
            if (name.equals(before)) eye.await(gate, false);
            results.add(job.step(name, connection -> {
                effect(connection, job, name);
                return "{\"name\": \"" + name + "\"}";
            }));
        }
        return "[" + String.join(", ", results) + "]";
    }

    static String transfer(JobqWorker.Job job) throws Exception {
        deaf(job);
        String error = new Eye(job).of("->> 'error'");
        return job.completing(connection -> {
            effect(connection, job, "transfer");
            if (error != null && job.attempt == 1) throw new IllegalStateException(error);
            return "{\"moved\": true}";
        });
    }

    public static void main(String[] arguments) {
        try {
            JobqWorker worker = new JobqWorker(JobqWorker.Options.fromEnvironment(), URL, properties());
            worker.handle("echo", job -> job.payload);
            worker.handle("fail", job -> {
                Eye eye = new Eye(job);
                if (job.attempt <= Integer.parseInt(eye.of("->> 'times'"))) throw new IllegalStateException(eye.of("->> 'message'"));
                return "{\"attempt\": " + job.attempt + "}";
            });
            worker.handle("reject", job -> {
                String retryIn = new Eye(job).of("->> 'retry_in'");
                throw new JobqWorker.Fail(new Eye(job).of("->> 'message'"), retryIn == null ? null : Double.valueOf(retryIn), retryIn == null);
            });
            worker.handle("snooze", job -> {
                if (job.progress != null) return "{\"snoozed\": true}";
                job.setProgress("{\"snoozed\": true}");
                throw new JobqWorker.Snooze(Double.parseDouble(new Eye(job).of("->> 'delay'")));
            });
            worker.handle("wait", Scenario::waits);
            worker.handle("deaf", Scenario::deaf);
            worker.handle("sleep", job -> {
                Eye eye = new Eye(job);
                double seconds = Double.parseDouble(eye.of("->> 'seconds'"));
                eye.tell("started");
                Thread.sleep((long) (seconds * 1000));
                return "{}";
            });
            worker.handle("progress", job -> {
                Eye eye = new Eye(job);
                eye.tell("started");
                int steps = Integer.parseInt(eye.of("->> 'steps'"));
                String gate = eye.of("->> 'gate'");
                for (int step = 1; step <= steps; step++) job.setProgress("{\"step\": " + step + "}");
                eye.await(gate, false);
                return "{\"steps\": " + steps + "}";
            });
            worker.handle("transfer", Scenario::transfer);
            worker.handle("steps", Scenario::steps);
            worker.handle("garbage", Scenario::garbage);
            worker.handle("poison", job -> {
                new Eye(job).tell("started");
                new ProcessBuilder("kill", "-KILL", String.valueOf(ProcessHandle.current().pid())).start().waitFor();
                return null;
            });
            Runtime.getRuntime().halt(worker.run());
        } catch (Exception error) {
            System.err.println("Scenario: " + error.getMessage());
            Runtime.getRuntime().halt(1);
        }
    }
}
