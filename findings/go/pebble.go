package main

import (
	"encoding/binary"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
)

type pebbleEngine struct{ db *pebble.DB }

// quiet discards the log of Pebble, but for what ends the program.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, words ...any) {
	pebble.DefaultLogger.Fatalf(format, words...)
}

func openPebble(directory string) (engine, error) {
	db, err := pebble.Open(filepath.Join(directory, "db"), &pebble.Options{Logger: quiet{}})
	return &pebbleEngine{db}, err
}

func (e *pebbleEngine) commit(number int, content string) error {
	return e.db.Set(key(number), []byte(content), pebble.Sync)
}

func (e *pebbleEngine) rows() (map[int]string, error) {
	if err := e.db.CheckLevels(nil); err != nil {
		return nil, err
	}
	all, err := e.db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	rows := map[int]string{}
	for all.First(); all.Valid(); all.Next() {
		rows[int(binary.BigEndian.Uint64(all.Key()))] = string(all.Value())
	}
	return rows, all.Close()
}

func (e *pebbleEngine) close() error { return e.db.Close() }
