package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const replyTo = "amq.rabbitmq.reply-to"

var background = context.Background()

// A name that nobody else uses.
func uniqueName() string {
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		panic(err)
	}
	return fmt.Sprintf("conformance-%x", random)
}

// Plays with a channel on a connection of its own.
func withChannel(play func(conn *amqp.Connection, ch *amqp.Channel) error) error {
	conn, err := amqp.Dial(os.Getenv("BROKER_URL"))
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	return play(conn, ch)
}

func send(ch *amqp.Channel, exchange, key, body string) error {
	return ch.PublishWithContext(background, exchange, key, false, false, amqp.Publishing{
		ContentType:  "text/plain",
		DeliveryMode: amqp.Persistent,
		Body:         []byte(body),
	})
}

func next(deliveries <-chan amqp.Delivery) (amqp.Delivery, error) {
	select {
	case delivery, isOpen := <-deliveries:
		if !isOpen {
			return delivery, errors.New("the consumer has ended")
		}
		return delivery, nil
	case <-time.After(limit):
		return amqp.Delivery{}, errors.New("no delivery")
	}
}

func expect(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

// The routing keys of so many deliveries.
func expectKeys(deliveries <-chan amqp.Delivery, want ...string) error {
	var got []string
	for range want {
		delivery, err := next(deliveries)
		if err != nil {
			return fmt.Errorf("after %v: %w", got, err)
		}
		got = append(got, delivery.RoutingKey)
	}
	if err := expect("routing keys", got, want); err != nil {
		return err
	}
	select {
	case surplus := <-deliveries:
		return fmt.Errorf("a delivery too many: %s", surplus.RoutingKey)
	default:
		return nil
	}
}

// A subscriber's own queue, bound by these keys.
func subscribe(ch *amqp.Channel, exchange string, keys ...string) (<-chan amqp.Delivery, error) {
	queue, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if err := ch.QueueBind(queue.Name, key, exchange, false, nil); err != nil {
			return nil, err
		}
	}
	return ch.Consume(queue.Name, "", true, false, false, false, nil)
}

func hello() error {
	return withChannel(func(_ *amqp.Connection, ch *amqp.Channel) error {
		queue, err := ch.QueueDeclare(uniqueName(), false, false, true, false, nil)
		if err != nil {
			return err
		}
		headers := amqp.Table{
			"lang": "en", "stars": int32(5), "big": int64(1) << 40, "half": 0.5,
			"tags": []any{"a", "b"}, "inner": amqp.Table{"yes": true}, "raw": []byte{0, 255}, "nothing": nil,
			"since": time.Unix(1_700_000_000, 0),
		}
		err = ch.PublishWithContext(background, "", queue.Name, false, false, amqp.Publishing{
			ContentType: "text/plain", MessageId: "m-1", Headers: headers, Body: []byte("Hello World!"),
			Timestamp: time.Unix(1_700_000_000, 0), Priority: 3,
		})
		if err != nil {
			return err
		}
		deliveries, err := ch.Consume(queue.Name, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		got, err := next(deliveries)
		if err != nil {
			return err
		}
		if err := got.Ack(false); err != nil {
			return err
		}
		return errors.Join(
			expect("body", string(got.Body), "Hello World!"),
			expect("properties", []any{got.ContentType, got.MessageId, got.Priority}, []any{"text/plain", "m-1", uint8(3)}),
			expect("timestamp", got.Timestamp.Unix(), int64(1_700_000_000)),
			expect("headers", got.Headers, headers),
			expect("redelivered", got.Redelivered, false),
		)
	})
}

func fanOut() error {
	return withChannel(func(_ *amqp.Connection, ch *amqp.Channel) error {
		exchange := uniqueName()
		if err := ch.ExchangeDeclare(exchange, amqp.ExchangeFanout, false, true, false, false, nil); err != nil {
			return err
		}
		var subscribers []<-chan amqp.Delivery
		for range [3]struct{}{} {
			deliveries, err := subscribe(ch, exchange, "")
			if err != nil {
				return err
			}
			subscribers = append(subscribers, deliveries)
		}
		if err := send(ch, exchange, "ignored", "news"); err != nil {
			return err
		}
		for _, deliveries := range subscribers {
			if err := expectKeys(deliveries, "ignored"); err != nil {
				return err
			}
		}
		return nil
	})
}

func routing() error {
	return withChannel(func(_ *amqp.Connection, ch *amqp.Channel) error {
		exchange := uniqueName()
		if err := ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, false, true, false, false, nil); err != nil {
			return err
		}
		errorsOnly, err := subscribe(ch, exchange, "error")
		if err != nil {
			return err
		}
		everything, err := subscribe(ch, exchange, "info", "error")
		if err != nil {
			return err
		}
		for _, severity := range []string{"debug", "info", "error", "info"} {
			if err := send(ch, exchange, severity, severity); err != nil {
				return err
			}
		}
		return errors.Join(expectKeys(everything, "info", "error", "info"), expectKeys(errorsOnly, "error"))
	})
}

func topics() error {
	return withChannel(func(_ *amqp.Connection, ch *amqp.Channel) error {
		exchange := uniqueName()
		if err := ch.ExchangeDeclare(exchange, amqp.ExchangeTopic, false, true, false, false, nil); err != nil {
			return err
		}
		critical, err := subscribe(ch, exchange, "*.critical")
		if err != nil {
			return err
		}
		kernel, err := subscribe(ch, exchange, "kern.#", "kern.critical")
		if err != nil {
			return err
		}
		for _, key := range []string{"cron.info", "cron.critical", "kern", "kern.critical", "kern.disk.full"} {
			if err := send(ch, exchange, key, ""); err != nil {
				return err
			}
		}
		return errors.Join(
			expectKeys(critical, "cron.critical", "kern.critical"),
			expectKeys(kernel, "kern", "kern.critical", "kern.disk.full"),
		)
	})
}

// Answers requests in capitals until its connection ends.
func shout(server *amqp.Channel, requests <-chan amqp.Delivery) {
	for request := range requests {
		reply := amqp.Publishing{CorrelationId: request.CorrelationId, Body: bytes.ToUpper(request.Body)}
		if server.PublishWithContext(background, "", request.ReplyTo, false, false, reply) == nil {
			_ = request.Ack(false)
		}
	}
}

func rpc() error {
	return withChannel(func(conn *amqp.Connection, ch *amqp.Channel) error {
		server, err := conn.Channel()
		if err != nil {
			return err
		}
		queue, err := server.QueueDeclare(uniqueName(), false, false, true, false, nil)
		if err != nil {
			return err
		}
		if err := server.Qos(1, 0, false); err != nil {
			return err
		}
		requests, err := server.Consume(queue.Name, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		go shout(server, requests)

		replies, err := ch.Consume(replyTo, "", true, false, false, false, nil)
		if err != nil {
			return err
		}
		for _, word := range []string{"hello", "world"} {
			request := amqp.Publishing{CorrelationId: "id of " + word, ReplyTo: replyTo, Body: []byte(word)}
			if err := ch.PublishWithContext(background, "", queue.Name, false, false, request); err != nil {
				return err
			}
		}
		for _, word := range []string{"hello", "world"} {
			reply, err := next(replies)
			if err != nil {
				return err
			}
			got := []string{reply.CorrelationId, string(reply.Body)}
			if err := expect("reply", got, []string{"id of " + word, strings.ToUpper(word)}); err != nil {
				return err
			}
		}
		return nil
	})
}

func confirms() error {
	return withChannel(func(_ *amqp.Connection, ch *amqp.Channel) error {
		full := amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish"}
		queue, err := ch.QueueDeclare(uniqueName(), false, false, true, false, full)
		if err != nil {
			return err
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		returns := ch.NotifyReturn(make(chan amqp.Return, 1))
		ctx, cancel := context.WithTimeout(background, limit)
		defer cancel()

		publish := func(exchange, key, body string) (bool, error) {
			message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
			confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, message)
			if err != nil {
				return false, err
			}
			return confirm.WaitContext(ctx)
		}
		var answers []bool
		for _, body := range []string{"one", "two", "three"} {
			isAck, err := publish("", queue.Name, body)
			if err != nil {
				return err
			}
			answers = append(answers, isAck)
		}
		if err := expect("confirms of a queue for two", answers, []bool{true, true, false}); err != nil {
			return err
		}
		isAck, err := publish("amq.direct", "nobody", "lost")
		if err != nil {
			return err
		}
		returned := <-returns
		return errors.Join(
			expect("confirm of a returned message", isAck, true),
			expect("return", []any{returned.ReplyCode, returned.ReplyText, string(returned.Body)},
				[]any{uint16(312), "NO_ROUTE", "lost"}),
		)
	})
}

func transactions() error {
	return withChannel(func(_ *amqp.Connection, ch *amqp.Channel) error {
		queue, err := ch.QueueDeclare(uniqueName(), false, false, true, false, nil)
		if err != nil {
			return err
		}
		if err := ch.Tx(); err != nil {
			return err
		}
		if err := send(ch, "", queue.Name, "dropped"); err != nil {
			return err
		}
		if err := ch.TxRollback(); err != nil {
			return err
		}
		if err := send(ch, "", queue.Name, "kept"); err != nil {
			return err
		}
		if err := ch.TxCommit(); err != nil {
			return err
		}
		message, isThere, err := ch.Get(queue.Name, true)
		if err != nil {
			return err
		}
		_, isMore, err := ch.Get(queue.Name, true)
		if err != nil {
			return err
		}
		return expect("messages", []any{isThere, string(message.Body), isMore}, []any{true, "kept", false})
	})
}

func channelErrors() error {
	return withChannel(func(conn *amqp.Connection, ch *amqp.Channel) error {
		name := uniqueName()
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		if _, err := ch.QueueDeclarePassive(name, false, false, false, false, nil); err == nil {
			return errors.New("a queue that does not exist was found")
		}
		reason := <-closed
		text := fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '/'", name)
		if err := expect("reason", []any{reason.Code, reason.Reason}, []any{amqp.NotFound, text}); err != nil {
			return err
		}
		another, err := conn.Channel()
		if err != nil {
			return err
		}
		_, err = another.QueueDeclare(name, false, false, true, false, nil)
		return err
	})
}

func cancelNotification() error {
	return withChannel(func(_ *amqp.Connection, ch *amqp.Channel) error {
		queue, err := ch.QueueDeclare(uniqueName(), false, false, true, false, nil)
		if err != nil {
			return err
		}
		cancelled := ch.NotifyCancel(make(chan string, 1))
		deliveries, err := ch.Consume(queue.Name, "the-tag", false, false, false, false, nil)
		if err != nil {
			return err
		}
		if _, err := ch.QueueDelete(queue.Name, false, false, false); err != nil {
			return err
		}
		if err := expect("cancelled consumer", <-cancelled, "the-tag"); err != nil {
			return err
		}
		_, isOpen := <-deliveries
		return expect("its deliveries are open", isOpen, false)
	})
}
