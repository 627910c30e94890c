package main

import (
	"encoding/binary"
	"path/filepath"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

type goleveldbEngine struct{ db *leveldb.DB }

func openGoleveldb(directory string) (engine, error) {
	// StrictJournal would refuse the torn end of a log, as its documentation says.
	db, err := leveldb.OpenFile(filepath.Join(directory, "db"), nil)
	return &goleveldbEngine{db}, err
}

func (e *goleveldbEngine) commit(number int, content string) error {
	return e.db.Put(key(number), []byte(content), &opt.WriteOptions{Sync: true})
}

func (e *goleveldbEngine) rows() (map[int]string, error) {
	rows := map[int]string{}
	all := e.db.NewIterator(nil, nil)
	defer all.Release()
	for all.Next() {
		rows[int(binary.BigEndian.Uint64(all.Key()))] = string(all.Value())
	}
	return rows, all.Error()
}

func (e *goleveldbEngine) close() error { return e.db.Close() }
