// Tests behavior of the worker that no scenario covers. Needs no server: its driver returns connections that break at the
// rollback.

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.net.SocketTimeoutException;
import java.nio.channels.ClosedByInterruptException;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

public final class WorkerTest {
    static final List<String> called = new CopyOnWriteArrayList<>();
    static final AtomicInteger beaten = new AtomicInteger();

    @SuppressWarnings("unchecked")
    static <T> T fake(Class<T> type, java.util.function.BiFunction<String, Object[], Object> answer) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> {
            Object value = answer.apply(method.getName(), arguments);
            if (value instanceof SQLException error) throw error;
            return value;
        });
    }

    static Object connection(String method, Object[] arguments) {
        called.add(method + (arguments == null ? "" : " " + arguments[0]));
        return switch (method) {
            case "rollback" -> new SQLException("This connection has been closed.", "08003");
            case "isClosed" -> false;
            case "prepareStatement" -> fake(PreparedStatement.class, WorkerTest::statement);
            default -> null;
        };
    }

    /** Returns a fake statement for heartbeats, of which the first runs out of memory. */
    static Object statement(String method, Object[] arguments) {
        if (!method.equals("executeQuery")) return null;
        if (beaten.incrementAndGet() == 1) throw new OutOfMemoryError("none left");
        var rows = new AtomicInteger(1);
        return fake(ResultSet.class, (name, given) -> switch (name) {
            case "next" -> rows.getAndDecrement() > 0;
            case "getString" -> "held";
            default -> null;
        });
    }

    @SuppressWarnings("unchecked")
    static boolean heartbeatsGoOn(JobqWorker worker) throws Exception {
        var running = JobqWorker.class.getDeclaredField("running");
        running.setAccessible(true);
        var jobs = (Map<Long, JobqWorker.Job>) running.get(worker);
        JobqWorker.Job job = worker.new Job(fake(ResultSet.class, WorkerTest::column));
        synchronized (jobs) { jobs.put(job.lease, job); }
        var heartbeatAll = JobqWorker.class.getDeclaredMethod("heartbeatAll");
        heartbeatAll.setAccessible(true);
        Thread heartbeats = new Thread(() -> {
            try {
                heartbeatAll.invoke(worker);
            } catch (ReflectiveOperationException ended) {
                System.out.println("# " + ended.getCause());
            }
        });
        heartbeats.setDaemon(true);
        heartbeats.start();
        for (int look = 0; look < 1200 && beaten.get() < 2 && heartbeats.isAlive(); look++) Thread.sleep(50);
        return beaten.get() >= 2;
    }

    static Object column(String method, Object[] arguments) {
        return switch (method) { case "getLong" -> 1L; case "getInt" -> 1; default -> "x"; };
    }

    static Throwable thrownBy(JobqWorker.Job job, Throwable wanted) {
        called.clear();
        try {
            job.completing(conn -> {
                if (wanted instanceof Error error) throw error;
                throw (Exception) wanted;
            });
            return null;
        } catch (Throwable found) {
            return found;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Driver driver = fake(Driver.class, (method, given) -> method.equals("connect") ? fake(Connection.class, WorkerTest::connection) : null);
        DriverManager.registerDriver(driver);
        var worker = new JobqWorker(JobqWorker.Options.fromEnvironment(), "jdbc:fake", new Properties());
        int failed = 0;
        var cases = List.of(new JobqWorker.Stop("stopping"), new IOException("the account is closed"),
            new SQLException("a key is there twice", "23505"));
        for (Throwable wanted : cases) {
            JobqWorker.Job job = worker.new Job(fake(ResultSet.class, WorkerTest::column));
            Throwable found = thrownBy(job, wanted);
            boolean right = found == wanted && found.getSuppressed().length == 1 && called.contains("close")
                && !called.contains("setAutoCommit true");
            failed += right ? 0 : 1;
            System.out.println((right ? "ok" : "not ok") + " - a rollback that fails does not hide " + wanted
                + (right ? "" : "\n# " + found + " " + called));
        }
        var stops = Map.of(new JobqWorker.Stop("stopping"), true, new InterruptedException(), true,
            new IllegalStateException(new InterruptedException()), true, new UncheckedIOException(new InterruptedIOException()), true,
            new ClosedByInterruptException(), true, new IllegalStateException(new SocketTimeoutException("Read timed out")), false,
            new IOException("the account is closed"), false);
        for (var stop : stops.entrySet()) {
            boolean right = JobqWorker.isStop(stop.getKey()) == stop.getValue();
            failed += right ? 0 : 1;
            System.out.println((right ? "ok" : "not ok") + " - " + stop.getKey() + (stop.getValue() ? " ends a handler" : " is an error"));
        }
        boolean right = heartbeatsGoOn(worker);
        failed += right ? 0 : 1;
        System.out.println((right ? "ok" : "not ok") + " - an OutOfMemoryError ends no heartbeats");
        System.out.println(cases.size() + stops.size() + 1 - failed + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }
}
