# Bunny as its guides and its users use it.

require "bunny"
require "open3"
require "securerandom"

# A machine that does nothing else needs a tenth.
LIMIT_SECS = 20
REPLY_TO = "amq.rabbitmq.reply-to"

# Each public method is a scenario.
class Scenarios
  def hello
    with_channel do |channel|
      queue = channel.queue(unique_name, exclusive: true)
      headers = { "lang" => "en", "stars" => 5, "yes" => true, "tags" => ["a", 2], "inner" => { "big" => 2**40 } }
      sent_at = Time.at(1_700_000_000)
      properties = { content_type: "text/plain", headers: headers, message_id: "m-1", timestamp: sent_at.to_i }
      queue.publish("Hello World!", **properties)

      delivery, properties, body = Messages.of(queue).next

      equal("body", body, "Hello World!")
      equal("redelivered", delivery.redelivered?, false)
      equal("headers", properties.headers, headers)
      equal("message id", properties.message_id, "m-1")
      equal("timestamp", properties.timestamp, sent_at)
      equal("what is left", queue.pop, [nil, nil, nil])
    end
  end

  # Six tasks and three workers with one each, of which one is killed at its task.
  def work_queue
    with_channel do |channel|
      queue = channel.queue(unique_name, durable: true)
      lines = Thread::Queue.new
      workers = Array.new(3) { Worker.new(queue.name, lines) }
      3.times { equal("a worker's first word", take(lines).last, "ready") }
      (1..6).each { |number| queue.publish("task-#{number}", persistent: true) }
      held = Array.new(3) { take(lines) }
      equal("the first three", held.map(&:last).sort, (1..3).map { |number| "received task-#{number} first" })
      equal("workers with a task", held.map(&:first).uniq.size, 3)

      (lost, lost_line), *others = held
      lost.kill

      received = others.map(&:last)
      others.each { |worker, _| worker.go_on }
      done = 0
      while done < 6
        worker, line = take(lines)
        if line.start_with?("done")
          done += 1
        else
          received << line
          worker.go_on
        end
      end
      wanted = (1..6).map { |number| "received task-#{number} first" }
      wanted.map! { |line| line == lost_line ? line.sub("first", "again") : line }
      equal("all tasks of the two that were left", received.sort, wanted)
    ensure
      workers&.each(&:kill)
      queue&.delete
    end
  end

  def fan_out
    with_channel do |channel|
      exchange = channel.fanout(unique_name, auto_delete: true)
      subscribers = Array.new(3) { subscribe(channel, exchange, "") }
      exchange.publish("news", routing_key: "ignored")
      subscribers.each { |messages| expect_keys(messages, "ignored") }
    end
  end

  def routing
    with_channel do |channel|
      exchange = channel.direct(unique_name, auto_delete: true)
      errors = subscribe(channel, exchange, "error")
      everything = subscribe(channel, exchange, "info", "error")
      %w[debug info error info].each { |severity| exchange.publish(severity, routing_key: severity) }
      expect_keys(everything, "info", "error", "info")
      expect_keys(errors, "error")
    end
  end

  def topics
    with_channel do |channel|
      exchange = channel.topic(unique_name, auto_delete: true)
      critical = subscribe(channel, exchange, "*.critical")
      kernel = subscribe(channel, exchange, "kern.#", "kern.critical")
      keys = %w[cron.info cron.critical kern kern.critical kern.disk.full]
      keys.each { |key| exchange.publish("", routing_key: key) }
      expect_keys(critical, "cron.critical", "kern.critical")
      expect_keys(kernel, "kern", "kern.critical", "kern.disk.full")
    end
  end

  def rpc
    with_channel do |channel|
      serving = channel.connection.create_channel
      requests = serving.queue(unique_name, exclusive: true)
      requests.subscribe(manual_ack: true) do |delivery, properties, body|
        serving.default_exchange.publish(
          body.upcase, routing_key: properties.reply_to, correlation_id: properties.correlation_id
        )
        serving.ack(delivery.delivery_tag)
      end

      replies = Messages.of(channel.queue(REPLY_TO, no_declare: true))
      %w[hello world].each do |word|
        request = { routing_key: requests.name, reply_to: REPLY_TO, correlation_id: "id of #{word}" }
        channel.default_exchange.publish(word, **request)
      end
      %w[hello world].each do |word|
        _, properties, body = replies.next
        equal("reply", [properties.correlation_id, body], ["id of #{word}", word.upcase])
      end
    end
  end

  def confirms
    with_channel do |channel|
      channel.confirm_select
      queue = channel.queue(unique_name, durable: true, exclusive: true,
                                         arguments: { "x-max-length" => 2, "x-overflow" => "reject-publish" })
      2.times { |number| queue.publish(number.to_s, persistent: true) }
      equal("confirms", channel.wait_for_confirms, true)
      equal("messages", queue.message_count, 2)

      queue.publish("too many", persistent: true)
      equal("confirms of a full queue", channel.wait_for_confirms, false)
      equal("refused publishes", channel.nacked_set.to_a, [3])

      returned = Thread::Queue.new
      exchange = channel.direct("amq.direct")
      exchange.on_return { |info, _properties, body| returned << [info.reply_code, info.reply_text, body] }
      exchange.publish("lost", routing_key: "nobody", mandatory: true)
      equal("returned", take(returned), [312, "NO_ROUTE", "lost"])
    end
  end

  def transactions
    with_channel do |channel|
      queue = channel.queue(unique_name, exclusive: true)
      channel.tx_select
      queue.publish("dropped")
      channel.tx_rollback
      queue.publish("kept")
      channel.tx_commit
      equal("the message", queue.pop.last, "kept")
      equal("what is left", queue.pop.last, nil)
    end
  end

  def dead_letters
    with_channel do |channel|
      dead = channel.queue("", exclusive: true)
      arguments = { "x-dead-letter-exchange" => "", "x-dead-letter-routing-key" => dead.name }
      queue = channel.queue(unique_name, exclusive: true, arguments: arguments)
      queue.subscribe(manual_ack: true) { |delivery, _, _| channel.reject(delivery.delivery_tag, false) }
      queue.publish("refused")
      _, properties, body = Messages.of(dead).next
      equal("body", body, "refused")
      death = properties.headers["x-death"].first
      equal("death", death.values_at("reason", "queue", "count"), ["rejected", queue.name, 1])
    end
  end

  def channel_errors
    with_channel do |channel|
      name = unique_name
      failing = channel.connection.create_channel
      begin
        failing.queue(name, passive: true)
        raise "a queue that does not exist was found"
      rescue Bunny::NotFound => error
        equal("text", error.message, "NOT_FOUND - no queue '#{name}' in vhost '/'")
      end
      channel.queue(name, exclusive: true)
    end
  end

  def cancel_notification
    with_channel do |channel|
      queue = channel.queue(unique_name, exclusive: true)
      cancelled = Thread::Queue.new
      queue.subscribe(on_cancellation: ->(cancel) { cancelled << cancel.consumer_tag }, consumer_tag: "the-tag") {}
      queue.delete
      equal("cancelled consumer", take(cancelled), "the-tag")
    end
  end

  # A connection that comes back with its topology: exchange, queue, binding and consumer, none of them durable.
  def recovery
    recovered = Thread::Queue.new
    options = { network_recovery_interval: 0.2, recovery_completed: -> { recovered << true }, log_level: :fatal }
    connection = Bunny.new(ENV.fetch("BROKER_URL"), **options).start
    channel = connection.create_channel
    exchange = channel.topic(unique_name, auto_delete: true)
    messages = subscribe(channel, exchange, "news.#")
    exchange.publish("", routing_key: "news.before")
    expect_keys(messages, "news.before")

    output, status = Open3.capture2e("#{ENV.fetch('BROKER_CONTROL')} restart")
    raise "restart: #{output}" unless status.success?

    take(recovered, RESTART_LIMIT_SECS)
    exchange.publish("", routing_key: "news.after")
    expect_keys(messages, "news.after")
    connection.close
  end

  private

  def with_channel
    connection = Bunny.new(ENV.fetch("BROKER_URL"), log_level: :fatal).start
    yield connection.create_channel
  ensure
    connection&.close
  end

  # A name that nobody else uses.
  def unique_name = "conformance-#{SecureRandom.uuid}"

  def subscribe(channel, exchange, *keys)
    queue = channel.queue("", exclusive: true)
    keys.each { |key| queue.bind(exchange, routing_key: key) }
    Messages.of(queue)
  end

  def expect_keys(messages, *wanted)
    equal("routing keys", Array.new(wanted.size) { messages.next.first.routing_key }, wanted)
    raise "a message too many" unless messages.empty?
  end

  def equal(what, got, wanted)
    raise "#{what}: got #{got.inspect}, wanted #{wanted.inspect}" unless got == wanted
  end

  def take(queue, limit_secs = LIMIT_SECS) = Timeout.timeout(limit_secs) { queue.pop }

  # What a consumer with automatic acknowledgements got.
  class Messages
    def self.of(queue)
      messages = new
      queue.subscribe { |*message| messages.put(message) }
      messages
    end

    def initialize = @arrived = Thread::Queue.new
    def put(message) = @arrived << message
    def next = Timeout.timeout(LIMIT_SECS) { @arrived.pop }
    def empty? = @arrived.empty?
  end

  # A worker as a process; what it prints goes to `lines`, with the worker.
  class Worker
    def initialize(queue_name, lines)
      @input, output, @process = Open3.popen2("ruby", "-W1", File.join(__dir__, "worker.rb"), queue_name)
      Thread.new { output.each_line(chomp: true) { |line| lines << [self, line] } }
    end

    def go_on = @input.puts

    def kill
      Process.kill("KILL", @process.pid) if @process.alive?
      @process.join
    end
  end
end
