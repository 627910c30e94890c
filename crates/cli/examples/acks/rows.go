// Rows with checksums: append a row, sync, acknowledge it. The check wants every acknowledged row:
// rows 1 to $SEEKLESS_ACKED. Usage: rows run DIR COUNT | rows check DIR
package main

import (
	"fmt"
	"hash/crc32"
	"log"
	"os"
	"strconv"
	"strings"
)

func row(n int) string {
	return fmt.Sprintf("%d %08x\n", n, crc32.ChecksumIEEE([]byte(fmt.Sprintf("row %d", n))))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// ack returns once the value is recorded. `seekless ack` also writes to a socket.
func ack(value int) {
	acks := must(os.OpenFile(os.Getenv("SEEKLESS_ACKS"), os.O_APPEND|os.O_WRONLY, 0))
	must(fmt.Fprintln(acks, value))
	must(0, acks.Close())
}

func main() {
	if args := os.Args[1:]; len(args) == 3 && args[0] == "run" {
		rows := must(os.OpenFile(args[1]+"/rows", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))
		must(0, must(os.Open(args[1])).Sync()) // The name of the file must be durable, too.
		for n := 1; n <= must(strconv.Atoi(args[2])); n++ {
			must(rows.WriteString(row(n)))
			must(0, rows.Sync())
			ack(n)
		}
	} else if len(args) == 2 && args[0] == "check" {
		acked, _ := strconv.Atoi(os.Getenv("SEEKLESS_ACKED")) // Empty if nothing is.
		found, _ := os.ReadFile(args[1] + "/rows")
		for n, rest := 1, string(found); n <= acked; n++ {
			var whole bool
			if rest, whole = strings.CutPrefix(rest, row(n)); !whole {
				log.Fatalf("row %d is lost or damaged", n)
			}
		}
	} else {
		log.Fatal("usage: rows run DIR COUNT | rows check DIR")
	}
}
