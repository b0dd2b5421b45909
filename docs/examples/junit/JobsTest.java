import static org.junit.jupiter.api.Assertions.assertEquals;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Objects;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class JobsTest {
    private static Process broker;
    private static final ConnectionFactory factory = new ConnectionFactory();

    @BeforeAll
    static void startBroker() throws Exception {
        String leveret = Objects.requireNonNullElse(System.getenv("LEVERET"), "leveret");
        broker = new ProcessBuilder(
                        leveret, "--storage", "memory", "--listen", "127.0.0.1:0", "--log-level", "warn")
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        // One line, once clients are accepted: {"amqp":[43671]}
        String line = new BufferedReader(new InputStreamReader(broker.getInputStream())).readLine();
        factory.setPort(Integer.parseInt(line.replaceAll("\\D", "")));
    }

    @AfterAll
    static void stopBroker() throws Exception {
        broker.destroy();
        broker.waitFor();
    }

    @Test
    void aJobArrives() throws Exception {
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            channel.queueDeclare("jobs", true, false, false, null);
            channel.basicPublish("", "jobs", null, "one".getBytes());
            assertEquals("one", new String(channel.basicGet("jobs", true).getBody()));
        }
    }
}
