import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.perf.PerfTest;
import com.rabbitmq.perf.ShutdownService;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * RabbitMQ's own load generator against the broker at BROKER_URL, by its options.
 *
 * <p>Where a line says how many messages are sent and received, PerfTest ends by itself when that many were, and not
 * before; one that hangs, ends with another code than 0 or prints a refusal has failed. Queues and exchanges are called
 * perftest-... and deleted afterwards.
 */
final class Main {
    private static final int LIMIT_SECS = 60;

    /** What conformance/run knows as "the filter matches none of these". */
    private static final int NO_SCENARIO_MATCHES = 5;

    /** What PerfTest prints when something does not go as it was told. */
    private static final Pattern FAULTS =
            Pattern.compile("(?i)exception|error|nacked: [1-9]|returned: [1-9]|shutdown_signal|PRECONDITION");

    private static final Pattern CONSUMED = Pattern.compile("(?m)^perftest_consumed [1-9]");
    private static final Pattern SENT = Pattern.compile("sending rate avg: (\\d+)");
    private static final Pattern RECEIVED = Pattern.compile("receiving rate avg: (\\d+)");

    private Main() {}

    /** Options by scenario: Q is a queue of its own, X an exchange, URI the broker, PORT a free port. */
    private static Map<String, String> scenarios() {
        Map<String, String> lines = new LinkedHashMap<>();
        lines.put("plain", "-C 500 -D 500");
        lines.put("quorum_queue", "--quorum-queue --queue Q --confirm 100 -C 500 -D 500");
        lines.put("stream_queue", "--stream-queue --queue Q --stream-consumer-offset first --confirm 100 -C 500 -D 500");
        lines.put(
                "stream_limits",
                "--stream-queue --queue Q --max-length-bytes 1000000 --stream-max-segment-size-bytes 500000"
                        + " --max-age PT1H --stream-consumer-offset first --qos 10 -C 200 -D 200");
        lines.put("confirms", "--confirm 10 -f persistent -f mandatory -C 300 -D 300");
        lines.put("multi_ack_every", "--multi-ack-every 10 --qos 50 -C 300 -D 300");
        lines.put("auto_ack", "--autoack -C 300 -D 300");
        lines.put("transactions", "--ptxsize 10 --ctxsize 10 -C 300 -D 300");
        lines.put("json_body", "--json-body --size 2000 --body-count 10 -C 100 -D 100");
        lines.put("rates", "--rate 200 --consumer-rate 200 -C 100 -D 100");
        lines.put(
                "variable_rates",
                "--variable-rate 100:1 --variable-rate 50:1 --variable-size 100:1 --variable-size 1000:1"
                        + " --variable-latency 100:1 --time 3");
        lines.put("predeclared", "--predeclared --queue Q --exchange amq.direct --routing-key Q -C 200 -D 200");
        lines.put(
                "queue_pattern",
                "--queue-pattern Q-%d --queue-pattern-from 1 --queue-pattern-to 4 --producers 4 --consumers 8"
                        + " --pmessages 50 --cmessages 25");
        lines.put("exclusive", "--exclusive --consumers 2 --pmessages 100 --cmessages 100");
        lines.put("milliseconds", "--use-millis --metrics-format compact -C 100 -D 100");
        lines.put("prometheus", "--metrics-prometheus --metrics-prometheus-port PORT --rate 100 -C 200 -D 200");
        lines.put("start_delays", "--producer-random-start-delay 1 --consumer-start-delay 1 -x 2 -C 50 -D 100");
        lines.put("uris", "--uris URI,URI --producers 2 --consumers 2 -C 50 -D 50");
        lines.put("polling", "--polling --polling-interval 2 -C 50 -D 50");
        lines.put("nack", "--nack --requeue false --queue-args x-max-length=10000 -C 50 -D 50");
        lines.put("nack_with_requeue", "--nack --qos 10 --rate 50 --time 3");
        lines.put("consumer_arguments", "--consumer-args x-priority=10 -C 50 -D 50");
        lines.put(
                "random_routing_keys",
                "--random-routing-key --routing-key-cache-size 10 --type topic --exchange X --routing-key #"
                        + " --rate 100 --time 2 --consumers 0");
        lines.put("global_qos", "--global-qos 10 --consumer-channel-count 2 -C 50 -D 25");
        lines.put("exit_when_empty", "--exit-when empty --queue Q --auto-delete false --queue-args x-expires=60000 -C 50");
        lines.put("exit_when_idle", "--exit-when idle --pmessages 50");
        lines.put(
                "message_properties",
                "--message-properties priority=5,foo=bar,expiration=60000,contentType=a/b,deliveryMode=2"
                        + " --queue-args x-max-priority=10 -C 50 -D 50");
        lines.put("fanout_to_quorum", "--exchange X --type fanout --queue Q --quorum-queue --leader-locator balanced -C 50 -D 50");
        lines.put("frames", "--heartbeat 1 --framemax 8192 --size 20000 --nio-threads 2 -C 50 -D 50");
        lines.put("publishing_interval", "--publishing-interval 1 --producers 2 -C 2 -D 4");
        return lines;
    }

    public static void main(String[] arguments) throws Exception {
        System.exit(playAll(arguments.length > 0 ? arguments[0] : ""));
    }

    private static int playAll(String filter) throws Exception {
        int passed = 0;
        int failed = 0;
        for (Map.Entry<String, String> scenario : scenarios().entrySet()) {
            String name = scenario.getKey();
            if (!name.contains(filter)) {
                continue;
            }
            Run run = new Run(scenario.getValue());
            String fault = run.fault();
            if (fault == null) {
                System.out.println("perftest: " + name + " passed");
                passed++;
            } else {
                System.out.println("perftest: " + name + " FAILED: " + fault + "\n" + run.printed());
                failed++;
            }
        }
        String summaryFile = System.getenv("SUMMARY_FILE");
        if (summaryFile != null) {
            String summary = String.format("%d passed, %d failed, 0 skipped%n", passed, failed);
            Files.writeString(Path.of(summaryFile), summary);
        }
        return passed + failed == 0 ? NO_SCENARIO_MATCHES : failed > 0 ? 1 : 0;
    }

    /** PerfTest once. */
    private static final class Run {
        private final String url = System.getenv("BROKER_URL");
        private final String own = "perftest-" + UUID.randomUUID();
        private final int port = freePort();
        private final List<String> options;
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();

        Run(String line) throws IOException {
            String filled = line.replaceAll("\\bQ\\b", own)
                    .replaceAll("\\bX\\b", own)
                    .replaceAll("\\bURI\\b", url)
                    .replaceAll("\\bPORT\\b", String.valueOf(port));
            options = new ArrayList<>(List.of(filled.split(" ")));
            if (!line.contains("--uris")) {
                options.addAll(List.of("--uri", url));
            }
        }

        String printed() {
            return String.join(" ", options) + "\n" + out.toString(StandardCharsets.UTF_8);
        }

        /** What went wrong, or null. */
        String fault() throws Exception {
            try (Connection connection = connected();
                    Channel channel = connection.createChannel()) {
                if (options.contains("--predeclared")) {
                    channel.queueDeclare(own, true, false, false, null);
                    channel.queueBind(own, "amq.direct", own);
                }
                try {
                    return played();
                } finally {
                    channel.queueDelete(own);
                    channel.exchangeDelete(own);
                    for (int number = 1; number <= 4; number++) {
                        channel.queueDelete(own + "-" + number);
                    }
                }
            }
        }

        private String played() throws Exception {
            CompletableFuture<Integer> code = new CompletableFuture<>();
            ShutdownService ending = new ShutdownService();
            PrintStream print = new PrintStream(out, true, StandardCharsets.UTF_8);
            PerfTest.PerfTestOptions settings = new PerfTest.PerfTestOptions()
                    .setSystemExiter(code::complete)
                    .setShutdownService(ending)
                    .setArgumentLookup(name -> null)
                    .setConsoleOut(print)
                    .setConsoleErr(print);
            Thread thread = new Thread(() -> {
                try {
                    PerfTest.main(options.toArray(String[]::new), settings);
                    code.complete(0);
                } catch (RuntimeException failure) {
                    code.completeExceptionally(failure);
                }
            });
            thread.setDaemon(true);
            thread.start();
            try {
                if (options.contains("--metrics-prometheus") && !showsMetrics(code)) {
                    return "its metrics told nothing before it ended";
                }
                int exit = code.get(LIMIT_SECS, TimeUnit.SECONDS);
                if (exit != 0) {
                    return "it ended with " + exit;
                }
            } catch (TimeoutException late) {
                return "not ended after " + LIMIT_SECS + " s";
            } finally {
                ending.close();
            }
            String text = out.toString(StandardCharsets.UTF_8);
            Matcher fault = FAULTS.matcher(text);
            if (fault.find()) {
                return "it printed " + fault.group();
            }
            boolean consumes = !text.contains("consumers=0") && !options.contains("0");
            if (options.contains("--time") && (rate(SENT, text) == 0 || consumes && rate(RECEIVED, text) == 0)) {
                return "nothing went through";
            }
            return null;
        }

        private Connection connected() throws Exception {
            ConnectionFactory factory = new ConnectionFactory();
            factory.setUri(url);
            return factory.newConnection();
        }

        /** Whether PerfTest's own endpoint tells of messages while it runs. */
        private boolean showsMetrics(CompletableFuture<Integer> code) throws Exception {
            HttpClient client = HttpClient.newHttpClient();
            HttpRequest metrics = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/metrics")).build();
            while (!code.isDone()) {
                try {
                    String text = client.send(metrics, HttpResponse.BodyHandlers.ofString()).body();
                    if (CONSUMED.matcher(text).find()) {
                        return true;
                    }
                } catch (IOException notYet) {
                    // It is about to listen.
                }
                Thread.sleep(50);
            }
            return false;
        }

        private static int rate(Pattern pattern, String text) {
            Matcher found = pattern.matcher(text);
            return found.find() ? Integer.parseInt(found.group(1)) : 0;
        }

        private static int freePort() throws IOException {
            try (ServerSocket socket = new ServerSocket(0)) {
                return socket.getLocalPort();
            }
        }
    }
}
