package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// natsTimeout bounds the start of the server, and each request.
const natsTimeout = 30 * time.Second

type natsEngine struct {
	server *server.Server
	client *nats.Conn
	stream nats.JetStreamContext
}

// openNats starts a server of JetStream in this process that syncs always.
func openNats(directory string) (engine, error) {
	return startNats(directory, true)
}

// openNatsDefault starts a server that syncs every two minutes, as it does by default.
func openNatsDefault(directory string) (engine, error) {
	return startNats(directory, false)
}

func startNats(directory string, always bool) (engine, error) {
	options := &server.Options{
		DontListen: true, JetStream: true, NoSigs: true, NoLog: true, SyncAlways: always,
		StoreDir: filepath.Join(directory, "store"), JetStreamMaxMemory: 1 << 20,
		JetStreamMaxStore: 64 << 20,
	}
	process, err := server.NewServer(options)
	if err != nil {
		return nil, err
	}
	process.Start()
	if !process.ReadyForConnections(natsTimeout) {
		return nil, fmt.Errorf("the server does not start")
	}
	client, err := nats.Connect("", nats.InProcessServer(process))
	if err != nil {
		return nil, err
	}
	stream, err := client.JetStream(nats.MaxWait(natsTimeout))
	if err != nil {
		return nil, err
	}
	_, err = stream.AddStream(&nats.StreamConfig{Name: "ROWS", Subjects: []string{"rows"}})
	return &natsEngine{process, client, stream}, err
}

func (e *natsEngine) commit(number int, content string) error {
	_, err := e.stream.Publish("rows", []byte(content))
	return err
}

func (e *natsEngine) rows() (map[int]string, error) {
	info, err := e.stream.StreamInfo("ROWS")
	if err != nil {
		return nil, err
	}
	rows := map[int]string{}
	for number := uint64(1); number <= info.State.LastSeq; number++ {
		message, err := e.stream.GetMsg("ROWS", number)
		if err == nats.ErrMsgNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows[int(number)] = string(message.Data)
	}
	return rows, nil
}

func (e *natsEngine) close() error {
	e.client.Close()
	e.server.Shutdown()
	e.server.WaitForShutdown()
	return nil
}
