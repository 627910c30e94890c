package main

import (
	"encoding/binary"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

var bucketName = []byte("rows")

type bboltEngine struct{ db *bolt.DB }

func openBbolt(directory string) (engine, error) {
	db, err := bolt.Open(filepath.Join(directory, "d.bolt"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucketName)
		return err
	})
	return &bboltEngine{db}, err
}

func (e *bboltEngine) commit(number int, content string) error {
	return e.db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketName).Put(key(number), []byte(content))
	})
}

func (e *bboltEngine) rows() (map[int]string, error) {
	rows := map[int]string{}
	err := e.db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		return tx.Bucket(bucketName).ForEach(func(k, v []byte) error {
			rows[int(binary.BigEndian.Uint64(k))] = string(v)
			return nil
		})
	})
	return rows, err
}

func (e *bboltEngine) close() error { return e.db.Close() }

// key returns the number of a row in the byte order that sorts.
func key(number int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(number)) }
