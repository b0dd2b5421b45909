# Works on tasks with Bunny, one at a time; a task is done when a line comes on the standard input.
#
#   BROKER_URL=amqp://guest:guest@localhost ruby worker.rb QUEUE

require "bunny"

$stdout.sync = true
connection = Bunny.new(ENV.fetch("BROKER_URL")).start
channel = connection.create_channel
channel.prefetch(1)
queue = channel.queue(ARGV.fetch(0), durable: true)
queue.subscribe(manual_ack: true) do |delivery, _properties, body|
  puts "received #{body} #{delivery.redelivered? ? 'again' : 'first'}"
  $stdin.gets
  channel.ack(delivery.delivery_tag)
  puts "done #{body}"
end
puts "ready"
sleep
