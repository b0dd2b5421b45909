package jobs

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A broker for all tests of this package.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

var url string

func run(m *testing.M) int {
	leveret := os.Getenv("LEVERET")
	if leveret == "" {
		leveret = "leveret"
	}
	broker := exec.Command(leveret, "--storage", "memory", "--listen", "127.0.0.1:0", "--log-level", "warn")
	broker.Stderr = os.Stderr
	out, err := broker.StdoutPipe()
	if err == nil {
		err = broker.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		_ = broker.Process.Kill()
		_ = broker.Wait()
	}()
	// One line, once clients are accepted: {"amqp":[43671]}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ports struct{ Amqp []int }
	if err == nil {
		err = json.Unmarshal(line, &ports)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no broker:", err)
		return 1
	}
	url = fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", ports.Amqp[0])
	return m.Run()
}

func TestAJobArrives(t *testing.T) {
	connection, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare("jobs", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	job := amqp.Publishing{Body: []byte("one")}
	if err := channel.PublishWithContext(context.Background(), "", "jobs", false, false, job); err != nil {
		t.Fatal(err)
	}
	message, found, err := channel.Get("jobs", true)
	if err != nil || !found || string(message.Body) != "one" {
		t.Fatalf("got %q, %v, %v", message.Body, found, err)
	}
}
