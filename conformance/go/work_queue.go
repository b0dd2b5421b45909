package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Works on tasks, one at a time; a task is done when a line comes on the standard input.
func work(queue string) error {
	return withChannel(func(_ *amqp.Connection, ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			return err
		}
		if err := ch.Qos(1, 0, false); err != nil {
			return err
		}
		tasks, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		input := bufio.NewReader(os.Stdin)
		for task := range tasks {
			again := map[bool]string{false: "first", true: "again"}[task.Redelivered]
			fmt.Printf("received %s %s\n", task.Body, again)
			if _, err := input.ReadString('\n'); err != nil {
				return err
			}
			if err := task.Ack(false); err != nil {
				return err
			}
			fmt.Printf("done %s\n", task.Body)
		}
		return errors.New("the consumer has ended")
	})
}

// A worker as a process, what it prints, and how it is told that its task is done.
type worker struct {
	command *exec.Cmd
	input   io.Writer
	lines   chan string
}

func startWorker(queue string) (*worker, error) {
	command := exec.Command(os.Args[0], "worker", queue)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	w := &worker{command: command, input: input, lines: make(chan string, 100)}
	go func() {
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			w.lines <- scanner.Text()
		}
		close(w.lines)
	}()
	if line, err := w.next(); err != nil || line != "ready" {
		w.kill()
		return nil, fmt.Errorf("a worker did not start: %q, %v", line, err)
	}
	return w, nil
}

func (w *worker) next() (string, error) {
	select {
	case line, isOpen := <-w.lines:
		if !isOpen {
			return "", errors.New("the worker has ended")
		}
		return line, nil
	case <-time.After(limit):
		return "", errors.New("the worker says nothing")
	}
}

func (w *worker) kill() {
	_ = w.command.Process.Kill()
	_ = w.command.Wait()
}

// Six tasks and three workers with one each, of which one is killed at its task.
func workQueue() error {
	return withChannel(func(_ *amqp.Connection, ch *amqp.Channel) error {
		queue := uniqueName()
		if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			return err
		}
		defer ch.QueueDelete(queue, false, false, false)
		var workers []*worker
		for range [3]struct{}{} {
			w, err := startWorker(queue)
			if err != nil {
				return err
			}
			defer w.kill()
			workers = append(workers, w)
		}
		for number := 1; number <= 6; number++ {
			if err := send(ch, "", queue, fmt.Sprintf("task-%d", number)); err != nil {
				return err
			}
		}
		var held []string
		for _, w := range workers {
			line, err := w.next()
			if err != nil {
				return err
			}
			held = append(held, line)
		}
		first := append([]string{}, held...)
		sort.Strings(first)
		want := []string{"received task-1 first", "received task-2 first", "received task-3 first"}
		if err := expect("the first three", first, want); err != nil {
			return err
		}

		workers[0].kill()

		received, err := finish(workers[1:], held[1:], 6)
		if err != nil {
			return err
		}
		sort.Strings(received)
		want = nil
		for number := 1; number <= 6; number++ {
			line := fmt.Sprintf("received task-%d first", number)
			if line == held[0] {
				line = strings.Replace(line, "first", "again", 1)
			}
			want = append(want, line)
		}
		return expect("all tasks of the two that were left", received, want)
	})
}

// Lets workers that hold a task each finish until `count` tasks are done; returns all that they received.
func finish(workers []*worker, received []string, count int) ([]string, error) {
	for _, w := range workers {
		fmt.Fprintln(w.input)
	}
	for done := 0; done < count; {
		var line string
		var from *worker
		var isOpen bool
		select {
		case line, isOpen = <-workers[0].lines:
			from = workers[0]
		case line, isOpen = <-workers[1].lines:
			from = workers[1]
		case <-time.After(limit):
			return nil, fmt.Errorf("only %d tasks done", done)
		}
		switch {
		case !isOpen:
			return nil, errors.New("a worker has ended")
		case strings.HasPrefix(line, "done"):
			done++
		default:
			received = append(received, line)
			fmt.Fprintln(from.input)
		}
	}
	return received, nil
}
