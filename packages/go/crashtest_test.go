package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rows appends rows to a log, with a sync of each or without.
func rows(dir string, ack func(string), sync bool) {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	for row := 0; row < 3; row++ {
		if _, err := fmt.Fprintf(log, "row %d\n", row); err != nil {
			panic(err)
		}
		if sync {
			if err := log.Sync(); err != nil {
				panic(err)
			}
		}
		ack(fmt.Sprint(row))
	}
}

func careful(dir string, ack func(string)) { rows(dir, ack, true) }
func hasty(dir string, ack func(string))   { rows(dir, ack, false) }

func rowsAreThere(dir string, acked []string) error {
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if there := strings.Count(string(text), "\n"); there < len(acked) {
		return fmt.Errorf("%d rows of %d", there, len(acked))
	}
	return nil
}

func TestSyncedRowsSurvive(t *testing.T) {
	Run(t, careful, rowsAreThere)
}

func TestSubtests(t *testing.T) {
	t.Run("with a name (of its own)", func(t *testing.T) { Run(t, careful, rowsAreThere) })
}

// TestLost is a crash test that fails. TestRowsWithoutASyncAreLost runs it and expects that.
func TestLost(t *testing.T) {
	if os.Getenv(roleVariable) == "" {
		t.Skip("it is run by TestRowsWithoutASyncAreLost")
	}
	Run(t, hasty, rowsAreThere)
}

// TestBlind is a crash test whose check cannot fail.
func TestBlind(t *testing.T) {
	if os.Getenv(roleVariable) == "" {
		t.Skip("it is run by TestACheckThatCannotFailIsRefused")
	}
	Run(t, careful, func(string, []string) error { return nil })
}

func TestRowsWithoutASyncAreLost(t *testing.T) {
	out, err := test("TestLost", nil)
	if err == nil || !strings.Contains(out, "RED: bad states on ext4, xfs") {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, `fsync of "log"`) {
		t.Fatalf("the missing call is not named:\n%s", out)
	}
}

func TestACheckThatCannotFailIsRefused(t *testing.T) {
	out, err := test("TestBlind", nil)
	if err == nil || !strings.Contains(out, "your check cannot fail") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestAMissingProgramIsNamed(t *testing.T) {
	t.Setenv("SEEKLESS", "")
	t.Setenv("PATH", "/nowhere")
	if _, err := test("TestLost", nil); err == nil || !strings.Contains(err.Error(), "search path") {
		t.Fatal(err)
	}
}
