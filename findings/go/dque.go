package main

import (
	"os"
	"path/filepath"

	"github.com/joncrlsn/dque"
)

// rowsPerSegment is how many rows a file of the queue holds.
const rowsPerSegment = 4

type dqueEngine struct{ queue *dque.DQue }

// A queued is a row in the queue.
type queued struct {
	Number  int
	Content string
}

func openDque(directory string) (engine, error) {
	parent := filepath.Join(directory, "queues")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	queue, err := dque.NewOrOpen("q", parent, rowsPerSegment, func() any { return &queued{} })
	return &dqueEngine{queue}, err
}

func (e *dqueEngine) commit(number int, content string) error {
	return e.queue.Enqueue(&queued{number, content})
}

func (e *dqueEngine) rows() (map[int]string, error) {
	rows := map[int]string{}
	for e.queue.Size() > 0 {
		item, err := e.queue.Dequeue()
		if err != nil {
			return nil, err
		}
		row := item.(*queued)
		rows[row.Number] = row.Content
	}
	return rows, nil
}

func (e *dqueEngine) close() error { return e.queue.Close() }
