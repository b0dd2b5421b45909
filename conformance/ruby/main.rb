# Plays the scenarios one after the other, a line for each, and ends with 0 if all went well.

require "timeout"
require_relative "scenarios"

# A restart of RabbitMQ takes ten seconds on a quiet machine.
RESTART_LIMIT_SECS = 90
# What conformance/run knows as "the filter matches none of these".
NO_SCENARIO_MATCHES = 5

def play(name)
  restarts = name == :recovery
  if restarts && ENV["BROKER_CONTROL"].to_s.empty?
    puts "ruby: #{name} skipped, nothing says how to restart the broker"
    return :skipped
  end
  Timeout.timeout(restarts ? RESTART_LIMIT_SECS : LIMIT_SECS) { Scenarios.new.public_send(name) }
  puts "ruby: #{name} passed"
  :passed
rescue Exception => failure # rubocop:disable Lint/RescueException -- also an assertion that fails
  raise if failure.is_a?(Interrupt)

  puts "ruby: #{name} FAILED\n#{failure.full_message(highlight: false)}"
  :failed
end

$stdout.sync = true
chosen = Scenarios.public_instance_methods(false).select { |name| name.to_s.include?(ARGV.fetch(0, "")) }
counts = chosen.map { |name| play(name) }.tally
summary = %i[passed failed skipped].map { |word| "#{counts.fetch(word, 0)} #{word}" }.join(", ")
File.write(ENV["SUMMARY_FILE"], "#{summary}\n") if ENV["SUMMARY_FILE"]
# A failed scenario may leave a connection open, which must not keep the process.
exit!(chosen.empty? ? NO_SCENARIO_MATCHES : counts.fetch(:failed, 0).clamp(0, 1))
