// What no scenario shows of the worker. Wants no server: its driver gives connections that break at the rollback.

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.net.SocketTimeoutException;
import java.nio.channels.ClosedByInterruptException;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;

public final class WorkerTest {
    static final List<String> called = new ArrayList<>();

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
            default -> null;
        };
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
        System.out.println(cases.size() + stops.size() - failed + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }
}
