import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoverableConnection;
import com.rabbitmq.client.RecoveryListener;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A connection that comes back with its topology: exchange, queue, binding and consumer, none of them durable. */
final class Recovery {
    private Recovery() {}

    static String control() {
        String control = System.getenv("BROKER_CONTROL");
        return control == null ? "" : control;
    }

    static void play() throws Exception {
        ConnectionFactory factory = Scenarios.factory();
        // Both are on by default; only the pause is shorter here.
        factory.setNetworkRecoveryInterval(100);
        String exchange = Scenarios.uniqueName();
        try (RecoverableConnection connection = (RecoverableConnection) factory.newConnection()) {
            CountDownLatch recovered = new CountDownLatch(1);
            connection.addRecoveryListener(new RecoveryListener() {
                @Override
                public void handleRecovery(Recoverable recoverable) {
                    recovered.countDown();
                }

                @Override
                public void handleRecoveryStarted(Recoverable recoverable) {}
            });
            Channel channel = connection.createChannel();
            channel.exchangeDeclare(exchange, BuiltinExchangeType.TOPIC, false, true, null);
            Inbox inbox = Inbox.subscribe(channel, exchange, "news.#");
            channel.basicPublish(exchange, "news.before", null, Scenarios.bytes(""));
            inbox.expectKeys("news.before");

            restart();
            if (!recovered.await(Main.RESTART_LIMIT_SECS, TimeUnit.SECONDS)) {
                throw new AssertionError("the connection did not come back");
            }

            channel.confirmSelect();
            channel.basicPublish(exchange, "news.after", null, Scenarios.bytes(""));
            channel.waitForConfirmsOrDie(Main.LIMIT_SECS * 1000L);
            inbox.expectKeys("news.after");
        }
    }

    private static void restart() throws Exception {
        Process process = new ProcessBuilder("sh", "-c", control() + " restart").redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        Expect.equal("exit code of the restart, which said " + output, process.waitFor(), 0);
    }
}
