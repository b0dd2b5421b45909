import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.MessageProperties;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** Six tasks and three workers with one each, of which one is killed at its task. */
final class WorkQueue {
    private WorkQueue() {}

    /** A worker: one task at a time, done when a line comes on the standard input. */
    static void work(String queue) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Connection connection = Scenarios.factory().newConnection();
        Channel channel = connection.createChannel();
        channel.queueDeclare(queue, true, false, false, null);
        channel.basicQos(1);
        channel.basicConsume(queue, false, (tag, task) -> {
            String again = task.getEnvelope().isRedeliver() ? "again" : "first";
            System.out.println("received " + Inbox.text(task) + " " + again);
            input.readLine();
            channel.basicAck(task.getEnvelope().getDeliveryTag(), false);
            System.out.println("done " + Inbox.text(task));
        }, tag -> {});
        System.out.println("ready");
    }

    /** A line of a worker's output. */
    private record Line(Worker from, String text) {}

    private static final class Worker {
        private final Process process;
        private final Writer input;

        Worker(String queue, BlockingQueue<Line> lines) throws IOException {
            String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
            String classes = System.getProperty("java.class.path");
            process = new ProcessBuilder(java, "-XX:TieredStopAtLevel=1", "-cp", classes, "Main", "worker", queue)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            input = process.outputWriter(StandardCharsets.UTF_8);
            BufferedReader output = process.inputReader(StandardCharsets.UTF_8);
            Thread reader = new Thread(() -> output.lines().forEach(line -> lines.add(new Line(this, line))));
            reader.setDaemon(true);
            reader.start();
        }

        void goOn() throws IOException {
            input.write("\n");
            input.flush();
        }

        void kill() throws InterruptedException {
            process.destroyForcibly().waitFor();
        }
    }

    private static Line next(BlockingQueue<Line> lines) throws InterruptedException {
        return Expect.inTime("a worker's word", lines.poll(Main.LIMIT_SECS, TimeUnit.SECONDS));
    }

    static void play() throws Exception {
        Scenarios.play((channel, queue) -> {
            channel.queueDeclare(queue, true, false, false, null);
            BlockingQueue<Line> lines = new LinkedBlockingQueue<>();
            List<Worker> workers = new ArrayList<>();
            try {
                for (int number = 0; number < 3; number++) {
                    workers.add(new Worker(queue, lines));
                }
                for (int number = 0; number < 3; number++) {
                    Expect.equal("a worker's first word", next(lines).text(), "ready");
                }
                shareSixTasks(channel, queue, lines);
            } finally {
                for (Worker worker : workers) {
                    worker.kill();
                }
                channel.queueDelete(queue);
            }
        });
    }

    private static void shareSixTasks(Channel channel, String queue, BlockingQueue<Line> lines) throws Exception {
        for (int number = 1; number <= 6; number++) {
            channel.basicPublish("", queue, MessageProperties.PERSISTENT_TEXT_PLAIN, Scenarios.bytes("task-" + number));
        }
        List<Line> held = List.of(next(lines), next(lines), next(lines));
        Expect.equal("the first three", sorted(texts(held)),
                List.of("received task-1 first", "received task-2 first", "received task-3 first"));
        Expect.equal("workers with a task", held.stream().map(Line::from).distinct().count(), 3L);

        Line lost = held.get(0);
        lost.from().kill();

        List<String> received = new ArrayList<>(texts(held.subList(1, 3)));
        for (Line line : held.subList(1, 3)) {
            line.from().goOn();
        }
        for (int done = 0; done < 6;) {
            Line line = next(lines);
            if (line.text().startsWith("done")) {
                done++;
            } else {
                received.add(line.text());
                line.from().goOn();
            }
        }
        List<String> wanted = new ArrayList<>();
        for (int number = 1; number <= 6; number++) {
            String line = "received task-" + number + " first";
            wanted.add(line.equals(lost.text()) ? line.replace("first", "again") : line);
        }
        Expect.equal("all tasks of the two that were left", sorted(received), wanted);
    }

    private static List<String> texts(List<Line> lines) {
        return lines.stream().map(Line::text).collect(Collectors.toList());
    }

    private static List<String> sorted(List<String> lines) {
        return lines.stream().sorted().collect(Collectors.toList());
    }
}
