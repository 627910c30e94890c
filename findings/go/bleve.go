package main

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/document"
	index "github.com/blevesearch/bleve_index_api"
)

type bleveEngine struct{ index bleve.Index }

func openBleve(directory string) (engine, error) {
	path := filepath.Join(directory, "index")
	if _, err := os.Stat(path); os.IsNotExist(err) {
		index, err := bleve.New(path, bleve.NewIndexMapping())
		return &bleveEngine{index}, err
	}
	index, err := bleve.Open(path)
	return &bleveEngine{index}, err
}

// commit stores one document. Without the option unsafe_batch it waits until it is persisted.
func (e *bleveEngine) commit(number int, content string) error {
	return e.index.Index(strconv.Itoa(number), map[string]string{"content": content})
}

func (e *bleveEngine) rows() (map[int]string, error) {
	count, err := e.index.DocCount()
	if err != nil {
		return nil, err
	}
	rows := map[int]string{}
	for number := 1; len(rows) < int(count) && number <= 1000; number++ {
		found, err := e.index.Document(strconv.Itoa(number))
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		found.(*document.Document).VisitFields(func(field index.Field) {
			rows[number] = string(field.Value())
		})
	}
	return rows, nil
}

func (e *bleveEngine) close() error { return e.index.Close() }
