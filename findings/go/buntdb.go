package main

import (
	"path/filepath"
	"strconv"

	"github.com/tidwall/buntdb"
)

// shrinkEvery is how many rows are between two calls of Shrink, which rewrites the file.
const shrinkEvery = 3

type buntdbEngine struct{ db *buntdb.DB }

func openBuntdb(directory string) (engine, error) {
	db, err := buntdb.Open(filepath.Join(directory, "d.db"))
	if err != nil {
		return nil, err
	}
	config := buntdb.Config{SyncPolicy: buntdb.Always, AutoShrinkDisabled: true}
	return &buntdbEngine{db}, db.SetConfig(config)
}

func (e *buntdbEngine) commit(number int, content string) error {
	err := e.db.Update(func(tx *buntdb.Tx) error {
		_, _, err := tx.Set(strconv.Itoa(number), content, nil)
		return err
	})
	if err == nil && number%shrinkEvery == 0 {
		err = e.db.Shrink()
	}
	return err
}

func (e *buntdbEngine) rows() (map[int]string, error) {
	rows := map[int]string{}
	err := e.db.View(func(tx *buntdb.Tx) error {
		return tx.Ascend("", func(key, value string) bool {
			number, _ := strconv.Atoi(key)
			rows[number] = value
			return true
		})
	})
	return rows, err
}

func (e *buntdbEngine) close() error { return e.db.Close() }
