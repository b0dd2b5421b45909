import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** One connection each, and names that nobody else uses. */
final class Scenarios {
    private Scenarios() {}

    interface Play {
        void with(Channel channel, String name) throws Exception;
    }

    static ConnectionFactory factory() throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(System.getenv("BROKER_URL"));
        return factory;
    }

    static void play(Play play) throws Exception {
        try (Connection connection = factory().newConnection();
                Channel channel = connection.createChannel()) {
            play.with(channel, uniqueName());
        }
    }

    static String uniqueName() {
        return "conformance-" + UUID.randomUUID();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void hello() throws Exception {
        play((channel, queue) -> {
            channel.queueDeclare(queue, false, true, false, null);
            Map<String, Object> headers =
                    Map.of("lang", "en", "stars", 5, "big", 1L << 40, "yes", true, "tags", List.of(1, 2));
            AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
                    .contentType("text/plain")
                    .headers(headers)
                    .messageId("m-1")
                    .timestamp(new Date(1_700_000_000_000L))
                    .build();
            channel.basicPublish("", queue, properties, bytes("Hello World!"));

            Delivery delivery = Inbox.of(channel, queue).next();

            Expect.equal("body", Inbox.text(delivery), "Hello World!");
            Expect.equal("redelivered", delivery.getEnvelope().isRedeliver(), false);
            Expect.equal("message id", delivery.getProperties().getMessageId(), "m-1");
            Expect.equal("timestamp", delivery.getProperties().getTimestamp(), new Date(1_700_000_000_000L));
            Map<String, Object> received = delivery.getProperties().getHeaders();
            Expect.equal("names of headers", received.keySet(), headers.keySet());
            Expect.equal("a text", ((LongString) received.get("lang")).toString(), "en");
            for (String name : List.of("stars", "big", "yes", "tags")) {
                Expect.equal(name, received.get(name), headers.get(name));
            }
            Expect.equal("one more message", channel.basicGet(queue, true), null);
        });
    }

    static void fanOut() throws Exception {
        play((channel, exchange) -> {
            channel.exchangeDeclare(exchange, BuiltinExchangeType.FANOUT, false, true, null);
            List<Inbox> subscribers = List.of(
                    Inbox.subscribe(channel, exchange, ""),
                    Inbox.subscribe(channel, exchange, ""),
                    Inbox.subscribe(channel, exchange, ""));
            channel.basicPublish(exchange, "ignored", null, bytes("news"));
            for (Inbox inbox : subscribers) {
                inbox.expectKeys("ignored");
            }
        });
    }

    static void routing() throws Exception {
        play((channel, exchange) -> {
            channel.exchangeDeclare(exchange, BuiltinExchangeType.DIRECT, false, true, null);
            Inbox errors = Inbox.subscribe(channel, exchange, "error");
            Inbox everything = Inbox.subscribe(channel, exchange, "info", "error");
            for (String severity : List.of("debug", "info", "error", "info")) {
                channel.basicPublish(exchange, severity, null, bytes(severity));
            }
            everything.expectKeys("info", "error", "info");
            errors.expectKeys("error");
        });
    }

    static void topics() throws Exception {
        play((channel, exchange) -> {
            channel.exchangeDeclare(exchange, BuiltinExchangeType.TOPIC, false, true, null);
            Inbox critical = Inbox.subscribe(channel, exchange, "*.critical");
            Inbox kernel = Inbox.subscribe(channel, exchange, "kern.#", "kern.critical");
            for (String key : List.of("cron.info", "cron.critical", "kern", "kern.critical", "kern.disk.full")) {
                channel.basicPublish(exchange, key, null, bytes(""));
            }
            critical.expectKeys("cron.critical", "kern.critical");
            kernel.expectKeys("kern", "kern.critical", "kern.disk.full");
        });
    }

    static void headers() throws Exception {
        play((channel, exchange) -> {
            channel.exchangeDeclare(exchange, BuiltinExchangeType.HEADERS, false, true, null);
            String queue = channel.queueDeclare().getQueue();
            channel.queueBind(queue, exchange, "", Map.of("x-match", "all", "format", "pdf", "pages", 3));
            Inbox inbox = Inbox.of(channel, queue);
            for (Map<String, Object> headers : List.<Map<String, Object>>of(
                    Map.of("format", "pdf", "pages", 4),
                    Map.of("format", "pdf"),
                    Map.of("format", "pdf", "pages", 3, "x", 1))) {
                AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().headers(headers).build();
                channel.basicPublish(exchange, String.valueOf(headers.size()), properties, bytes(""));
            }
            inbox.expectKeys("3");
        });
    }

    /** With the client's own RPC classes, which use direct reply-to. */
    static void rpc() throws Exception {
        play((channel, queue) -> {
            Channel serving = channel.getConnection().createChannel();
            serving.queueDeclare(queue, false, true, false, null);
            RpcServer server = new RpcServer(serving, queue) {
                @Override
                public byte[] handleCall(Delivery request, AMQP.BasicProperties replyProperties) {
                    return bytes(Inbox.text(request).toUpperCase(Locale.ROOT));
                }
            };
            Thread thread = new Thread(() -> {
                try {
                    server.mainloop();
                } catch (IOException | ShutdownSignalException end) {
                    // The scenario is over.
                }
            });
            thread.setDaemon(true);
            thread.start();

            RpcClientParams parameters = new RpcClientParams()
                    .channel(channel)
                    .exchange("")
                    .routingKey(queue)
                    .replyTo("amq.rabbitmq.reply-to")
                    .timeout(Main.LIMIT_SECS * 1000);
            try (RpcClient client = new RpcClient(parameters)) {
                Expect.equal("first reply", client.stringCall("hello"), "HELLO");
                Expect.equal("second reply", client.stringCall("world"), "WORLD");
            }
            server.close();
        });
    }

    static void confirms() throws Exception {
        play((channel, queue) -> {
            channel.queueDeclare(queue, true, true, false, null);
            channel.confirmSelect();
            for (int number = 0; number < 100; number++) {
                channel.basicPublish("", queue, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes("message " + number));
            }
            channel.waitForConfirmsOrDie(Main.LIMIT_SECS * 1000L);
            Expect.equal("messages", channel.messageCount(queue), 100L);

            BlockingQueue<Return> returned = new LinkedBlockingQueue<>();
            channel.addReturnListener(returned::add);
            channel.basicPublish("amq.direct", "nobody", true, null, bytes("lost"));
            Expect.equal("the returned one is confirmed", channel.waitForConfirms(Main.LIMIT_SECS * 1000L), true);
            Return first = Expect.inTime("a return", returned.poll(Main.LIMIT_SECS, TimeUnit.SECONDS));
            Expect.equal("why", first.getReplyCode() + " " + first.getReplyText(), "312 NO_ROUTE");
        });
    }

    static void confirmsOneByOne() throws Exception {
        play((channel, queue) -> {
            channel.queueDeclare(queue, true, true, false, Map.of("x-max-length", 2, "x-overflow", "reject-publish"));
            channel.confirmSelect();
            BlockingQueue<String> answers = new LinkedBlockingQueue<>();
            channel.addConfirmListener(
                    (number, multiple) -> answers.add("ack " + number),
                    (number, multiple) -> answers.add("nack " + number));
            for (int number = 1; number <= 3; number++) {
                Expect.equal("number of the publish", channel.getNextPublishSeqNo(), (long) number);
                channel.basicPublish("", queue, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes("message"));
                String answer = Expect.inTime("an answer", answers.poll(Main.LIMIT_SECS, TimeUnit.SECONDS));
                Expect.equal("answer", answer, (number < 3 ? "ack " : "nack ") + number);
            }
        });
    }

    static void transactions() throws Exception {
        play((channel, queue) -> {
            channel.queueDeclare(queue, false, true, false, null);
            channel.txSelect();
            channel.basicPublish("", queue, null, bytes("dropped"));
            channel.txRollback();
            channel.basicPublish("", queue, null, bytes("kept"));
            channel.txCommit();
            GetResponse kept = channel.basicGet(queue, false);
            Expect.equal("body", new String(kept.getBody(), StandardCharsets.UTF_8), "kept");
            Expect.equal("messages behind it", kept.getMessageCount(), 0);
            channel.basicAck(kept.getEnvelope().getDeliveryTag(), false);
            channel.txCommit();
        });
    }

    static void deadLetters() throws Exception {
        play((channel, queue) -> {
            String dead = channel.queueDeclare().getQueue();
            channel.queueDeclare(queue, false, true, false,
                    Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead, "x-message-ttl", 10));
            channel.basicPublish("", queue, null, bytes("late"));
            Delivery letter = Inbox.of(channel, dead).next();
            Expect.equal("body", Inbox.text(letter), "late");
            List<?> deaths = (List<?>) letter.getProperties().getHeaders().get("x-death");
            Map<?, ?> death = (Map<?, ?>) deaths.get(0);
            Expect.equal("reason", String.valueOf(death.get("reason")), "expired");
            Expect.equal("queue", String.valueOf(death.get("queue")), queue);
            Expect.equal("count", death.get("count"), 1L);
        });
    }

    static void channelErrors() throws Exception {
        play((channel, queue) -> {
            Channel failing = channel.getConnection().createChannel();
            try {
                failing.queueDeclarePassive(queue);
                throw new AssertionError("a queue that does not exist was found");
            } catch (IOException expected) {
                ShutdownSignalException signal = (ShutdownSignalException) expected.getCause();
                AMQP.Channel.Close close = (AMQP.Channel.Close) signal.getReason();
                Expect.equal("code", close.getReplyCode(), AMQP.NOT_FOUND);
                Expect.equal("text", close.getReplyText(), "NOT_FOUND - no queue '" + queue + "' in vhost '/'");
            }
            channel.queueDeclare(queue, false, true, false, null);
        });
    }

    static void cancelNotification() throws Exception {
        play((channel, queue) -> {
            channel.queueDeclare(queue, false, true, false, null);
            Inbox inbox = Inbox.of(channel, queue);
            channel.queueDelete(queue);
            Expect.equal("tag", inbox.cancelledTag(), inbox.getConsumerTag());
        });
    }
}
