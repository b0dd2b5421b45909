import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Envelope;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A consumer that keeps its deliveries for whoever waits for them, and whether it was cancelled. */
final class Inbox extends DefaultConsumer {
    private final BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
    private final BlockingQueue<String> cancels = new LinkedBlockingQueue<>();

    private Inbox(Channel channel) {
        super(channel);
    }

    /** Consumes with automatic acknowledgements. */
    static Inbox of(Channel channel, String queue) throws IOException {
        Inbox inbox = new Inbox(channel);
        channel.basicConsume(queue, true, inbox);
        return inbox;
    }

    /** Consumes a server-named exclusive queue bound by these keys. */
    static Inbox subscribe(Channel channel, String exchange, String... keys) throws IOException {
        String queue = channel.queueDeclare().getQueue();
        for (String key : keys) {
            channel.queueBind(queue, exchange, key);
        }
        return of(channel, queue);
    }

    @Override
    public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
        deliveries.add(new Delivery(envelope, properties, body));
    }

    @Override
    public void handleCancel(String tag) {
        cancels.add(tag);
    }

    Delivery next() throws InterruptedException {
        return Expect.inTime("a delivery", deliveries.poll(Main.LIMIT_SECS, TimeUnit.SECONDS));
    }

    String cancelledTag() throws InterruptedException {
        return Expect.inTime("a cancel", cancels.poll(Main.LIMIT_SECS, TimeUnit.SECONDS));
    }

    void expectKeys(String... wanted) throws InterruptedException {
        List<String> keys = new ArrayList<>();
        while (keys.size() < wanted.length) {
            keys.add(next().getEnvelope().getRoutingKey());
        }
        Expect.equal("routing keys", keys, List.of(wanted));
        Expect.equal("further deliveries", deliveries.size(), 0);
    }

    static String text(Delivery delivery) {
        return new String(delivery.getBody(), StandardCharsets.UTF_8);
    }
}
