// Workloads and checks of databases, logs and queues in Go, for seekless crash-test.
//
// usage: findings ENGINE setup|run|check DIRECTORY
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Exit codes of a check: acknowledged rows are missing; the database does not open, or holds what
// was never committed.
const (
	lost    = 1
	damaged = 3
)

// rowCount returns how many rows a workload commits: ROWS of the environment, else 12.
func rowCount() int {
	if rows, err := strconv.Atoi(os.Getenv("ROWS")); err == nil {
		return rows
	}
	return 12
}

// An engine is a database that holds rows.
type engine interface {
	// commit stores one row, durably by the documentation of the database.
	commit(number int, content string) error
	// rows returns all rows, after the integrity check of the database, if it has one.
	rows() (map[int]string, error)
	// close ends the use of the database.
	close() error
}

var engines = map[string]func(directory string) (engine, error){
	"badger":       openBadger,
	"bbolt":        openBbolt,
	"bleve":        openBleve,
	"buntdb":       openBuntdb,
	"dque":         openDque,
	"etcd":         openEtcd,
	"goleveldb":    openGoleveldb,
	"nats":         openNats,
	"nats-default": openNatsDefault,
	"pebble":       openPebble,
	"raft-wal":     openRaftWal,
	"tidwall-wal":  openTidwallWal,
}

func main() {
	if len(os.Args) != 4 || engines[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: findings ENGINE setup|run|check DIRECTORY")
		os.Exit(2)
	}
	open, action, directory := engines[os.Args[1]], os.Args[2], os.Args[3]
	if action == "check" {
		code, line := check(open, directory)
		fmt.Println(line)
		os.Exit(code)
	}
	if err := work(open, action, directory); err != nil {
		fmt.Fprintln(os.Stderr, "findings:", err)
		os.Exit(2)
	}
}

// work makes an empty database, or commits the rows.
func work(open func(string) (engine, error), action, directory string) error {
	database, err := open(directory)
	if err != nil {
		return err
	}
	if action == "run" {
		for number := 1; number <= rowCount(); number++ {
			if err := database.commit(number, content(number)); err != nil {
				return err
			}
			if err := acknowledge(number); err != nil {
				return err
			}
		}
	}
	return database.close()
}

// check judges the rows of a state. A panic counts as a database that does not open.
func check(open func(string) (engine, error), directory string) (code int, line string) {
	defer func() {
		if panicked := recover(); panicked != nil {
			code, line = damaged, oneLine("damaged: panic: %v", panicked)
		}
	}()
	database, err := open(directory)
	if err != nil {
		return damaged, oneLine("damaged: does not open: %v", err)
	}
	rows, err := database.rows()
	if err != nil {
		return damaged, oneLine("damaged: %v", err)
	}
	return judge(rows)
}

func oneLine(format string, what any) string {
	return strings.Join(strings.Fields(fmt.Sprintf(format, what)), " ")
}
