package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A connection that comes back with its topology: exchange, queue, binding and consumer, none of them durable.
func recovery() error {
	conn, err := amqp.DialConfig(os.Getenv("BROKER_URL"), amqp.Config{
		Recovery: &amqp.Recovery{
			ReconnectionConfig: &amqp.ReconnectionConfig{MaxRetryCount: 600, RetryInterval: 100 * time.Millisecond},
		},
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	changes := make(chan *amqp.StateChanged, 16)
	conn.NotifyStateChange(changes)
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	exchange := uniqueName()
	if err := ch.ExchangeDeclare(exchange, amqp.ExchangeTopic, false, true, false, false, nil); err != nil {
		return err
	}
	deliveries, err := subscribe(ch, exchange, "news.#")
	if err != nil {
		return err
	}
	if err := send(ch, exchange, "news.before", ""); err != nil {
		return err
	}
	if err := expectKeys(deliveries, "news.before"); err != nil {
		return err
	}

	if output, err := exec.Command("sh", "-c", os.Getenv("BROKER_CONTROL")+" restart").CombinedOutput(); err != nil {
		return fmt.Errorf("restart: %w: %s", err, output)
	}
	if err := waitForOpen(changes); err != nil {
		return err
	}

	if err := send(ch, exchange, "news.after", ""); err != nil {
		return err
	}
	return expectKeys(deliveries, "news.after")
}

func waitForOpen(changes <-chan *amqp.StateChanged) error {
	deadline := time.After(restartLimit)
	for {
		select {
		case change := <-changes:
			if change.To == amqp.StateOpen {
				return nil
			}
			if change.To == amqp.StateClosed {
				return fmt.Errorf("given up: %w", change.Err)
			}
		case <-deadline:
			return errors.New("the connection did not come back")
		}
	}
}
