package main

import (
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

type raftWal struct{ log *wal.WAL }

func openRaftWal(directory string) (engine, error) {
	path := filepath.Join(directory, "wal")
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	log, err := wal.Open(path, wal.WithSegmentSize(segmentBytes))
	return &raftWal{log}, err
}

func (e *raftWal) commit(number int, content string) error {
	return e.log.StoreLog(&raft.Log{Index: uint64(number), Term: 1, Data: []byte(content)})
}

func (e *raftWal) rows() (map[int]string, error) {
	last, err := e.log.LastIndex()
	if err != nil {
		return nil, err
	}
	rows := map[int]string{}
	for number := uint64(1); number <= last; number++ {
		var entry raft.Log
		if err := e.log.GetLog(number, &entry); err != nil {
			return nil, err
		}
		rows[int(number)] = string(entry.Data)
	}
	return rows, nil
}

func (e *raftWal) close() error { return e.log.Close() }
