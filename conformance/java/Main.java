import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * What people do with the Java client, as scenarios against the broker at BROKER_URL.
 *
 * <pre>
 * java Main [FILTER]       plays those with FILTER in their name, a line for each; ends with 0 if all went well
 * java Main worker QUEUE   a worker of the work queue
 * </pre>
 */
final class Main {
    /** A machine that does nothing else needs a tenth. */
    static final int LIMIT_SECS = 20;

    /** A restart of RabbitMQ takes ten seconds on a quiet machine. */
    static final int RESTART_LIMIT_SECS = 90;

    /** What conformance/run knows as "the filter matches none of these". */
    private static final int NO_SCENARIO_MATCHES = 5;

    interface Scenario {
        void play() throws Exception;
    }

    private static Map<String, Scenario> scenarios() {
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("hello", Scenarios::hello);
        scenarios.put("work_queue", WorkQueue::play);
        scenarios.put("fan_out", Scenarios::fanOut);
        scenarios.put("routing", Scenarios::routing);
        scenarios.put("topics", Scenarios::topics);
        scenarios.put("headers", Scenarios::headers);
        scenarios.put("rpc", Scenarios::rpc);
        scenarios.put("confirms", Scenarios::confirms);
        scenarios.put("confirms_one_by_one", Scenarios::confirmsOneByOne);
        scenarios.put("transactions", Scenarios::transactions);
        scenarios.put("dead_letters", Scenarios::deadLetters);
        scenarios.put("channel_errors", Scenarios::channelErrors);
        scenarios.put("cancel_notification", Scenarios::cancelNotification);
        scenarios.put("recovery", Recovery::play);
        return scenarios;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 2 && arguments[0].equals("worker")) {
            WorkQueue.work(arguments[1]);
            return;
        }
        System.exit(playAll(arguments.length > 0 ? arguments[0] : ""));
    }

    private static int playAll(String filter) throws IOException, InterruptedException {
        int matched = 0;
        int passed = 0;
        int failed = 0;
        int skipped = 0;
        for (Map.Entry<String, Scenario> entry : scenarios().entrySet()) {
            String name = entry.getKey();
            if (!name.contains(filter)) {
                continue;
            }
            matched++;
            boolean restarts = name.equals("recovery");
            if (restarts && Recovery.control().isEmpty()) {
                System.out.println("java: " + name + " skipped, nothing says how to restart the broker");
                skipped++;
                continue;
            }
            try {
                playInTime(entry.getValue(), restarts ? RESTART_LIMIT_SECS : LIMIT_SECS);
                System.out.println("java: " + name + " passed");
                passed++;
            } catch (ExecutionException | TimeoutException failure) {
                System.out.println("java: " + name + " FAILED");
                failure.printStackTrace(System.out);
                failed++;
            }
        }
        String summaryFile = System.getenv("SUMMARY_FILE");
        if (summaryFile != null) {
            String summary = String.format("%d passed, %d failed, %d skipped%n", passed, failed, skipped);
            Files.writeString(Path.of(summaryFile), summary);
        }
        return matched == 0 ? NO_SCENARIO_MATCHES : failed > 0 ? 1 : 0;
    }

    /** A scenario that hangs has failed; its thread is left behind. */
    private static void playInTime(Scenario scenario, int limitSecs)
            throws InterruptedException, ExecutionException, TimeoutException {
        ExecutorService executor = Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        Future<Void> played = executor.submit(() -> {
            scenario.play();
            return null;
        });
        played.get(limitSecs, TimeUnit.SECONDS);
        executor.shutdown();
    }
}
