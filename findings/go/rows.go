package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// content returns the 512 characters of a row.
func content(number int) string {
	var text strings.Builder
	for part := range 8 {
		fmt.Fprintf(&text, "%x", sha256.Sum256(fmt.Appendf(nil, "row %d part %d", number, part)))
	}
	return text.String()
}

// acknowledge records that a row is committed.
func acknowledge(number int) error {
	marks, err := os.OpenFile(os.Getenv("SEEKLESS_ACKS"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer marks.Close()
	_, err = fmt.Fprintln(marks, number)
	return err
}

// judge returns the exit code of a check that found these rows, and a line that says why.
func judge(rows map[int]string) (int, string) {
	for number := 1; number <= len(rows); number++ {
		there, ok := rows[number]
		if !ok {
			return damaged, fmt.Sprintf("damaged: row %d is missing, but a later row is there", number)
		}
		if there != content(number) {
			return damaged, fmt.Sprintf("damaged: row %d has other content", number)
		}
	}
	acknowledged, _ := strconv.Atoi(os.Getenv("SEEKLESS_ACKED"))
	if len(rows) < acknowledged {
		return lost, fmt.Sprintf(
			"lost: row %d is acknowledged, row %d is the last one there", acknowledged, len(rows))
	}
	return 0, fmt.Sprintf("good: %d rows", len(rows))
}
