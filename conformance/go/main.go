// What people do with amqp091-go, as scenarios against the broker at BROKER_URL.
//
//	scenarios [FILTER]       plays those with FILTER in their name, a line for each; ends with 0 if all went well
//	scenarios worker QUEUE   a worker of the work queue
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	// A machine that does nothing else needs a tenth.
	limit = 20 * time.Second
	// A restart of RabbitMQ takes ten seconds on a quiet machine.
	restartLimit = 90 * time.Second
	// What conformance/run knows as "the filter matches none of these".
	noScenarioMatches = 5
)

type scenario struct {
	name     string
	play     func() error
	restarts bool
}

var scenarios = []scenario{
	{name: "hello", play: hello},
	{name: "work_queue", play: workQueue},
	{name: "fan_out", play: fanOut},
	{name: "routing", play: routing},
	{name: "topics", play: topics},
	{name: "rpc", play: rpc},
	{name: "confirms", play: confirms},
	{name: "transactions", play: transactions},
	{name: "channel_errors", play: channelErrors},
	{name: "cancel_notification", play: cancelNotification},
	{name: "recovery", play: recovery, restarts: true},
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "worker" {
		if err := work(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	filter := ""
	if len(os.Args) > 1 {
		filter = os.Args[1]
	}
	os.Exit(playAll(filter))
}

func playAll(filter string) int {
	matched, passed, failed, skipped := 0, 0, 0, 0
	for _, s := range scenarios {
		if !strings.Contains(s.name, filter) {
			continue
		}
		matched++
		if s.restarts && os.Getenv("BROKER_CONTROL") == "" {
			fmt.Printf("go: %s skipped, nothing says how to restart the broker\n", s.name)
			skipped++
		} else if err := inTime(s); err != nil {
			fmt.Printf("go: %s FAILED: %v\n", s.name, err)
			failed++
		} else {
			fmt.Printf("go: %s passed\n", s.name)
			passed++
		}
	}
	if file := os.Getenv("SUMMARY_FILE"); file != "" {
		summary := fmt.Sprintf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
		if err := os.WriteFile(file, []byte(summary), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	switch {
	case matched == 0:
		return noScenarioMatches
	case failed > 0:
		return 1
	}
	return 0
}

// A scenario that hangs has failed; its goroutine is left behind.
func inTime(s scenario) error {
	allowed := limit
	if s.restarts {
		allowed = restartLimit
	}
	done := make(chan error, 1)
	go func() { done <- s.play() }()
	select {
	case err := <-done:
		return err
	case <-time.After(allowed):
		return fmt.Errorf("not at its end after %v", allowed)
	}
}
