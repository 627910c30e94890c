package main

import (
	"encoding/binary"
	"path/filepath"

	badger "github.com/dgraph-io/badger/v4"
)

// Badger maps its logs and tables whole, so small ones keep the disk small.
const (
	logBytes   = 2 << 20
	tableBytes = 1 << 20
	valueBytes = 1 << 10
)

type badgerEngine struct{ db *badger.DB }

func openBadger(directory string) (engine, error) {
	options := badger.DefaultOptions(filepath.Join(directory, "db")).WithSyncWrites(true).
		WithLogger(nil).WithValueLogFileSize(logBytes).WithMemTableSize(tableBytes).
		WithValueThreshold(valueBytes).WithMetricsEnabled(false)
	db, err := badger.Open(options)
	return &badgerEngine{db}, err
}

func (e *badgerEngine) commit(number int, content string) error {
	return e.db.Update(func(txn *badger.Txn) error { return txn.Set(key(number), []byte(content)) })
}

func (e *badgerEngine) rows() (map[int]string, error) {
	if err := e.db.VerifyChecksum(); err != nil {
		return nil, err
	}
	rows := map[int]string{}
	err := e.db.View(func(txn *badger.Txn) error {
		all := txn.NewIterator(badger.DefaultIteratorOptions)
		defer all.Close()
		for all.Rewind(); all.Valid(); all.Next() {
			value, err := all.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			rows[int(binary.BigEndian.Uint64(all.Item().Key()))] = string(value)
		}
		return nil
	})
	return rows, err
}

func (e *badgerEngine) close() error { return e.db.Close() }
